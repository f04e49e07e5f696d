"""`hocket run` as its users call it. First argument: the folder of the programs."""

import os
import pathlib
import re
import signal
import subprocess
import time

import launch
from launch import TOOLS, Case

# Stands for ssh: runs the command line here; the host "dead" cannot be reached.
REMOTE = '#!/bin/sh\nhost=$1; shift; [ "$host" != dead ] || exit 255; exec sh -c "$*"\n'


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
        for words, text in ((["x"], "say how many ranks to start: --np N here, or --hosts a:4,b:4"),
                            (["--np", "0", "x"], "--np"),
                            (["--np", "2", "--hosts", "a", "x"], "--np and --hosts do not go together"),
                            (["--hosts", "a:x", "x"], "--hosts: 'a:x' has no number of ranks"),
                            (["--hosts", "a,a", "x"], "--hosts: 'a' occurs twice"),
                            (["--hosts", "-oProxyCommand=x", "x"], "is no HOST:RANKS"),
                            (["--hosts", "a,b", "--nnodes", "3:4", "x"], "--nnodes is '3:4'"),
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

    def test_elastic_goes_on_without_a_host(self):
        run = self.good(*self.hocket("--hosts", "localhost:2,dead:1", "--nnodes", "1:2", "--remote", self.remote(), "--",
                                     self.rank()), nranks=2)
        self.assertIn("hocket: host dead is lost; going on with 1\n", run.stderr)

    def test_elastic_takes_a_spare_host(self):
        self.good(*self.hocket("--hosts", "localhost:2,dead:1,127.0.0.1:3", "--nnodes", "1:2", "--remote", self.remote(),
                               "--", self.rank()), nranks=5)

    def test_too_few_hosts(self):
        run = self.run_command(*self.hocket("--hosts", "localhost:2,dead:1", "--remote", self.remote(), "--", "sleep", "60"))
        self.assertEqual(run.returncode, 255)
        self.assertIn("host dead ended with status 255", run.stderr)

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
