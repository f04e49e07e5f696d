"""Runs the program `hocket` as its users do. First argument: the path of the program."""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import time
import unittest

import cli
from cli import LAUNCHER, OPERATIONS, Case, environment, free_port, hocket, path_of


class Table(Case):
    def test_looks_as_that_of_nccl_tests(self):
        run = hocket("perf", "all_reduce", "--np", "2", "-b", "8", "-e", "64", "-f", "2", "-n", "3", "-w", "2")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(run.stderr, "")
        lines = run.stdout.splitlines()
        self.assertRegex(lines[0], r"^# hocket version \d+\.\d+\.\d+$")
        self.assertEqual(lines[1], "# Collective test starting: all_reduce_perf")
        self.assertEqual(lines[2],
                         "# nThread 1 nGpus 1 minBytes 8 maxBytes 64 step: 2(factor) warmup iters: 2 iters: 3 "
                                   "agg iters: 1 validation: 1 graph: 0 unalign: 0")
        self.assertEqual(lines[4], "# Using devices")
        for rank in (0, 1):
            self.assertRegex(lines[5 + rank],
                             rf"^#  Rank  {rank} Group  0 Pid +\d+ on +\S+ device  0 \[0000:00:00\] cpu$")
        half = ["time", "algbw", "busbw", "#wrong"]
        heads = [line.split()[1:] for line in lines if line.startswith("#  ")]
        self.assertIn(["out-of-place", "in-place"], heads)
        self.assertIn(["size", "count", "type", "redop", "root", *half, *half], heads)
        self.assertIn(["(B)", "(elements)", *["(us)", "(GB/s)", "(GB/s)"] * 2], heads)
        self.assertEqual(lines[-2], "# Collective test concluded: all_reduce_perf")
        rows = self.rows(run.stdout)
        self.assertEqual([row[0] for row in rows], ["8", "16", "32", "64"])
        for row in rows:
            self.check_row(row, int(row[0]), "float", "sum", -1)
            self.assertEqual(int(row[1]), int(row[0]) // 4)
            self.assertGreater(float(row[5]), 0)

    def test_all_reduce_of_one_to_three_ranks(self):
        for np in ("1", "2", "3"):
            for transport in ("auto", "shm", "tcp"):
                with self.subTest(np=np, transport=transport):
                    rows = self.perf("all_reduce", "--np", np, "--transport", transport, "-b", "1K", "-e", "1M", "-f",
                                     "32", "-n", "2")
                    self.assertEqual([int(row[0]) for row in rows], [1 << 10, 1 << 15, 1 << 20])
                    for row in rows:
                        self.check_row(row, int(row[0]), "float", "sum", -1)

    def test_broadcast_from_every_root(self):
        for np in (1, 2, 3):
            with self.subTest(np=np):
                rows = self.perf("broadcast", "--np", str(np), "-b", "4K", "-e", "4K", "-n", "2", "-r", "all", "-d",
                                 "int8")
                self.assertEqual(len(rows), np)
                for root, row in enumerate(rows):
                    self.check_row(row, 4096, "int8", "none", root)

    def test_barrier(self):
        for np in ("1", "2", "3"):
            with self.subTest(np=np):
                rows = self.perf("barrier", "--np", np, "-n", "2")
                self.assertEqual(len(rows), 1)
                self.check_row(rows[0], 0, "float", "none", -1)

    def test_every_type_and_operation(self):
        rows = self.perf("all_reduce", "--np", "3", "-d", "all", "-o", "all", "-b", "1000", "-e", "1000", "-n", "1")
        self.assertEqual([(row[2], row[3]) for row in rows], [(kind, op) for kind in OPERATIONS for op in OPERATIONS[kind]])
        for row in rows:
            self.check_row(row, 1000 // 16 * 16 if row[2] == "complex128" else 1000, row[2], row[3], -1)

    def test_what_a_type_does_not_take_is_left_out_of_all(self):
        rows = self.perf("all_reduce", "--np", "2", "-d", "all", "-o", "max", "-b", "64", "-e", "64", "-n", "1")
        self.assertEqual([row[2] for row in rows], [kind for kind in OPERATIONS if "max" in OPERATIONS[kind]])
        rows = self.perf("broadcast", "--np", "2", "-d", "all", "-b", "64", "-e", "64", "-n", "1")
        self.assertEqual([row[2] for row in rows], list(OPERATIONS))

    def test_steps_of_bytes(self):
        rows = self.perf("all_reduce", "--np", "2", "-b", "100", "-e", "300", "-i", "100", "-n", "1", "-d", "uint8")
        self.assertEqual([row[0] for row in rows], ["100", "200", "300"])

    def test_without_a_check_nothing_is_claimed(self):
        for row in self.perf("all_reduce", "--np", "2", "-b", "8", "-e", "8", "-n", "1", "-c", "0"):
            self.assertEqual([row[8], row[12]], ["N/A", "N/A"])

    def test_percentiles(self):
        run = hocket("perf", "all_reduce", "--np", "2", "-b", "8", "-e", "8", "-n", "20", "-I")
        self.assertEqual(run.returncode, 0, run.stderr)
        half = ["time", "algbw", "busbw", "#wrong", "p50", "p99"]
        self.assertIn(["#", "size", "count", "type", "redop", "root", *half, *half],
                      [l.split() for l in run.stdout.splitlines()])
        (row,) = self.rows(run.stdout)
        self.check_row(row, 8, "float", "sum", -1, halves=6)
        for p50, p99 in (row[9:11], row[15:17]):
            self.assertLessEqual(float(p50), float(p99))
            self.assertGreater(float(p50), 0)

    def test_without_blocking(self):
        for np, names in (("1", ("all_reduce", "hypercube", "sendrecv", "barrier")),
                          ("3", ("all_reduce", "broadcast", "alltoallv", "sendrecv", "scatter")), ("4", ("hypercube",))):
            for name in names:
                for transport in ("shm", "tcp"):
                    with self.subTest(np=np, name=name, transport=transport):
                        run = hocket("perf", name, "--np", np, "--transport", transport, "--nonblocking", "-b", "4K",
                                     "-e", "256K", "-f", "64", "-n", "3", "-I")
                        self.assertEqual(run.returncode, 0, run.stderr)
                        self.assertRegex(run.stdout, r"(?m)^# nThread .* unalign: 0 nonblocking: 1$")
                        rows = self.rows(run.stdout)
                        self.assertEqual(len(rows), 1 if name == "barrier" else 2)
                        for row in rows:
                            self.assertEqual(row[8], "0")

    def test_registered_memory(self):
        for name in ("all_reduce", "broadcast", "reduce", "all_gather", "reduce_scatter", "alltoall", "gather", "scatter",
                     "alltoallv", "sendrecv"):
            for np, protocol in (("2", "auto"), ("3", "auto"), ("3", "slot"), ("4", "mapped"), ("4", "direct")):
                with self.subTest(name=name, np=np, protocol=protocol):
                    run = hocket("perf", name, "--np", np, "-R", "1", "-b", "64K", "-e", "4M", "-f", "64", "-n", "2",
                                 env={"HOCKET_PROTO": protocol})
                    self.assertEqual(run.returncode, 0, run.stderr)
                    self.assertEqual(run.stderr, "")
                    self.assertRegex(run.stdout, r"(?m)^# nThread .* unalign: 0 registered: 1$")
                    for row in self.rows(run.stdout):
                        self.assertEqual(row[8], "0")
        run = hocket("perf", "all_reduce", "--np", "2", "--registered", "--transport", "tcp", "-b", "1M", "-e", "1M")
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        run = hocket("perf", "all_reduce", "--np", "2", "-R", "2")
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("--local_register", run.stderr)

    def test_64_ranks_come_up(self):
        rows = self.perf("--np", "64", "all_reduce", "-b", "8", "-e", "8", "-n", "1", timeout=20)
        self.check_row(rows[0], 8, "float", "sum", -1)

    def test_files_in_dev_shm_serve_as_well(self):
        rows = self.perf("all_reduce", "--np", "2", "--transport", "shm", "-b", "1M", "-e", "1M", "-n", "2",
                         env=environment(HOCKET_SHM="devshm"))
        self.check_row(rows[0], 1 << 20, "float", "sum", -1)


class SharedMemoryTrouble(Case):
    """/dev/shm too small or read-only, in a mount namespace of the test's own (tests run as root in CI)."""

    MOUNTS = {"full": "mount -t tmpfs -o size=64k shm /dev/shm",
              "read-only": "mount -t tmpfs -o ro shm /dev/shm"}

    def run_with(self, mount, **changes):
        script = mount + " && exec \"$@\""
        return subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh",
                               path_of(), "perf", "all_reduce", "--np", "2", "-b", "1K", "-e", "1K", "-n", "2"],
                              capture_output=True, text=True, timeout=30, check=False, env=environment(**changes))

    @unittest.skipUnless(os.geteuid() == 0, "mounting needs root")
    def test_memfd_is_unaffected(self):
        for name, mount in self.MOUNTS.items():
            with self.subTest(name):
                run = self.run_with(mount)
                self.assertEqual((run.returncode, run.stderr), (0, ""))

    @unittest.skipUnless(os.geteuid() == 0, "mounting needs root")
    def test_devshm_falls_back_to_tcp_with_one_warning(self):
        for name, mount in self.MOUNTS.items():
            with self.subTest(name):
                run = self.run_with(mount, HOCKET_SHM="devshm")
                self.assertEqual(run.returncode, 0, run.stderr)
                warnings = [line for line in run.stderr.splitlines() if "WARN" in line]
                self.assertEqual(len(warnings), 1, run.stderr)
                self.assertIn("TCP", warnings[0])


