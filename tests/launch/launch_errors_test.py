"""What goes wrong at bring-up, with three ranks and more: who names the cause, and that nobody waits longer than the deadline.
First argument: the folder of the programs."""

import resource
import socket
import struct
import subprocess
import time

import launch
from launch import Case

DEADLINE = 3


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Errors(Case):
    def start(self, rank, nranks, port, limit=None, **changes):
        def lower():
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))

        env = launch.environment(RANK=str(rank), WORLD_SIZE=str(nranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
                                 HOCKET_INIT_TIMEOUT=str(DEADLINE), **changes)
        return subprocess.Popen([launch.BIN / "launch_rank"], env=env, text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, preexec_fn=lower if limit else None)

    def ends(self, jobs):
        """[(status, errors)] of processes, none of which may take longer than the deadline and 2 s."""
        until = time.monotonic() + DEADLINE + 2
        out = []
        for job in jobs:
            _, text = job.communicate(timeout=max(0.1, until - time.monotonic()))
            out.append((job.returncode, text))
        return out

    def all_fail(self, jobs, *texts):
        """Every rank ends with an error that has all of the texts."""
        for status, text in self.ends(jobs):
            self.assertNotEqual(status, 0, text)
            for t in texts:
                self.assertIn(t, text)

    def test_a_rank_that_comes_late_but_in_time(self):
        port = free_port()
        jobs = [self.start(r, 3, port) for r in (0, 1)]
        time.sleep(DEADLINE / 3)  # the lateness that is tested
        jobs.append(self.start(2, 3, port))
        for status, text in self.ends(jobs):
            self.assertEqual(status, 0, text)

    def test_rank_0_that_comes_late_but_in_time(self):
        port = free_port()
        jobs = [self.start(r, 3, port) for r in (1, 2)]
        time.sleep(DEADLINE / 3)
        jobs.append(self.start(0, 3, port))
        for status, text in self.ends(jobs):
            self.assertEqual(status, 0, text)

    def test_a_rank_that_comes_too_late(self):
        port = free_port()
        self.all_fail([self.start(r, 3, port) for r in (0, 1)],
                      f"rank 2 of 3 did not come within {DEADLINE} s: look at how those processes were started")
        self.all_fail([self.start(2, 3, port)], "rank 2 of 3 could not reach rank 0 at tcp://127.0.0.1:")

    def test_several_that_do_not_come_are_all_named(self):
        port = free_port()
        self.all_fail([self.start(r, 6, port) for r in (0, 2)], f"ranks 1, 3-5 of 6 did not come within {DEADLINE} s")

    def test_a_rank_without_descriptors(self):
        port = free_port()
        jobs = [self.start(r, 4, port, limit=6 if r == 2 else None, HOCKET_TRANSPORT="tcp") for r in range(4)]
        ends = self.ends(jobs)
        self.assertTrue(all(status != 0 for status, _ in ends), ends)
        self.assertIn("this process has no file descriptor left (the limit is 6): raise it, e.g. `ulimit -n 4096`", ends[2][1])
        for r in (0, 1, 3):
            self.assertTrue("no file descriptor left (the limit is 6)" in ends[r][1] or "rank 2" in ends[r][1], ends[r])

    def test_a_rank_of_another_wire_version(self):
        """A rank whose library speaks version 9 of the protocol: it is told, and so is everybody else."""
        port = free_port()
        jobs = [self.start(r, 3, port) for r in (0, 1)]
        until = time.monotonic() + DEADLINE
        while True:
            try:
                other = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE)
                break
            except OSError:
                self.assertLess(time.monotonic(), until)
        with other:
            other.sendall(b"HKTB" + struct.pack("<HHIIQ", 9, 0, 2, 3, 0))
            self.assertEqual(other.recv(4), b"HKTB")
            self.all_fail(jobs, "a process at 127.0.0.1:", "uses another version of Hocket (bring-up protocol 9, here 2)")

    def test_the_same_rank_twice(self):
        port = free_port()
        self.all_fail([self.start(r, 3, port) for r in (0, 1, 1, 2)], "two processes say they are rank 1 of 3: ")

    def test_different_sizes(self):
        port = free_port()
        self.all_fail([self.start(0, 3, port), self.start(1, 3, port), self.start(2, 4, port)],
                      "rank 2", "give all the same WORLD_SIZE")

    def test_a_range_with_too_few_ports(self):
        port = free_port()
        jobs = [self.start(r, 3, port, HOCKET_TRANSPORT="tcp", HOCKET_PORT_RANGE="21600-21601,21603") for r in range(3)]
        self.all_fail(jobs, "HOCKET_PORT_RANGE=21600-21601,21603 has 3 ports, but a host with 3 ranks needs 4: one for each, and "
                            "one for the ranks to meet: give it more")

    def test_a_port_that_another_program_has(self):
        with socket.create_server(("127.0.0.1", 0)) as holder:
            port = holder.getsockname()[1]
            jobs = [self.start(r, 3, port) for r in range(3)]
            ends = self.ends(jobs)
            self.assertIn(f"cannot listen on 127.0.0.1:{port}: the port is taken by another process: end it", ends[0][1])
            for r in (1, 2):
                self.assertIn("something listens at 127.0.0.1:", ends[r][1])


if __name__ == "__main__":
    launch.main()
