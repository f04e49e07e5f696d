"""`hocket run` as its users call it. First argument: the folder of the programs."""

import array
import fcntl
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import termios
import time

import launch
from launch import TOOLS, Case

# Stands for ssh: runs the command line here, in an environment that has nothing of this one but MARK; the host "dead"
# cannot be reached, at "mute" nothing happens, and "ends" loses its connection when the ranks are up.
REMOTE = """#!/bin/sh
host=$1; shift
case $host in
    dead) exit 255 ;;
    mute) exit 0 ;;
    ends) exec 3<&0; env -i PATH="$PATH" MARK="$MARK" sh -c "$*" <&3 3<&- & exec <&- 3<&-; while [ ! -e "$ENDS" ]; do sleep 0.05; done; exit 255 ;;
    user@*) case "$*" in *//user@*) exit 3 ;; esac ;;
esac
exec env -i PATH="$PATH" MARK="$MARK" sh -c "$*"
"""


def alive(mark):
    """Processes whose environment has MARK=mark."""
    out = []
    for folder in pathlib.Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                if f"MARK={mark}\0".encode() in (folder / "environ").read_bytes() and (folder / "cmdline").read_bytes():
                    out.append(folder.name)
            except OSError:
                pass
    return out


class Run(Case):
    MISSING = "network namespaces cannot be made here"

    def hocket(self, *words):
        return [launch.BIN / "hocket", "run", *words]

    def rank(self):
        return launch.BIN / "launch_rank"

    def remote(self):
        script = self.folder / "remote"
        script.write_text(REMOTE)
        script.chmod(0o755)
        return script

    def nothing_left(self, mark, within=5):
        until = time.monotonic() + within
        while alive(mark) and time.monotonic() < until:
            time.sleep(0.02)
        self.assertEqual(alive(mark), [])

    def test_local_ranks_with_prefixes(self):
        run = self.good(*self.hocket("--np", "4", self.rank(), "--rounds", "2"), nranks=4, rounds=2)
        self.assertEqual(set(re.findall(r"(?m)^\[(\d)\] rank \1 of 4", run.stdout)), set("0123"))

    def test_files_instead(self):
        out = self.folder / "out"
        run = self.run_command(*self.hocket("--np", "2", "--output", out, self.rank()))
        self.assertEqual((run.returncode, run.stdout), (0, ""), run.stderr)
        for r in "01":
            self.assertEqual((out / f"rank.{r}").read_text(), f"rank {r} of 2: good, restart 0\n")

    def test_a_rank_that_crashes_is_named_and_the_job_restarted(self):
        file = self.folder / "crashed"
        run = self.good(*self.hocket("--np", "4", "--max-restarts", "1", "--", self.rank(), "--crash-rank", "2",
                                     "--crash-file", file), nranks=4)
        self.assertIn("hocket: rank 2 was ended by signal 9 (Killed); ending the job; it has printed nothing\n", run.stderr)
        self.assertIn("hocket: restart 1 of 1\n", run.stderr)
        self.assertEqual(run.stdout.count("good, restart 1"), 4)

    def test_the_example_goes_on_where_its_checkpoint_is(self):
        """Rank 1 crashes at step 3: the result is that of a run without a crash, and steps 0 to 2 are not done again."""
        for more, begin, restarts in (((), 0, 0), (("3",), 3, 1)):
            file = self.folder / f"model{begin}"
            run = self.run_command(*self.hocket("--no-prefix", "--np", "4", "--max-restarts", "1", "--",
                                                launch.BIN / "example_checkpoint", file, *more))
            # Each step multiplies by 1 + (1 + 2 + 3 + 4).
            self.assertEqual((run.returncode, sorted(run.stdout.splitlines())),
                             (0, [f"rank {r} of 4: steps {begin} to 9, model {11 ** 10}" for r in range(4)]), run.stderr)
            self.assertEqual(run.stderr.count("rank 1 was ended by signal 9 (Killed)"), restarts)
            self.assertEqual(run.stderr.count("hocket: restart 1 of 1\n"), restarts)
        self.assertEqual((self.folder / "model3").read_text(), f"10 {11 ** 10}.000000\n")

    def test_the_first_failure_is_the_status_and_shows_its_last_lines(self):
        run = self.run_command(*self.hocket("--np", "3", "--", "sh", "-c",
                                            'for i in $(seq 20); do echo line $i; done; [ $RANK = 1 ] && exit 7; sleep 60'))
        self.assertEqual(run.returncode, 7)
        self.assertIn("hocket: rank 1 ended with status 7; ending the job; its last lines:\n  | line 11\n", run.stderr)
        self.assertIn("  | line 20\n", run.stderr)
        self.assertNotIn("  | line 10\n", run.stderr)

    def test_a_program_that_is_not_there(self):
        run = self.run_command(*self.hocket("--np", "2", "no-such-program"))
        self.assertEqual(run.returncode, 127)
        self.assertIn("cannot run no-such-program: No such file or directory", run.stderr)

    def test_usage(self):
        for words, text in ((["x"], "say how many ranks to start: --np N here, --hosts a:4,b:4, or --rank-table FILE"),
                            (["--np", "0", "x"], "--np"),
                            (["--np", "2", "--hosts", "a", "x"], "--np, --hosts and --rank-table do not go together"),
                            (["--hosts", "a", "--rank-table", "t", "x"], "--np, --hosts and --rank-table do not go together"),
                            (["--rank-table", "t", "--nnodes", "1:2", "x"], "--nnodes does not go with --rank-table"),
                            (["--np", "1", "--this-host", "x"], "--this-host and --spares are about a rank table"),
                            (["--rank-table", "/none", "x"], "rank table /none: found No such file or directory"),
                            (["--hosts", "a:x", "x"], "--hosts: the hosts 'a:x' do not parse: write host:ranks"),
                            (["--hosts", "a,a", "x"], "--hosts: 'a' occurs twice"),
                            (["--hosts", "a:5000", "x"], "--hosts: 5000 ranks on host a: a host takes 1 to 4096"),
                            (["--hosts", "-oProxyCommand=x", "x"], "do not parse: write host:ranks"),
                            (["--hosts", "a", "--remote", " ", "x"], "--remote is ' ': give the command that runs"),
                            (["--hosts", "a,b", "--nnodes", "3:4", "x"], "--nnodes is '3:4'"),
                            (["--hosts", "a", "-x", "HOCKET_NONE", "x"], "-x HOCKET_NONE: it is not set here; set it, or"),
                            (["--np", "1", "-x", "HOCKET_NONE", "x"], "-x HOCKET_NONE: it is not set here; set it, or"),
                            (["--hosts", "a", "-x", "=b", "x"], "-x is '=b': NAME or NAME=VALUE is expected"),
                            (["--np", "2"], "command")):
            run = self.run_command(*self.hocket(*words))
            self.assertEqual(run.returncode, 2, (words, run.stderr))
            self.assertIn(text, run.stderr)

    def test_nobody_outlives_a_failure(self):
        mark = f"fail.{os.getpid()}"
        command = 'trap "" TERM; (setsid sleep 60 &) ; sleep 60 & [ $RANK = 0 ] && exit 3; wait; sleep 60'
        run = self.run_command(*self.hocket("--np", "2", "--", "bash", "-c", command), timeout=20, MARK=mark)
        self.assertEqual(run.returncode, 3, run.stderr)
        self.assertEqual(alive(mark), [])

    def table(self, *servers):
        """A rank table: ("10.0.0.1", 2) is a server with two devices."""
        rank, entries = 0, []
        for number, (address, size) in enumerate(servers):
            devices = [{"device_id": str(4 + i), "rank_id": str(rank + i), "device_ip": f"10.9.{number}.{i + 1}"} for i in range(size)]
            rank += size
            entries.append({"server_id": f"node_{number}", "host_ip": address, "device": devices})
        file = self.folder / "table.json"
        file.write_text(json.dumps({"version": "1.0", "server_count": str(len(servers)), "server_list": entries,
                                    "status": "completed"}, indent=1))
        return file

    def test_rank_table_of_this_host(self):
        table = self.table(("127.0.0.1", 3))
        for more in ((), ("--this-host",)):
            self.good(*self.hocket("--rank-table", table, *more, "--", self.rank(), "--rounds", "2"), nranks=3, rounds=2,
                      HCCL_IF_BASE_PORT="21700", HOCKET_INIT="file:///left/over", CM_CHIEF_IP="1.2.3.4")
        show = 'echo "$RANK_ID of $RANK_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE, device $DEVICE_ID, $RANK_TABLE_FILE"'
        run = self.run_command(*self.hocket("--no-prefix", "--rank-table", "table.json", "--spares", "1", "--", "sh", "-c", show),
                               cwd=self.folder)
        self.assertEqual(sorted(run.stdout.splitlines()),
                         [f"{r} of 2, {r} of 2, device {4 + r}, {table}" for r in range(2)], run.stderr)
        self.good(*self.hocket("--rank-table", table, "--", self.rank()), nranks=2, HCCL_IF_BASE_PORT="21700", HOCKET_SPARES="1")

    def test_rank_table_that_restarts(self):
        file = self.folder / "crashed"
        run = self.good(*self.hocket("--rank-table", self.table(("127.0.0.1", 3)), "--max-restarts", "1", "--", self.rank(),
                                     "--crash-rank", "1", "--crash-file", file), nranks=3, HCCL_IF_BASE_PORT="21700")
        self.assertEqual(run.stdout.count("good, restart 1"), 3)

    def test_rank_table_of_other_hosts(self):
        table = self.table(("203.0.113.1", 1), ("203.0.113.2", 1))
        run = self.run_command(*self.hocket("--rank-table", table, "--this-host", "--", self.rank()))
        self.assertEqual(run.returncode, 2)
        self.assertIn(f"--this-host: none of the hosts of rank table {table} (203.0.113.1, 203.0.113.2) is this one, which has ", run.stderr)
        run = self.run_command(*self.hocket("--rank-table", table, "--remote", "false", "--", self.rank()))
        self.assertEqual(run.returncode, 1)
        self.assertRegex(run.stderr, r"host 203.0.113.\d could not be brought to start \(false ended with status 1\)")
        self.assertIn(f"start `hocket run --rank-table {table} --this-host` on each", run.stderr)
        # What a launcher says to a host that has another table.
        run = self.run_command(*self.hocket("--rank-table", table, "--server", "7", "--", self.rank()))
        self.assertEqual(run.returncode, 2)
        self.assertIn(f"this host's copy of rank table {table} has no ranks of the job on server 7", run.stderr)
        run = self.run_command(*self.hocket("--rank-table", self.table(("127.0.0.1", 1)), "--spares", "1", "--", self.rank()))
        self.assertEqual(run.returncode, 2)
        self.assertIn("HOCKET_SPARES: found 1, expected fewer than the 1 entries of the table", run.stderr)

    def start(self, mark, *words):
        job = subprocess.Popen([str(w) for w in self.hocket(*words)], stdout=subprocess.PIPE, text=True,
                               env=launch.environment(MARK=mark))
        self.addCleanup(job.stdout.close)
        self.addCleanup(job.kill)
        for _ in range(2):
            self.assertIn("ready", job.stdout.readline())
        return job

    READY = "echo ready; sleep 60 & wait; sleep 60"

    def test_signals_are_passed_on_and_end_the_job(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            mark = f"sig{number}.{os.getpid()}"
            job = self.start(mark, "--np", "2", "--", "bash", "-c", f"trap 'echo got; exit 0' {int(number)}; {self.READY}")
            job.send_signal(number)
            self.assertEqual(job.wait(10), 128 + number)
            self.assertEqual(job.stdout.read().count("got"), 2)
            self.assertEqual(alive(mark), [])

    def test_nobody_outlives_a_launcher_that_is_killed(self):
        for words in (["--np", "2"], ["--hosts", "a:1,b:1", "--remote", self.remote()]):
            mark = f"kill.{len(words)}.{os.getpid()}"
            job = self.start(mark, *words, "--", "sh", "-c", self.READY)
            job.kill()
            job.wait()
            self.nothing_left(mark)

    def test_signals_end_the_job_while_nobody_reads(self):
        """A pager that pauses: what has not been read is dropped, nothing waits for it."""
        for words in (["--np", "2"], ["--hosts", "a:1,b:1", "--remote", self.remote()]):
            mark = f"pager.{len(words)}.{os.getpid()}"
            job = subprocess.Popen([str(w) for w in self.hocket(*words, "--", "sh", "-c", "echo ready; exec yes")],
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=launch.environment(MARK=mark), bufsize=0)
            self.addCleanup(job.stdout.close)
            self.addCleanup(job.kill)
            self.assertIn(b"ready", job.stdout.read(10))
            self.fill(job.stdout)
            job.send_signal(signal.SIGTERM)
            self.assertEqual(job.wait(15), 128 + signal.SIGTERM)
            self.nothing_left(mark)

    def fill(self, pipe):
        """Waits until a pipe is full."""
        size = fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ)
        until = time.monotonic() + 20
        while time.monotonic() < until:
            there = array.array("i", [0])
            fcntl.ioctl(pipe, termios.FIONREAD, there)
            if there[0] > size // 2:
                return
            time.sleep(0.02)
        self.fail("the pipe does not fill")

    def test_a_part_leaves_its_descriptors_as_they_are(self):
        """Standard input and output may be one open file, as below sshd and inetd: all lines arrive, and the last word."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            part = subprocess.Popen([str(w) for w in self.hocket("--leash", "--np", "1", "--meet", "tcp://localhost:1", "--no-prefix",
                                                                  "--", "seq", "200000")],
                                    stdin=theirs, stdout=theirs, stderr=theirs, env=launch.environment())
            self.addCleanup(part.kill)
            theirs.close()
            ours.sendall(b"MARK\0\0")
            time.sleep(0.5)  # for it to fill the socket
            ours.settimeout(30)
            said = b""
            while b"MARK ended" not in said:
                got = ours.recv(1 << 16)
                self.assertNotEqual(got, b"", said[-200:])
                said += got
            self.assertEqual(part.wait(10), 0)
        lines = said.decode().splitlines()
        self.assertEqual(lines, ["MARK begun 0", *map(str, range(1, 200001)), "MARK ended 0"])

    def test_settings_that_do_not_fit(self):
        more = [word for i in range(10) for word in ("-x", f"A{i}={'x' * 120000}")]
        run = self.run_command(*self.hocket("--hosts", "localhost", "--remote", self.remote(), *more, "--", "true"))
        self.assertEqual(run.returncode, 2, run.stderr)
        self.assertRegex(run.stderr, r"cannot start host localhost: its settings have 12\d{5} bytes, more than the \d+ that fit")

    def test_hosts(self):
        run = self.good(*self.hocket("--hosts", "localhost:2,127.0.0.1:1", "--remote", self.remote(), "--", self.rank()),
                        nranks=3)
        self.assertEqual(set(re.findall(r"(?m)^\[(\d)\] rank \1 of 3", run.stdout)), set("012"))

    def test_words_reach_the_other_host_as_they_are(self):
        run = self.run_command(*self.hocket("--hosts", "localhost", "--remote", self.remote(), "-x", "A=b 'c' $d", "--",
                                            "sh", "-c", 'echo "$A|$1"', "x", "it's \"$HOME\""))
        self.assertEqual((run.returncode, run.stdout), (0, "[0] b 'c' $d|it's \"$HOME\"\n"), run.stderr)

    def test_a_rank_on_a_host_that_fails(self):
        mark = f"host.{os.getpid()}"
        run = self.run_command(*self.hocket("--hosts", "localhost:2,127.0.0.1:2", "--remote", self.remote(), "--", "sh",
                                            "-c", "[ $RANK = 3 ] && exit 9; sleep 60"), timeout=20, MARK=mark)
        self.assertEqual(run.returncode, 9, run.stderr)
        self.assertIn("hocket: rank 3 ended with status 9; ending the job", run.stderr)
        self.assertEqual(alive(mark), [])

    def test_every_status_is_the_ranks_own(self):
        """Also the one that ssh has for its own failures; on one host and on two."""
        for status, hosts in ((255, "localhost"), (1, "localhost"), (255, "localhost,127.0.0.1")):
            run = self.run_command(*self.hocket("--hosts", hosts, "--nnodes", "1:2", "--remote", self.remote(), "--", "sh", "-c",
                                                f"[ $RANK = 0 ] && exit {status}; sleep 60"), timeout=20)
            self.assertEqual(run.returncode, status, run.stderr)
            self.assertIn(f"hocket: rank 0 ended with status {status}; ending the job", run.stderr)
            self.assertNotIn("lost", run.stderr)
            self.assertNotIn("hocket-run-", run.stdout + run.stderr)

    def test_what_one_host_has_for_itself_is_not_handed_on(self):
        show = 'echo "$HCCL_IF_IP|$HOCKET_HOST_ID|$HOCKET_SOCKET_IFNAME|$NCCL_SOCKET_FAMILY"'
        run = self.run_command(*self.hocket("--hosts", "localhost", "--remote", self.remote(), "--", "sh", "-c", show),
                               HCCL_IF_IP="10.0.0.1", HOCKET_HOST_ID="here", HOCKET_SOCKET_IFNAME="lo", NCCL_SOCKET_FAMILY="AF_INET")
        self.assertEqual((run.returncode, run.stdout), (0, "[0] ||lo|AF_INET\n"), run.stderr)
        for name in ("HCCL_IF_IP", "HOCKET_HOST_ID"):
            self.assertIn(f"hocket: {name} is this host's alone: the ranks on others do not get it, unless by -x\n", run.stderr)
        run = self.run_command(*self.hocket("--hosts", "localhost", "--remote", self.remote(), "-x", "HCCL_IF_IP", "--", "sh",
                                            "-c", show), HCCL_IF_IP="10.0.0.1")
        self.assertEqual((run.returncode, run.stdout), (0, "[0] 10.0.0.1|||\n"), run.stderr)

        # Set to nothing is set.
        run = self.run_command(*self.hocket("--hosts", "localhost", "--remote", self.remote(), "-x", "EMPTY", "--", "sh", "-c",
                                            'echo "${EMPTY-unset}"'), EMPTY="")
        self.assertEqual((run.returncode, run.stdout), (0, "[0] \n"), run.stderr)

    def test_no_setting_is_in_a_command_line(self):
        """They may hold what is not for all users of a machine."""
        run = self.run_command(*self.hocket("--hosts", "localhost", "--remote", self.remote(), "-x", "WORD=sesame", "--", "sh",
                                            "-c", 'echo $WORD; cat /proc/*/cmdline 2>/dev/null | tr "\\0" " " | grep -c WORD=[s]esame'))
        # The launcher's own arguments are the user's.
        self.assertEqual(run.stdout, "[0] sesame\n[0] 1\n", run.stderr)

    def test_ports_of_the_job(self):
        run = self.good(*self.hocket("--hosts", "localhost:2,127.0.0.1:1", "--remote", self.remote(), "--", "sh", "-c",
                                     f'echo "$HOCKET_INIT"; exec {self.rank()}'), nranks=3, HOCKET_PORT_RANGE="21500-21509")
        self.assertRegex(run.stdout, r"\] tcp://localhost:2150\d\n")
        run = self.run_command(*self.hocket("--hosts", "a:3,b:4", "--remote", self.remote(), "x"),
                               HOCKET_PORT_RANGE="21500-21502,21600")
        self.assertEqual(run.returncode, 2)
        self.assertIn("HOCKET_PORT_RANGE=21500-21502,21600 has 4 ports, but a host with 4 ranks needs 5: one for each, and one "
                      "for the ranks to meet: give it more", run.stderr)

    def elastic(self, hosts, nnodes, *more, **how):
        return self.hocket("--hosts", hosts, "--nnodes", nnodes, "--remote", self.remote(), *more, "--", self.rank())

    def test_elastic_goes_on_without_a_host(self):
        for host in ("dead", "mute"):
            run = self.good(*self.elastic(f"localhost:2,{host}:1", "1:2"), nranks=2)
            self.assertIn(f"hocket: host {host} could not be brought to start (", run.stderr)
            self.assertIn(f"hocket: host {host} is lost; going on with 1\n", run.stderr)
        # Also the host of rank 0, where the ranks meet.
        self.good(*self.elastic("dead:1,localhost:2", "1:2"), nranks=2)

    def test_elastic_takes_a_spare_host(self):
        self.good(*self.elastic("localhost:2,dead:1,127.0.0.1:3", "1:2"), nranks=5)
        self.good(*self.elastic("localhost:2,dead:1,127.0.0.1:3", "2"), nranks=5)

    def test_elastic_ends_when_too_few_are_left(self):
        run = self.run_command(*self.elastic("localhost:2,dead:1,mute:1", "2:3"), timeout=30)
        self.assertEqual(run.returncode, 255 if "host dead could" in run.stderr else 1, run.stderr)
        self.assertIn("too few are left: 1\n", run.stderr)

    def test_elastic_goes_on_when_a_host_is_lost_under_way(self):
        """The ranks of all hosts are up and in a collective when the connection to one breaks."""
        ends, go, mark = self.folder / "ends", self.folder / "go", f"lost.{os.getpid()}"
        job = subprocess.Popen([str(w) for w in self.elastic("localhost:2,ends:1", "1:2")] + ["--hold-file", str(go)],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env=launch.environment(MARK=mark, ENDS=str(ends)))
        self.addCleanup(job.kill)
        for _ in range(3):
            self.assertRegex(job.stdout.readline(), r"rank \d of 3: holds")
        ends.touch()
        for _ in range(2):
            self.assertRegex(job.stdout.readline(), r"rank \d of 2: holds")
        go.touch()
        out, err = job.communicate(timeout=30)
        self.assertEqual((job.returncode, out.count("of 2: good")), (0, 2), out + err)
        self.assertIn("hocket: host ends was lost while its ranks ran (", err)
        self.assertIn("hocket: host ends is lost; going on with 1\n", err)
        self.nothing_left(mark)

    def test_too_few_hosts(self):
        run = self.run_command(*self.hocket("--hosts", "localhost:2,dead:1", "--remote", self.remote(), "--", "sleep", "60"))
        self.assertEqual(run.returncode, 255)
        self.assertRegex(run.stderr, r"host dead could not be brought to start \(.*/remote ended with status 255\); ending the job")
        run = self.run_command(*self.hocket("--hosts", "localhost:2,mute:1", "--remote", self.remote(), "--", "sleep", "60"))
        self.assertEqual(run.returncode, 1)

    def test_users_of_hosts(self):
        self.good(*self.hocket("--hosts", "user@localhost:2", "--remote", self.remote(), "--", self.rank()), nranks=2)

    NETNS_TABLE = (("10.77.0.2", 2), ("10.77.0.1", 1), ("10.77.0.3", 1))

    def test_rank_table_of_three_hosts(self):
        """By "ssh" from one of them, and with a command on each."""
        table = self.table(*self.NETNS_TABLE)
        script = self.folder / "rsh"
        script.write_text('#!/bin/sh\nhost=n${1##*.}; shift; exec on "$host" sh -c "$*"\n')
        script.chmod(0o755)
        run = self.good(TOOLS / "with-netns.sh", "-n", "3", "-D", "--", "on", "n1",
                        *self.hocket("--rank-table", table, "--remote", script, "--", self.rank()), nranks=4)
        self.assertEqual(set(re.findall(r"(?m)^\[(\d)\] rank \1 of 4", run.stdout)), set("0123"))
        each = " ".join(str(w) for w in self.hocket("--rank-table", table, "--this-host", "--", self.rank()))
        all_of_them = " & ".join(f"on n{i} {each}" for i in (1, 2, 3))
        self.good(TOOLS / "with-netns.sh", "-n", "3", "-D", "--", "sh", "-c", all_of_them + " & wait", nranks=4)

    def test_three_hosts_of_their_own(self):
        self.good(TOOLS / "with-netns.sh", "-n", "3", "-D", "--", "on", "n1",
                  *self.hocket("--hosts", "n2:2,n1:1,n3:1", "--remote", TOOLS / "netns-rsh.sh", "--", self.rank()),
                  nranks=4)


class RunInSlurm(Case):
    MISSING = "Slurm or network namespaces cannot run here"

    def test_an_allocation(self):
        self.good(TOOLS / "with-netns.sh", "-n", "2", "--", "on", "n1", TOOLS / "with-slurm.sh", "-X", "-N", "2", "--",
                  "salloc", "-N", "2", "--ntasks-per-node", "2", launch.BIN / "hocket", "run", launch.BIN / "launch_rank",
                  nranks=4)


if __name__ == "__main__":
    launch.main()
