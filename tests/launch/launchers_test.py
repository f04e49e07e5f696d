"""Jobs under real launchers: those that this machine has; the others are skipped. First argument: the programs' folder."""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import time

import launch
from launch import TOOLS, Case, need


def program(name):
    return launch.BIN / name


RANK = "launch_rank"


class OpenMpi(Case):
    def mpirun(self):
        need("mpirun.openmpi", "Debian: openmpi-bin")
        return ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"]

    def test_ranks_meet_twice(self):
        self.good(*self.mpirun(), "-n", "3", program(RANK), "--rounds", "2", nranks=3, rounds=2)

    def test_perf_needs_no_flag(self):
        run = self.run_command(*self.mpirun(), "-n", "2", program("hocket"), "perf", "all_reduce", "-b", "8", "-e", "8",
                               "-n", "2", HOCKET_DEBUG="INFO")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("# Out of bounds values : 0 OK", run.stdout)
        self.assertEqual(len(re.findall(r"launched by Open MPI \(rank \d of 2: environment variable OMPI_COMM_WORLD_RANK\)",
                                        run.stderr)), 2, run.stderr)


class Mpich(Case):
    def mpirun(self, *more):
        need("mpirun.mpich", "Debian: mpich")
        return ["mpirun.mpich", *more]

    def test_ranks_meet_twice_by_descriptor(self):
        self.good(*self.mpirun("-n", "3"), program(RANK), "--rounds", "2", nranks=3, rounds=2)

    def test_ranks_meet_by_port(self):
        self.good(*self.mpirun("-pmi-port", "-n", "3"), program(RANK), nranks=3)

    def test_a_second_program_of_a_rank_is_told(self):
        run = self.run_command(*self.mpirun("-n", "2"), "sh", "-c", f"{program(RANK)} && {program(RANK)}")
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("another program that this rank ran before has used it up", run.stderr)

    def test_mpi_in_the_process_keeps_its_manager(self):
        mpi = "/usr/lib/x86_64-linux-gnu/libmpich.so.12"
        run = self.run_command(*self.mpirun("-n", "2"), "env", f"LD_PRELOAD={mpi}", program(RANK))
        if "cannot be preloaded" in run.stderr:
            self.skipTest("mpirun.mpich is not installed (Debian: mpich)")
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("MPI is in this process and needs the process manager for itself: hand a unique id around",
                      run.stderr)


class Slurm(Case):
    MISSING = "Slurm cannot run here"

    def slurm(self, nodes, *srun):
        return [TOOLS / "with-slurm.sh", "-N", str(nodes), "--", "srun", *srun, program(RANK)]

    def test_block(self):
        self.good(*self.slurm(2, "-N", "2", "-n", "4"), nranks=4)

    def test_ports_of_the_job(self):
        """Rank 0 listens where HOCKET_PORT_RANGE says, and is looked for there."""
        command = self.slurm(2, "-N", "2", "-n", "4")
        self.good(*command, nranks=4, HOCKET_PORT_RANGE="21000-21009", HOCKET_TRANSPORT="tcp")
        run = self.run_command(*command, HOCKET_PORT_RANGE="21000-20000")
        self.assertNotEqual(run.returncode, 0)
        self.assertEqual(run.stderr.count("HOCKET_PORT_RANGE is '21000-20000': set it to ports such as"), 4, run.stderr)

    def test_cyclic_and_twice(self):
        self.good(*self.slurm(2, "-N", "2", "-n", "4", "-m", "cyclic"), "--rounds", "2", nranks=4, rounds=2)

    def test_plane(self):
        self.good(*self.slurm(2, "-N", "2", "-n", "4", "-m", "plane=3"), nranks=4)

    def test_arbitrary(self):
        hosts = self.folder / "hosts"
        hosts.write_text("n2\nn1\nn2\n")
        self.good(TOOLS / "with-slurm.sh", "--", "env", f"SLURM_HOSTFILE={hosts}", "srun", "-N", "2", "-n", "3", "-m",
                  "arbitrary", program(RANK), nranks=3)

    def test_pmi2(self):
        self.good(*self.slurm(2, "--mpi=pmi2", "-N", "2", "-n", "4"), "--rounds", "2", nranks=4, rounds=2)

    def test_pmix(self):
        self.good(*self.slurm(2, "--mpi=pmix", "-N", "2", "-n", "3"), nranks=3)

    def test_a_batch_script_is_no_task(self):
        run = self.run_command(TOOLS / "with-slurm.sh", "--", "sbatch", "--wait", "-N", "2", "-n", "4", "-o",
                               self.folder / "out", "--wrap", program(RANK))
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("environment variable RANK (the number of this process in its job) is not set",
                      (self.folder / "out").read_text())

    def test_mpirun_inside_an_allocation(self):
        if not shutil.which("mpirun.openmpi"):
            self.skipTest(self.MISSING)
        self.good(TOOLS / "with-slurm.sh", "-N", "1", "--", "salloc", "-N", "1", "-n", "3", "mpirun.openmpi",
                  "--allow-run-as-root", "--oversubscribe", "-n", "3", program(RANK), nranks=3)