class Json(Case):
    def run_with(self, *arguments, **changes):
        path = self.folder / "result.json"
        rows = self.perf("all_reduce", "--np", "2", "-b", "8", "-e", "32", "-f", "2", "-n", "2", "--json", str(path),
                         *arguments,
                         env=environment(**changes))
        return path, rows

    def test_has_the_keys_of_nccl_tests(self):
        path, rows = self.run_with()
        result = json.loads(path.read_text())
        self.assertEqual(list(result), ["version", "start_time", "args", "env", "hocket_version", "config", "results",
                                        "out_of_bounds",
                                        "average_bus_bandwidth", "errors", "end_time"])
        self.assertEqual(result["version"], 3)
        self.assertEqual(result["args"][1:], ["perf", "all_reduce", "--np", "2", "-b", "8", "-e", "32", "-f", "2",
                                              "-n", "2", "--json", str(path)])
        self.assertEqual(list(result["config"]),
                         ["nthreads", "ngpus", "minimum_bytes", "maximum_bytes", "step_factor", "warmup_iters",
                          "iterations", "aggregated_iterations", "validation", "graph", "blocking_collectives",
                          "per_iter_timing", "per_iter_skip", "parallel_init", "devices"])
        self.assertEqual([d["rank"] for d in result["config"]["devices"]], [0, 1])
        for device in result["config"]["devices"]:
            self.assertEqual(list(device), ["rank", "group", "pid", "hostname", "device", "device_hex", "device_info"])
        self.assertEqual(len({d["pid"] for d in result["config"]["devices"]}), 2)
        self.assertEqual([r["size"] for r in result["results"]], [int(row[0]) for row in rows])
        for one in result["results"]:
            self.assertEqual(list(one), ["size", "count", "type", "redop", "root", "out_of_place", "in_place",
                                         "actual_iterations",
                                         "experiment_name"])
            self.assertEqual((one["type"], one["redop"], one["root"]), ("float", "sum", "-1"))
            for half in (one["out_of_place"], one["in_place"]):
                self.assertEqual(list(half), ["time", "alg_bw", "bus_bw", "nwrong"])
                self.assertGreater(half["time"], 0)
                self.assertEqual(half["nwrong"], 0)
                self.assertAlmostEqual(half["bus_bw"], half["alg_bw"])  # 2 (n - 1) / n with two ranks
        self.assertEqual(result["out_of_bounds"], {"count": 0, "okay": "true"})
        self.assertEqual(list(result["average_bus_bandwidth"]), ["bandwidth", "okay"])
        self.assertEqual(result["errors"], [])

    def test_says_that_calls_did_not_block(self):
        path, _ = self.run_with("--nonblocking")
        self.assertEqual(json.loads(path.read_text())["config"]["nonblocking"], 1)

    def test_keeps_secrets(self):
        path, _ = self.run_with(SECRET="swordfish", HOCKET_TIMEOUT="17", MASTER_ADDR="127.0.0.1",
                                RANKED_SECRET="herring")
        text = path.read_text()
        self.assertNotIn("swordfish", text)
        self.assertNotIn("herring", text)
        variables = json.loads(text)["env"]
        self.assertIn("HOCKET_TIMEOUT=17", variables)
        self.assertIn("MASTER_ADDR=127.0.0.1", variables)
        for variable in variables:
            name = variable.split("=")[0]
            self.assertTrue(name.startswith("HOCKET_") or name in LAUNCHER, name)

    def test_keeps_files_that_exist(self):
        (self.folder / "result.json").write_text("precious")
        self.run_with()
        self.run_with()
        self.assertEqual((self.folder / "result.json").read_text(), "precious")
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["result.json", "result.json.0",
                                                                         "result.json.1"])
        for name in ("result.json.0", "result.json.1"):
            self.assertEqual(json.loads((self.folder / name).read_text())["version"], 3)

    def test_percentiles(self):
        path, _ = self.run_with("-I")
        for one in json.loads(path.read_text())["results"]:
            self.assertLessEqual(one["in_place"]["p50_us"], one["in_place"]["p99_us"])


