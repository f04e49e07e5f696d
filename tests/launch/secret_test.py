"""Jobs with a secret, as users start them: three processes that have it, or not all of them. First argument: the programs' folder."""

import json
import socket
import subprocess
import time

import launch
from launch import Case, environment

SECRET = "a secret of sixteen bytes and more"
DEADLINE = 3  # seconds


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


class Secret(Case):
    def run_three(self, settings, transport):
        """[(status, errors)] of three ranks with these variables each; none may take longer than the deadline and 2 s."""
        port = free_port()
        jobs = [subprocess.Popen([launch.BIN / "launch_rank"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True,
                                 env=environment(RANK=str(r), WORLD_SIZE="3", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
                                                 HOCKET_TRANSPORT=transport, HOCKET_INIT_TIMEOUT=str(DEADLINE),
                                                 HOCKET_DEBUG="TRACE", **s)) for r, s in enumerate(settings)]
        until = time.monotonic() + DEADLINE + 2
        ends = []
        for job in jobs:
            out, text = job.communicate(timeout=max(0.1, until - time.monotonic()))
            self.assertNotIn(SECRET, out + text)
            ends.append((job.returncode, text))
        return ends

    def file(self, mode=0o600):
        path = self.folder / "secret"
        path.write_text(SECRET + "\n")
        path.chmod(mode)
        return str(path)

    def test_ranks_that_have_it_meet(self):
        for transport in ("auto", "tcp"):
            # The file and the variable are two ways to say the same.
            settings = [{"HOCKET_SECRET_FILE": self.file()}] * 2 + [{"HOCKET_SECRET": SECRET}]
            for status, text in self.run_three(settings, transport):
                self.assertEqual(status, 0, text)

    def test_a_rank_without_it(self):
        have = {"HOCKET_SECRET": SECRET}
        ends = self.run_three([have, have, {}], "tcp")
        self.assertTrue(all(status != 0 for status, _ in ends), ends)
        self.assertIn("has a job secret, and this process has none: give all ranks the same HOCKET_SECRET", ends[2][1])
        for r in (0, 1):
            self.assertIn("rank 2 of 3 did not come within 3 s (refused: the process at 127.0.0.1:", ends[r][1])

    def test_a_file_that_others_can_read(self):
        good, bad = {"HOCKET_SECRET": SECRET}, {"HOCKET_SECRET_FILE": self.file(0o644)}
        ends = self.run_three([good, bad, good], "tcp")
        self.assertTrue(all(status != 0 for status, _ in ends), ends)
        self.assertIn("has mode 0644, and must have 0600 or 0400, so that nobody else can read it: chmod 600 '", ends[1][1])
        for r in (0, 2):
            self.assertIn("rank 1 of 3 did not come within 3 s", ends[r][1])

    def test_perf_does_not_record_it(self):
        result = self.folder / "result.json"
        run = self.run_command(launch.BIN / "hocket", "perf", "all_reduce", "--np", "2", "-b", "8", "-e", "8", "-n", "2",
                               "-J", result, HOCKET_SECRET=SECRET, HOCKET_TIMEOUT="100")
        self.assertEqual(run.returncode, 0, run.stderr)
        text = result.read_text()
        self.assertIn("HOCKET_TIMEOUT=100", json.dumps(json.loads(text)))
        self.assertNotIn(SECRET, text + run.stdout + run.stderr)


if __name__ == "__main__":
    launch.main()