class SlurmOnHosts(Case):
    MISSING = "Slurm or network namespaces cannot run here"

    def test_ranks_on_hosts_of_their_own(self):
        self.good(TOOLS / "with-netns.sh", "-n", "3", "--", "on", "n1", TOOLS / "with-slurm.sh", "-X", "-N", "3", "--",
                  "srun", "-N", "3", "-n", "6", "-m", "cyclic", program(RANK), nranks=6)

    def test_rank_0_on_the_second_host(self):
        hosts = self.folder / "hosts"
        hosts.write_text("n2\nn1\nn3\n")
        self.good(TOOLS / "with-netns.sh", "-n", "3", "-D", "--", "on", "n1", TOOLS / "with-slurm.sh", "-X", "-N", "3",
                  "--", "env", f"SLURM_HOSTFILE={hosts}", "srun", "-N", "3", "-n", "3", "-m", "arbitrary",
                  program(RANK), nranks=3)


class Torchrun(Case):
    def torchrun(self, *options):
        return [need("torchrun", "PyPI: torch"), "--no-python", *options]

    def test_ranks_meet_twice(self):
        self.good(*self.torchrun("--standalone", "--nproc-per-node", "3"), program(RANK), "--rounds", "2", nranks=3,
                  rounds=2, timeout=120)

    def test_static_on_two_nodes(self):
        port = str(20000 + hash(self.folder.name) % 10000)
        both = " & ".join(
            " ".join(self.torchrun("--nnodes", "2", "--node-rank", str(node), "--nproc-per-node", "2", "--master-addr",
                                   "127.0.0.1", "--master-port", port, str(program(RANK)))) for node in (0, 1))
        self.good("sh", "-c", both + " & wait", nranks=4, timeout=120)

    def test_restart_after_a_crash(self):
        file = self.folder / "crashed"
        run = self.run_command(*self.torchrun("--standalone", "--nproc-per-node", "3", "--max-restarts", "1"),
                               program(RANK), "--crash-rank", "1", "--crash-file", file, timeout=120)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertTrue(file.exists())
        self.assertEqual(sorted(re.findall(r"rank \d of 3: good, restart 1", run.stdout)),
                         [f"rank {r} of 3: good, restart 1" for r in range(3)], run.stderr)


    def test_elastic_shrink(self):
        """Two agents; one of them is killed with its worker; the other goes on with its own two."""
        hold = self.folder / "go-on"
        port = str(20000 + hash(self.folder.name) % 10000)
        agent = self.torchrun("--nnodes", "1:2", "--max-restarts", "3", "--rdzv-backend", "c10d", "--rdzv-endpoint",
                              "127.0.0.1:" + port, "--rdzv-id", "shrink", "--rdzv-conf",
                              "join_timeout=60,last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=2")
        start = lambda n, name: subprocess.Popen(  # noqa: E731
            [*map(str, agent), "--nproc-per-node", n, str(program(RANK)), "--hold-file", str(hold)],
            stdout=open(self.folder / name, "w"), stderr=subprocess.STDOUT, env=launch.environment(),
            start_new_session=True)
        first = start("2", "first")
        # The agent that comes first holds the store: it must be the one that stays.
        for _ in range(300):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", int(port))):
                break
            time.sleep(0.1)
        second = start("1", "second")
        said = lambda: (self.folder / "first").read_text()  # noqa: E731
        try:
            for _ in range(600):
                if "of 3: holds" in said():
                    break
                time.sleep(0.1)
            self.assertIn("of 3: holds", said())
            for pid in children_of(second.pid) + [second.pid]:
                os.kill(pid, signal.SIGKILL)
            hold.touch()
            self.assertEqual(first.wait(120), 0, said())
            self.assertEqual(sorted(set(re.findall(r"rank (\d) of 2: good", said()))), ["0", "1"], said())
        finally:
            for agent_process in (first, second):
                for pid in children_of(agent_process.pid) + [agent_process.pid]:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                agent_process.wait()


def children_of(pid):
    """All processes below `pid`."""
    out = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            for child in pathlib.Path(f"/proc/{pid}/task/{task}/children").read_text().split():
                out += [int(child), *children_of(int(child))]
    except FileNotFoundError:
        pass
    return out


if __name__ == "__main__":
    launch.main()