class FromTheEnvironment(Case):
    def test_two_hosts_of_two_ranks(self):
        port = free_port()
        ranks = []
        for rank in range(4):
            env = environment(RANK=str(rank), WORLD_SIZE="4", MASTER_ADDR="127.0.0.1", MASTER_PORT=port,
                              HOCKET_HOST_ID=f"host{rank // 2}", HOCKET_DEBUG="INFO", HOCKET_DEBUG_SUBSYS="INIT")
            ranks.append(subprocess.Popen([path_of(), "perf", "all_reduce", "-b", "8", "-e", "512K", "-f", "256", "-n",
                                           "2"], env=env,
                                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
            self.addCleanup(ranks[-1].kill)
        outputs = [rank.communicate(timeout=60) for rank in ranks]
        for rank, (out, err) in zip(ranks, outputs):
            self.assertEqual(rank.returncode, 0, err)
            self.assertIn("2 groups of ranks with shared memory", err)
        rows = self.rows(outputs[0][0])
        self.assertEqual([int(row[0]) for row in rows], [8, 2048, 524288])
        for row in rows:
            self.check_row(row, int(row[0]), "float", "sum", -1)
        self.assertEqual([out for out, _ in outputs[1:]], ["", "", ""])


class OtherSubcommands(Case):
    def test_plan_list_show_verify(self):
        listed = hocket("plan", "list")
        self.assertEqual(listed.returncode, 0, listed.stderr)
        names = [line.split()[1] for line in listed.stdout.splitlines()]
        self.assertIn("ring", names)
        self.assertIn("dissemination", names)
        for name in names:
            with self.subTest(plan=name):
                shown = hocket("plan", "show", name, "--np", "4")
                self.assertEqual(shown.returncode, 0, shown.stderr)
                self.assertGreater(len(shown.stdout.splitlines()), 4)
                proven = hocket("plan", "verify", name, "--np", "4")
                self.assertEqual(proven.returncode, 0, proven.stderr)
                self.assertIn(f"{name}, 4 ranks: proven", proven.stdout)

    def test_sim(self):
        def model(*arguments):
            run = hocket("sim", "ring", "--np", "4", "--bytes", "1M", *arguments)
            self.assertEqual(run.returncode, 0, run.stderr)
            time_us = float(re.search(r": ([0-9.]+) us,", run.stdout).group(1))
            within, between = (int(re.search(rf"{what} +\d+ messages +(\d+) bytes", run.stdout).group(1))
                               for what in ("within hosts", "between hosts"))
            return time_us, within, between

        one_host = model()
        self.assertEqual(one_host[1:], (6 << 20, 0))  # 2 (n - 1) times the buffer
        two_hosts = model("--group", "2")
        self.assertEqual(two_hosts[1] + two_hosts[2], 6 << 20)
        self.assertGreater(two_hosts[2], 0)
        self.assertGreater(two_hosts[0], one_host[0])

    def test_env(self):
        run = hocket("env")
        self.assertEqual(run.returncode, 0, run.stderr)
        names = [line.split()[0] for line in run.stdout.splitlines()]
        self.assertIn("HOCKET_TIMEOUT", names)
        table = hocket("env", "--markdown").stdout
        for name in names:
            self.assertTrue(name.startswith("HOCKET_"), name)
            self.assertIn(f"| `{name}` |", table)

    def test_types(self):
        run = hocket("types")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual({words[0]: words[3:] for words in map(str.split, run.stdout.splitlines())}, OPERATIONS)
        table = hocket("types", "--markdown").stdout
        for name in OPERATIONS:
            self.assertIn(f"| {name} |", table)
        self.assertRegex(table, r"(?m)^\d\. complex numbers have no order")

    def test_help_and_version(self):
        self.assertIn("--stepfactor", hocket("perf", "--help").stdout)
        self.assertRegex(hocket("--version").stdout, r"^hocket \d+\.\d+\.\d+\n$")


class BadInput(Case):
    def test_flags(self):
        for arguments, words in (
            ("perf allreduce", ["'allreduce'", "did you mean all_reduce?", "scatter, sendrecv, barrier"]),
            ("perf all_to_all", ["'all_to_all'", "did you mean alltoall?"]),
            ("perf reducescatter", ["did you mean reduce_scatter?"]),
            ("perf all_reduce -d flaot", ["unknown type 'flaot'", "did you mean float?", "bfloat16"]),
            ("perf all_reduce -o summ", ["unknown operation 'summ'", "did you mean sum?"]),
            ("perf all_reduce -d complex64 -o max", ["-d complex64 -o max", "no order"]),
            ("perf all_reduce --iterz 3", ["--iterz", "did you mean --iters?", "hocket perf --help"]),
            ("perf all_reduce -n x", ["--iters", "x"]),
            ("perf all_reduce -n 0", ["--iters", "0"]),
            ("perf all_reduce -b 16 -e 8", ["-b 16", "-e 8", "larger"]),
            ("perf all_reduce -b eight", ["-b", "'eight'"]),
            ("perf all_reduce -b -8", ["-b", "-8"]),
            ("perf all_reduce -e 99999999999G", ["-e 99999999999G", "overflows"]),
            ("perf all_reduce -e 99999999999999999999", ["-e 99999999999999999999", "overflows"]),
            ("perf all_reduce -f 1", ["-f", "'1'", "at least 2"]),
            ("perf all_reduce -b 8 -e 16 -i 0", ["-i 0", "never reaches"]),
            ("perf all_reduce -b 0 -e 16 -f 2", ["-b 0"]),
            ("perf all_reduce -f 2 -i 8", ["--stepfactor", "--stepbytes"]),
            ("perf all_reduce --np 0", ["--np", "'0'"]),
            ("perf all_reduce --np two", ["--np", "'two'"]),
            ("perf all_reduce -z 1", ["--blocking 1", "blocking anyway"]),
            ("perf all_reduce -G 1", ["--cudagraph 1", "no CUDA graphs"]),
            ("perf all_reduce -g 0", ["-g", "'0'", "at least 1"]),
            ("perf all_reduce --np 2 -g 3", ["--np 2", "-g 3", "disagree"]),
            ("perf all_reduce -t 2000000000 -g 2000000000", ["-t 2000000000", "more than"]),
            ("perf all_reduce --np 1000000", ["--np 1000000", "more than"]),
            ("perf all_reduce -T soon", ["-T", "'soon'"]),
            ("perf all_reduce -S 2", ["--report_timestamps", "2"]),
            ("perf reduce_scatter -d complex64 -o max", ["-d complex64 -o max", "no order"]),
            ("perf broadcast --np 2 -r 2", ["-r 2", "number of ranks, 2"]),
            ("perf gather -g 3 -r 3", ["-r 3", "number of ranks, 3"]),
            ("perf gather -r some", ["-r", "'some'"]),
            ("perf all_reduce --transport carrier", ["--transport", "carrier", "tcp"]),
            ("perf all_reduce ring", ["ring"]),
            ("prf all_reduce", ["prf", "did you mean perf?"]),
            ("plan show rng", ["unknown planner 'rng'", "did you mean ring?"]),
            ("plan verify ring --np 0", ["--np", "0"]),
            ("plan show chain --np 4 -r 4", ["--root 4", "--np 4"]),
            ("plan shwo ring", ["shwo", "did you mean show?"]),
            ("plan", ["subcommand"]),
            ("sim ring --bytes lots", ["--bytes", "'lots'"]),
            ("sim ring --bandwidth 0", ["--bandwidth"]),
            ("", ["subcommand"]),
        ):
            with self.subTest(arguments=arguments):
                run = hocket(*arguments.split())
                self.refused(run, 2, *words)
                self.assertNotIn("did you mean --transport", run.stderr)  # a flag that was right

    def test_a_launcher_that_is_missing_or_wrong(self):
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
        for variables, words in (
            ({}, ["RANK", "not set"]),
            ({"RANK": "0"}, ["WORLD_SIZE", "not set"]),
            ({"RANK": "0", "WORLD_SIZE": "2"}, ["MASTER_ADDR", "not set"]),
            ({"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}, ["MASTER_PORT", "not set"]),
            ({**place, "RANK": "one", "WORLD_SIZE": "2"}, ["RANK", "'one'", "whole number"]),
            ({**place, "RANK": "2", "WORLD_SIZE": "2"}, ["RANK is 2", "WORLD_SIZE", "from 0 to 1"]),
            ({**place, "RANK": "-1", "WORLD_SIZE": "2"}, ["RANK is -1"]),
            ({**place, "RANK": "0", "WORLD_SIZE": "0"}, ["WORLD_SIZE is 0"]),
            ({**place, "RANK": "0", "WORLD_SIZE": "2", "MASTER_PORT": "70000"}, ["MASTER_PORT", "70000"]),
            ({"RANK": "0", "WORLD_SIZE": "1", "HOCKET_INIT": "http://a:1"}, ["'http://a:1'", "tcp://HOST:PORT"]),
            ({"RANK": "0", "WORLD_SIZE": "1", "HOCKET_INIT": "tcp://a"}, ["'tcp://a'", "port"]),
            ({"RANK": "0", "WORLD_SIZE": "1", "HOCKET_INIT": "tcp://a:1?rnk=0"}, ["'rnk=0'", "rank=R"]),
            ({"RANK": "0", "WORLD_SIZE": "1", "HOCKET_INIT": "file://a"}, ["'file://a'", "absolute path"]),
            ({**place, "RANK": "0", "WORLD_SIZE": "1", "HOCKET_TRANSPORT": "pigeon"}, ["HOCKET_TRANSPORT", "pigeon",
                                                                                       "tcp"]),
            ({**place, "RANK": "0", "WORLD_SIZE": "1", "HOCKET_TIMEOUT": "soon"}, ["HOCKET_TIMEOUT", "soon"]),
            ({**place, "RANK": "0", "WORLD_SIZE": "1", "HOCKET_ALGO": "rng"}, ["HOCKET_ALGO", "rng"]),
        ):
            with self.subTest(variables=variables):
                self.refused(hocket("perf", "all_reduce", "-b", "8", "-e", "8", env=environment(**variables)), 1,
                             *words)

    def test_a_port_that_is_taken(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            s.listen()
            port = str(s.getsockname()[1])
            run = hocket("perf", env=environment(RANK="0", WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=port))
        self.refused(run, 1, f"127.0.0.1:{port}", "taken")

    def test_ranks_that_do_not_come_are_named(self):
        run = hocket("perf", env=environment(RANK="0", WORLD_SIZE="3", MASTER_ADDR="127.0.0.1", MASTER_PORT=free_port(),
                                             HOCKET_INIT_TIMEOUT="0.5"))
        self.assertEqual(run.returncode, 1)
        self.assertRegex(run.stderr, r"ranks? 1\D+2\D")

    def test_a_root_that_is_too_large_for_the_environment(self):
        run = hocket("perf", "broadcast", "-r", "1", "-b", "8", "-e", "8",
                     env=environment(RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=free_port()))
        self.refused(run, 2, "-r 1", "number of ranks, 1")

    def test_a_file_that_cannot_be_written(self):
        path = str(self.folder / "no" / "such.json")
        run = hocket("perf", "all_reduce", "--np", "2", "-b", "8", "-e", "8", "--json", path)
        self.assertEqual((run.returncode, run.stdout), (1, ""))
        self.assertIn(f"hocket: --json: cannot create {path}: No such file or directory\n", run.stderr)

    def test_a_place_to_meet_that_cannot_be_made(self):
        run = hocket("perf", "all_reduce", "--np", "2", env=environment(TMPDIR=str(self.folder / "none")))
        self.refused(run, 1, str(self.folder / "none"), "TMPDIR")

    def test_more_memory_than_there_is(self):
        run = hocket("perf", "all_reduce", "--np", "2", "-b", "8", "-e", str((1 << 63) - 1))
        self.assertEqual((run.returncode, run.stdout), (1, ""))
        self.assertIn("no memory", run.stderr)
        self.assertIn("lower -e", run.stderr)

    def test_too_few_files(self):
        # Whatever the limit: a result or an error that names it, and soon.
        for limit in range(4, 12):
            with self.subTest(limit=limit):
                run = hocket("perf", "all_reduce", "--np", "2", "-b", "8", "-e", "8", "-n", "1", limit=limit,
                             timeout=20)
                if run.returncode == 0:
                    self.rows(run.stdout)
                else:
                    self.assertIn(f"the limit is {limit}", run.stderr)
        self.assertNotEqual(hocket("perf", "--np", "2", limit=4).returncode, 0)


class Killed(Case):
    def kill_one(self, victim, **variables):
        before = set(os.listdir("/dev/shm"))
        started = subprocess.Popen([path_of(), "perf", "all_reduce", "--np", "3", "-b", "8M", "-e", "8M", "-n",
                                    "1000000", "-c", "0"],
                                   env=environment(TMPDIR=str(self.folder),
                                                   **variables), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True)
        self.addCleanup(started.kill)
        pids = {}
        for line in started.stdout:
            if device := re.match(r"#  Rank +(\d+) Group +0 Pid +(\d+) ", line):
                pids[int(device.group(1))] = int(device.group(2))
            if "(elements)" in line:
                break
        self.assertEqual(sorted(pids), [0, 1, 2], "the job did not come up")
        for pid in pids.values():
            self.assertEqual(self.parent(pid), started.pid)
        time.sleep(0.3)  # into the loop of calls
        os.kill(pids[victim], signal.SIGKILL)
        begin = time.monotonic()
        _, err = started.communicate(timeout=30)
        self.assertLess(time.monotonic() - begin, 10)
        self.assertEqual(started.returncode, 128 + signal.SIGKILL, err)
        self.assertIn(f"rank {victim} was ended by signal 9", err)
        survivors = [line for line in err.splitlines() if line.startswith("hocket: remote error:")]
        self.assertEqual(len(survivors), 2, err)
        for line in survivors:
            self.assertRegex(line, rf"\brank {victim}\b")
        for pid in pids.values():
            self.assertIsNone(self.parent(pid))
        self.assertEqual(os.listdir(self.folder), [])
        # Other jobs of this machine come and go meanwhile: what stays is ours.
        until = time.monotonic() + 5
        while left := {name for name in set(os.listdir("/dev/shm")) - before if "hocket" in name}:
            self.assertLess(time.monotonic(), until, left)
            time.sleep(0.1)

    @staticmethod
    def parent(pid):
        """Of a process that lives; None if it does not."""
        try:
            return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            return None

    def test_any_rank(self):
        for victim in range(3):
            with self.subTest(victim=victim):
                self.kill_one(victim)

    def test_with_files_in_dev_shm(self):
        self.kill_one(0, HOCKET_SHM="devshm")

    def test_over_tcp(self):
        self.kill_one(1, HOCKET_TRANSPORT="tcp")


class Ended(Case):
    def test_a_signal_to_the_launcher_ends_all(self):
        started = subprocess.Popen([path_of(), "perf", "barrier", "--np", "2", "-n", "2000000000", "-c", "0"],
                                   env=environment(TMPDIR=str(self.folder)),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True)
        self.addCleanup(started.kill)
        for line in started.stdout:
            if "(elements)" in line:
                break
        started.send_signal(signal.SIGTERM)
        started.communicate(timeout=10)
        self.assertEqual(started.returncode, 128 + signal.SIGTERM)
        self.assertEqual(os.listdir(self.folder), [])


if __name__ == "__main__":
    cli.main()
