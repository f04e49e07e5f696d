"""Runs the program `hocket` by the names of nccl-tests' programs. First argument: the path of the program."""

import json
import signal
import subprocess

import cli
from cli import OPERATIONS, Case, NcclTests, environment, free_port, hocket, path_of


def others(n):
    return (n - 1) / n


# The programs of nccl-tests. Of n ranks: whether the size is that of a buffer of n blocks, and busbw / algbw.
PROGRAMS = {"all_gather": (True, others), "all_reduce": (False, lambda n: 2 * others(n)), "alltoall": (True, others),
            "broadcast": (False, lambda n: 1), "gather": (True, others), "reduce": (False, lambda n: 1),
            "reduce_scatter": (True, others), "scatter": (True, others), "alltoallv": (True, others),
            "sendrecv": (False, lambda n: 1), "hypercube": (True, lambda n: 1)}
UNCHECKED_IN_PLACE = {"alltoallv", "sendrecv"}
ROOTED = {"broadcast", "gather", "reduce", "scatter"}
REDUCING = {"all_reduce", "reduce", "reduce_scatter"}
WITH_OP = REDUCING | {"sendrecv"}  # has the column, as in nccl-tests, and does not reduce


class Programs(Case):
    """`hocket` by the names of nccl-tests' programs."""

    def run_program(self, name, *arguments, **how):
        """One that must succeed; returns what a parser reads."""
        run = hocket(*arguments, program=name + "_perf", **how)
        self.assertEqual((run.returncode, run.stderr), (0, ""), run.stdout)
        table = NcclTests(run.stdout)
        self.assertEqual((table.name, table.wrong, table.right, table.fast_enough), (name, 0, True, ""))
        return table

    @staticmethod
    def size_and_count(name, size, n, element=4):
        if not PROGRAMS[name][0]:
            return size // element * element, size // element
        count = size // element // n // (16 // element) * (16 // element)
        return count * element * n, count

    def test_each_with_one_to_three_ranks(self):
        for name, (_, factor) in PROGRAMS.items():
            for n in (1, 2, 4 if name == "hypercube" else 3):
                with self.subTest(name=name, n=n):
                    path = self.folder / f"{name}{n}.json"
                    table = self.run_program(name, "-b", "64", "-e", "1M", "-f", "128", "-g", str(n), "-n", "2", "-c",
                                             "2", "-J", str(path))
                    self.assertEqual(table.config, ("1", str(n), "64", "1048576", "128", "factor", "1", "2", "2"))
                    self.assertEqual([int(rank) for rank, _, _ in table.devices], list(range(n)))
                    for row, size in zip(table.rows, (64, 8192, 1 << 20), strict=True):
                        size, count = self.size_and_count(name, size, n)
                        self.assertEqual(row[:5], [str(size), str(count), "float",
                                                   "sum" if name in WITH_OP else "none",
                                                   "0" if name in ROOTED else "-1"])
                        self.assertEqual([row[8], row[12]], ["0", "N/A" if name in UNCHECKED_IN_PLACE else "0"])
                    results = json.loads(path.read_text())["results"]
                    self.assertEqual([str(one["size"]) for one in results], [row[0] for row in table.rows])
                    for one in results:
                        self.assertEqual(one["experiment_name"], name + "_perf")
                        halves = [one["out_of_place"], one["in_place"]]
                        if name == "alltoallv":  # cannot be in place
                            self.assertEqual(list(halves.pop().values()), [0, 0, 0, "N/A"])
                        for half in halves:
                            self.assertGreater(half["time"], 0)
                            part = others(n) if name == "hypercube" else 1
                            self.assertAlmostEqual(half["alg_bw"], one["size"] / half["time"] / 1e3 * part)
                            self.assertAlmostEqual(half["bus_bw"], half["alg_bw"] * factor(n))
                        self.assertEqual(one["out_of_place"]["nwrong"], 0)

    def test_each_over_tcp(self):
        for name in PROGRAMS:
            with self.subTest(name=name):
                table = self.run_program(name, "-g", "2" if name == "hypercube" else "3", "-b", "96", "-e", "480K",
                                         "-f", "5120", "-n", "1", "--transport", "tcp")
                self.assertEqual([row[0] for row in table.rows], ["96", "491520"])

    def test_as_a_subcommand(self):
        for name in [*PROGRAMS, "barrier"]:
            with self.subTest(name=name):
                run = hocket("perf", name, "--np", "2", "-b", "4K", "-e", "4K", "-n", "1")
                self.assertEqual((run.returncode, run.stderr), (0, ""))
                self.assertEqual([row[0] for row in NcclTests(run.stdout).rows], ["0" if name == "barrier" else "4096"])

    def test_one_rank_unless_told(self):
        self.assertEqual(len(self.run_program("all_reduce", "-b", "8", "-e", "8").devices), 1)

    def test_a_hypercube_of_three(self):
        run = hocket("-g", "3", program="hypercube_perf")
        self.assertEqual((run.returncode, run.stdout), (2, ""))
        self.assertIn("hocket: 3 ranks: a hypercube has a power of two of ranks\n", run.stderr)

    def test_threads_times_gpus(self):
        for arguments in (("-t", "2", "-g", "2"), ("--nthreads", "4", "--np", "4"), ("--np", "4")):
            with self.subTest(arguments=arguments):
                table = self.run_program("all_reduce", "-b", "8", "-e", "8", "-n", "1", *arguments)
                self.assertEqual(len(table.devices), 4)

    def test_as_nccl_tests_documents_it(self):
        table = self.run_program("all_reduce", "-b", "8", "-e", "8M", "-f", "2", "-g", "2", "-n", "2")
        self.assertEqual([int(row[0]) for row in table.rows], [8 << i for i in range(21)])

    def test_the_flags_that_mean_nothing_here(self):
        self.run_program("all_reduce", "-g", "2", "-b", "8", "-e", "8", "-m", "1", "-p", "0", "-z", "0", "-y", "0",
                         "-T", "0", "-G", "0", "-C", "0", "-S", "0", "-a", "1", "-R", "0", "-x", "0", "-D", "0")

    def test_roots(self):
        for name in sorted(ROOTED):
            for flag, roots in (("1", ["1"]), ("all", ["0", "1", "2"]), ("-1", ["0", "1", "2"])):
                with self.subTest(name=name, flag=flag):
                    table = self.run_program(name, "-g", "3", "-b", "192", "-e", "192", "-n", "1", "-r", flag)
                    self.assertEqual([row[4] for row in table.rows], roots)

    def test_every_type_and_operation(self):
        for name in sorted(set(PROGRAMS) - {"all_reduce"}):
            with self.subTest(name=name):
                run = hocket("-g", "2" if name == "hypercube" else "3", "-b", "1000", "-e", "1000", "-n", "1", "-w",
                             "0", "-d", "all", "-o", "all", program=name + "_perf")
                self.assertEqual((run.returncode, run.stderr), (0, ""), run.stdout)
                rows = self.rows(run.stdout)
                self.assertEqual([(row[2], row[3]) for row in rows],
                                 [(kind, op) for kind in OPERATIONS
                                  for op in (OPERATIONS[kind] if name in WITH_OP else ["none"])])
                for row in rows:
                    self.assertEqual([row[8], row[12]], ["0", "N/A" if name in UNCHECKED_IN_PLACE else "0"], row)

    def test_blocks_are_multiples_of_16_bytes(self):
        for size, kind, expected in (("8", "float", ["0", "0"]), ("31", "float", ["0", "0"]),
                                     ("32", "float", ["32", "4"]), ("1000", "int8", ["992", "496"]),
                                     ("1000", "double", ["992", "62"])):
            with self.subTest(size=size, kind=kind):
                table = self.run_program("all_gather", "-g", "2", "-b", size, "-e", size, "-n", "1", "-d", kind)
                self.assertEqual([row[:2] for row in table.rows], [expected])

    def test_sizes_within_types(self):
        run = hocket("-g", "2", "-b", "64", "-e", "128", "-f", "2", "-n", "1", "-d", "all", program="alltoall_perf")
        rows = self.rows(run.stdout)
        self.assertEqual([(row[2], row[0]) for row in rows],
                         [(kind, size) for kind in OPERATIONS for size in ("64", "128")])

    def test_ranks_of_a_launcher(self):
        place = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
        ranks = [subprocess.Popen([path_of("all_gather_perf"), "-b", "64", "-e", "64", "-n", "1"],
                                  env=environment(RANK=str(rank), **place), stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True) for rank in range(2)]
        for rank in ranks:
            self.addCleanup(rank.kill)
        outputs = [rank.communicate(timeout=30) for rank in ranks]
        self.assertEqual([rank.returncode for rank in ranks], [0, 0], outputs)
        self.assertEqual(len(NcclTests(outputs[0][0]).devices), 2)
        self.assertEqual(outputs[1], ("", ""))

    def test_ranks_here_in_spite_of_a_launcher(self):
        table = self.run_program("all_reduce", "--np", "2", "-b", "8", "-e", "8",
                                 env=environment(OMPI_COMM_WORLD_RANK="1", RANK="1", WORLD_SIZE="3"))
        self.assertEqual(len(table.devices), 2)

    def test_least_bandwidth(self):
        for least, status, word in (("1e-9", 0, "OK"), ("1e9", 1, "FAILED")):
            with self.subTest(least=least):
                path = self.folder / f"{word}.json"
                run = hocket("-g", "2", "-b", "1K", "-e", "1K", "-J", str(path), program="broadcast_perf",
                             env=environment(NCCL_TESTS_MIN_BW=least))
                self.assertEqual(run.returncode, status, run.stderr)
                table = NcclTests(run.stdout)
                self.assertEqual((table.right, table.fast_enough), (True, word))
                self.assertEqual(json.loads(path.read_text())["average_bus_bandwidth"]["okay"],
                                 "true" if status == 0 else "false")

    def test_timestamps(self):
        run = hocket("-S", "1", "-b", "8", "-e", "8", program="all_reduce_perf")
        self.assertRegex(run.stdout, r"(?m)^ +8 .* \d{4}-\d\d-\d\d \d\d:\d\d:\d\d$")
        self.assertRegex(run.stdout, r"(?m)#wrong +timestamp$")

    def test_a_deadline(self):
        path = self.folder / "deadline.json"
        self.run_program("all_reduce", "-T", "17", "-b", "8", "-e", "8", "-J", str(path))
        self.assertIn("HOCKET_TIMEOUT=17", json.loads(path.read_text())["env"])

    def test_until_it_is_stopped(self):
        started = subprocess.Popen([path_of("all_reduce_perf"), "-g", "2", "-b", "8", "-e", "16", "-f", "2", "-N", "0"],
                                   env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(started.kill)
        sizes = []
        for line in started.stdout:
            if not line.startswith("#"):
                sizes.append(line.split()[0])
            if len(sizes) == 6:
                break
        self.assertEqual(sizes, ["8", "16"] * 3)
        started.send_signal(signal.SIGTERM)
        started.communicate(timeout=10)
        self.assertEqual(started.returncode, 128 + signal.SIGTERM)

    def test_help(self):
        run = hocket("--help", program="gather_perf")
        self.assertEqual(run.returncode, 0)
        self.assertIn("gather_perf", run.stdout)
        self.assertIn("--ngpus", run.stdout)
        self.assertNotIn("POSITIONALS", run.stdout.upper())
        for name in [*PROGRAMS, "barrier"]:
            self.assertIn(name, hocket("perf", "--help").stdout)


class BadInput(Case):
    def test_flags_of_programs(self):
        for arguments, words in (
            ("all_reduce_perf broadcast", ["broadcast", "`all_reduce_perf --help`"]),
            ("all_reduce_perf --ngpu 2", ["--ngpu", "did you mean --ngpus?"]),
            ("reduce_perf -g two", ["-g", "'two'"]),
            ("scatter_perf -b 8 -e 4", ["-b 8", "larger"]),
        ):
            with self.subTest(arguments=arguments):
                program, *rest = arguments.split()
                self.refused(hocket(*rest, program=program), 2, *words)

    def test_the_environment_of_nccl_tests(self):
        for name, value, words in (("NCCL_TESTS_SPLIT", "AND 0x1", ["unset"]),
                                   ("NCCL_TESTS_SPLIT_MASK", "0x1", ["unset"]),
                                   ("NCCL_TESTS_MIN_BW", "fast", ["'fast'", "GB/s"])):
            with self.subTest(name=name):
                run = hocket("-b", "8", "-e", "8", program="all_reduce_perf", env=environment(**{name: value}))
                self.refused(run, 2, name, *words)

    def test_more_ranks_than_the_launcher_gave(self):
        for name, beside in (("RANK", {}), ("HOCKET_INIT", {}), ("PMI_RANK", {}), ("SLURM_PROCID", {"SLURM_STEP_ID": "0"})):
            with self.subTest(name=name):
                run = hocket("-g", "4", program="all_reduce_perf", env=environment(**{name: "0"}, **beside))
                self.refused(run, 2, "-g 4", name, "--np 4")


if __name__ == "__main__":
    cli.main()
