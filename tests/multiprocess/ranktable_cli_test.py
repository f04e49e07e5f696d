"""Runs `hocket ranktable` as its users do, and jobs from the tables that it makes. First argument: the path of the program."""

import json
import os
import pathlib
import subprocess

import cli
from cli import Case, environment, free_port, hocket, path_of

TABLES = pathlib.Path(__file__).parent.parent / "data" / "rank_tables"
V10, V12, V20 = (TABLES / f"own_{name}.json" for name in ("v1_0_a2_ports_2srv", "v1_2_superpod_2x2x2", "v2_0_2rank"))


def ranktable(*arguments, **how):
    return hocket("ranktable", *(str(a) for a in arguments), **how)


class Ranktable(Case):
    def made(self, *arguments, lost=(), **how):
        """The table that a command writes; it must say that all of `lost`, and nothing else, was not carried over."""
        run = ranktable(*arguments, **how)
        self.assertEqual(run.returncode, 0, run.stderr)
        said = run.stderr.splitlines()
        self.assertEqual(len(said), len(lost), run.stderr)
        for line, words in zip(said, lost):
            self.assertTrue(line.startswith(f"hocket: not carried over: {words}"), line)
        return json.loads(run.stdout)

    def file(self, name, content):
        path = self.folder / name
        path.write_text(content if isinstance(content, str) else json.dumps(content, indent=1))
        return path

    def table(self, changes=lambda table: None, name="changed.json", of=V10):
        table = json.loads(of.read_text())
        changes(table)
        return self.file(name, table)


class Lint(Ranktable):
    def test_says_all_errors_of_all_files(self):
        def spoil(table):
            table["server_count"] = "3"
            table["server_list"][1]["device"][0]["rank_id"] = "0"
        bad = self.table(spoil)
        run = ranktable("lint", V10, bad, TABLES / "own_status_initializing.json")
        self.assertEqual(run.returncode, 1)
        self.assertEqual(run.stderr, "")
        lines = run.stdout.splitlines()
        self.assertEqual(lines[0], f"{V10}: valid: version 1.0, 2 servers, 4 ranks")
        self.assertRegex(lines[1], rf"^{bad}:4:\d+: server_count: found 3, expected 2, .* \[wrong-count\]$")
        self.assertRegex(lines[2], rf"^{bad}:33:\d+: server_list\[1\].device\[0\].rank_id: found rank 0 again, .* \[duplicate-rank\]$")
        self.assertEqual(lines[3], f"{TABLES / 'own_status_initializing.json'}: initializing: whoever fills it has not finished")
        self.assertEqual(len(lines), 4)

    def test_json_has_the_same(self):
        bad = TABLES / "bad_ei0004_dup_device_id_rank0.json"
        run = ranktable("lint", "--json", V20, bad)
        self.assertEqual(run.returncode, 1)
        good, spoilt = json.loads(run.stdout)
        self.assertEqual(good, {"file": str(V20), "errors": 0, "warnings": 0, "status": "valid", "version": "2.0", "servers": 1,
                                "ranks": 2, "problems": []})
        self.assertEqual((spoilt["status"], spoilt["errors"]), ("invalid", 2))
        self.assertEqual(spoilt["problems"][0], {
            "file": str(bad), "line": 12, "column": 24, "field": "server_list[0].device[1].device_id", "severity": "error",
            "kind": "duplicate-device", "hccl_code": "EI0004", "found": "device 1 of server '10.*.*.*' again",
            "expected": "each device once: it is in line 7 as well", "fix": "give each rank its own device"})

    def test_spares_are_said(self):
        run = ranktable("lint", "--ranks", "3", V10)
        self.assertEqual(run.returncode, 1)
        self.assertIn("found 4 entries, expected 3: 3 ranks and 0 spares, fix: start 4 ranks, or say that the rest are spare cards: "
                      "--spares 1 [spare-devices]", run.stdout)
        self.assertEqual(ranktable("lint", "--ranks", "3", "--spares", "1", V10).returncode, 0)
        self.assertEqual(ranktable("lint", "--spares", "1", V10).returncode, 0)
        for arguments in (("--ranks", "5"), ("--spares", "4"), ("--ranks", "4", "--spares", "1")):
            run = ranktable("lint", *arguments, V10)
            self.assertEqual(run.returncode, 1, arguments)
            self.assertIn("[rank-size-differs]", run.stdout)

    def test_names_that_are_not_utf8_do_no_harm(self):
        path = os.fsencode(self.folder) + b"/\xff.json"
        run = subprocess.run([path_of(), "ranktable", "lint", "--json", path], capture_output=True, env=environment(), check=False)
        self.assertEqual(run.returncode, 1)
        self.assertEqual(json.loads(run.stdout)[0]["problems"][0]["kind"], "unreadable-file")

    def test_usage(self):
        self.refused(ranktable("lint"), 2, "file")
        self.refused(ranktable("lnt", V10), 2, "lnt", "did you mean lint?")
        self.refused(ranktable("convert", V10, "--to", "3.0"), 2, "3.0")


class Show(Ranktable):
    def test_table(self):
        run = ranktable("show", V10)
        self.assertEqual(run.stdout.splitlines(), [
            f"{V10}: version 1.0, 2 servers, 4 ranks",
            "server  host      device  device_ip  local  rank",
            "node_0  10.0.0.1       0  10.1.0.8       0     0",
            "node_0  10.0.0.1       1  10.1.0.9       1     1",
            "node_1  10.0.0.2       0  10.1.1.8       0     2",
            "node_1  10.0.0.2       1  10.1.1.9       1     3"])
        self.assertEqual(run.returncode, 0)

    def test_refuses_what_is_not_valid(self):
        run = ranktable("show", TABLES / "masked_2srv.json")
        self.assertEqual((run.returncode, run.stdout), (1, ""))
        self.assertIn("[bad-address, EI0014]", run.stderr)


class Merge(Ranktable):
    def one(self, name, ranks):
        """A table of one server, its ranks in the order of its devices."""
        devices = [{"device_id": str(i), "rank_id": str(r), "numa_id": "1"} for i, r in enumerate(ranks)]
        return self.file(name + ".json", {"status": "completed", "version": "1.0", "server_count": "1", "server_list": [
            {"server_id": name, "host_ip": f"10.0.0.{ord(name) - 96}", "device": devices, "host_nic_ip": "reserve"}]})

    def ranks(self, table):
        return [(s["server_id"], [(d["device_id"], d["rank_id"]) for d in s["device"]]) for s in table["server_list"]]

    def test_keeps_the_order_of_the_arguments_and_of_the_ranks(self):
        a, b, c = self.one("a", [0, 1]), self.one("b", [1, 0]), self.one("c", [0])
        merged = self.made("merge", c, b, a)
        self.assertEqual(self.ranks(merged), [("c", [("0", "0")]), ("b", [("0", "2"), ("1", "1")]), ("a", [("0", "3"), ("1", "4")])])
        self.assertEqual(merged["server_count"], "3")
        self.assertEqual(merged["server_list"][1]["host_nic_ip"], "reserve")
        self.assertEqual(merged["server_list"][1]["device"][0]["numa_id"], "1")

    def test_mends_the_numbers_of_one_table(self):
        def interleave(table):
            for i, rank in enumerate("0246"):
                table["server_list"][i // 2]["device"][i % 2]["rank_id"] = rank
            table["server_list"].reverse()
        bad = self.table(interleave)
        self.assertEqual(ranktable("lint", bad).returncode, 1)
        self.assertEqual(self.ranks(self.made("merge", bad)), [("node_0", [("0", "0"), ("1", "1")]), ("node_1", [("0", "2"), ("1", "3")])])

    def test_what_contradicts_is_refused(self):
        a = self.one("a", [0])
        run = ranktable("merge", a, a)
        self.assertEqual((run.returncode, run.stdout), (1, ""))
        self.assertIn("found 'a' again", run.stderr)
        self.refused(ranktable("merge", a, V12), 1, f"{a} has version 1.0, {V12} has 1.2", "hocket ranktable convert")

    def test_super_pods_and_clusters_are_kept(self):
        merged = self.made("merge", V12)
        self.assertEqual(merged, json.loads(V12.read_text()))
        cluster = TABLES / "own_v1_0_cross_cluster.json"
        self.assertEqual(self.made("merge", cluster), json.loads(cluster.read_text()))


class Convert(Ranktable):
    def test_there_and_back(self):
        for path, version in ((V10, "1.2"), (V10, "2.0"), (V10, "1.0"), (V12, "1.2"), (V20, "2.0")):
            with self.subTest(path=path, version=version):
                own = json.loads(path.read_text())
                there = self.file("there.json", self.made("convert", path, "--to", version))
                self.assertEqual(json.loads(there.read_text())["version"], version)
                self.assertEqual(ranktable("lint", there).returncode, 0)
                self.assertEqual(self.made("convert", there, "--to", own["version"]), own)

    def test_says_what_is_lost(self):
        table = self.made("convert", V12, "--to", "1.0", lost=(
            "version 1.0 has no backup_device_ip (8 of them, the first: '10.1.0.9')", "version 1.0 has no backup_device_port (8",
            "version 1.0 has no super_device_id (8", "version 1.0 has no super_pod_list (2 of them, the first: '0')"))
        self.assertEqual((table["version"], len(table["server_list"])), ("1.0", 4))
        table = self.made("convert", V20, "--to", "1.0", lost=(
            "version 1.x has no EID addresses (2", "version 1.x has no networks (2 of them, the first: 'cluster')",
            "version 1.x has no plane_id (4", "version 1.x has no ports of addresses (4",
            "version 1.x has one host address per server (10.0.0.2)"))
        self.assertEqual(table["server_list"][0]["host_ip"], "10.0.0.1")

    def test_template_2_becomes_a_version(self):
        table = self.made("convert", TABLES / "own_template2_group_list.json", "--to", "1.2", lost=("version 1.2 has no pod_name (2",))
        self.assertEqual([d["rank_id"] for s in table["server_list"] for d in s["device"]], ["0", "1"])

    def test_what_has_no_place_is_an_error(self):
        def spoil(table):
            table["server_list"][0]["device"][0]["device_id"] = "65"
        self.refused(ranktable("convert", self.table(spoil), "--to", "2.0"), 1, "rank 0 has device 65", "at most 64")


class Generate(Ranktable):
    def test_of_hosts(self):
        table = self.made("generate", "--no-probe", "--hosts", "10.0.0.1:2,10.0.0.2:1")
        self.assertEqual(table, {"status": "completed", "version": "1.0", "server_count": "2", "server_list": [
            {"server_id": "10.0.0.1", "host_ip": "10.0.0.1", "device": [{"device_id": "0", "rank_id": "0"}, {"device_id": "1", "rank_id": "1"}]},
            {"server_id": "10.0.0.2", "host_ip": "10.0.0.2", "device": [{"device_id": "0", "rank_id": "2"}]}]})
        table = self.made("generate", "--no-probe", "--hosts", "[fd00::1]:2,fd00::2", "--devices", "[4,6)", "--to", "2.0")
        self.assertEqual([(r["rank_id"], r["device_id"], r["level_list"][-1]["rank_addr_list"][0]["addr"]) for r in table["rank_list"]],
                         [(0, 4, "fd00::1"), (1, 5, "fd00::1"), (2, 4, "fd00::2"), (3, 5, "fd00::2")])

    def test_of_this_machine(self):
        table = self.made("generate", "--devices", "0,2,5", env=environment(HOCKET_SOCKET_IFNAME="lo", HOCKET_SOCKET_FAMILY="ipv4"))
        self.assertEqual(table["server_list"][0]["host_ip"], "127.0.0.1")
        self.assertEqual([d["device_id"] for d in table["server_list"][0]["device"]], ["0", "2", "5"])
        self.refused(ranktable("generate"), 2, "how many devices?")

    def test_device_addresses_of_an_hccn_conf(self):
        conf = self.file("hccn.conf", "# devices\naddress_0=10.1.0.1\nnetmask_0=255.255.255.0\naddress_3 = 10.1.0.4\n")
        table = self.made("generate", "--hosts", "127.0.0.1", "--hccn", conf)
        self.assertEqual([(d["device_id"], d["device_ip"]) for d in table["server_list"][0]["device"]], [("0", "10.1.0.1"), ("3", "10.1.0.4")])
        self.refused(ranktable("generate", "--hosts", "127.0.0.1", "--devices", "2", "--hccn", conf), 1, "address_1=IP", "device 1")
        self.refused(ranktable("generate", "--hosts", "10.0.0.1,10.0.0.2", "--hccn", conf), 2, "HOST=FILE")
        self.file("hccn.conf", "address_0=10.1.0\n")
        self.refused(ranktable("generate", "--hosts", "127.0.0.1", "--hccn", conf), 1, f"{conf}:1:", "address_N=IP")

    def test_of_a_slurm_allocation(self):
        # Names that resolve everywhere: addresses, written as Slurm writes names.
        job = environment(SLURM_JOB_NODELIST="10.0.0.[1-3],10.0.1.7", SLURM_TASKS_PER_NODE="2(x3),1")
        table = self.made("generate", "--no-probe", "--slurm", env=job)
        self.assertEqual([(s["server_id"], len(s["device"])) for s in table["server_list"]],
                         [("10.0.0.1", 2), ("10.0.0.2", 2), ("10.0.0.3", 2), ("10.0.1.7", 1)])
        step = {**job, "SLURM_STEP_NODELIST": "10.0.0.[2,3]", "SLURM_STEP_TASKS_PER_NODE": "1,3"}
        self.assertEqual([len(s["device"]) for s in self.made("generate", "--no-probe", "--slurm", env=step)["server_list"]], [1, 3])
        self.refused(ranktable("generate", "--slurm"), 1, "SLURM_JOB_NODELIST is not set")
        for nodes, tasks, words in (("n[1-", "1", "does not parse"), ("n[3-1]", "1", "does not parse"), ("n[0-99999999]", "1", "does not parse"),
                                    ("n1", "1(x", "do not parse"), ("n[1-2]", "1", "2 nodes")):
            with self.subTest(nodes=nodes, tasks=tasks):
                self.refused(ranktable("generate", "--slurm", env=environment(SLURM_JOB_NODELIST=nodes, SLURM_TASKS_PER_NODE=tasks)), 1, words)

    def test_of_an_mpi_allocation(self):
        hosts = self.file("hosts", "# MPI\n10.0.0.1 slots=2 max_slots=4\n10.0.0.2:3\n\n10.0.0.3\n10.0.0.3\n")
        table = self.made("generate", "--no-probe", "--mpi", env=environment(PBS_NODEFILE=str(hosts)))
        self.assertEqual([(s["server_id"], len(s["device"])) for s in table["server_list"]], [("10.0.0.1", 2), ("10.0.0.2", 3), ("10.0.0.3", 2)])
        self.refused(ranktable("generate", "--mpi"), 1, "PBS_NODEFILE")
        self.file("hosts", "10.0.0.1 slots=some\n")
        self.refused(ranktable("generate", "--mpi", env=environment(HYDRA_HOST_FILE=str(hosts))), 1, f"{hosts}:1:")

    def test_addresses_that_nobody_can_use_are_refused(self):
        self.refused(ranktable("generate", "--hosts", "127.0.1.1:2"), 1, "127.0.1.1", "[loopback-address]")
        self.refused(ranktable("generate", "--hosts", "127.0.0.1:1,10.0.0.2:1"), 1, "127.0.0.1", "[loopback-address]")
        self.refused(ranktable("generate", "--hosts", "no.such.host.invalid:1"), 1, "no.such.host.invalid")
        # Of no host, ever: a group's.
        self.refused(ranktable("generate", "--hosts", "224.0.0.1:1"), 1, "cannot reach 224.0.0.1 at 224.0.0.1: Network is unreachable", "--no-probe", "[no-connection]")

    def test_usage(self):
        self.refused(ranktable("generate", "--hosts", "a:0"), 2, "'a:0'")
        self.refused(ranktable("generate", "--hosts", "a:1", "--slurm"), 2, "one of")
        for devices in ("0-", "3-1", "1,1", "[0,0)", "-1", "x", "0,99999"):
            with self.subTest(devices=devices):
                self.refused(ranktable("generate", "--no-probe", "--hosts", "10.0.0.1", f"--devices={devices}"), 2, "--devices")
        self.refused(ranktable("generate", "--no-probe", "--hosts", "10.0.0.1:3", "--devices", "2"), 2, "3 ranks and 2 devices")

    def test_a_file_that_cannot_be_written_is_an_error(self):
        self.refused(ranktable("generate", "--hosts", "127.0.0.1:1", "-o", "/no/such/folder/x.json"), 1, "/no/such/folder/x.json")
        self.refused(ranktable("generate", "--hosts", "127.0.0.1:1", "-o", "/dev/full"), 1, "/dev/full")


class Jobs(Ranktable):
    def job(self, table, ranks, **changes):
        """`hocket perf` in as many processes; each one's (status, output, error)."""
        base = {"RANK_TABLE_FILE": str(table), "HCCL_IF_BASE_PORT": free_port(), "HOCKET_INIT_TIMEOUT": "20", **changes}
        running = [subprocess.Popen([path_of(), "perf", "all_reduce", "-b", "1K", "-e", "1K", "-n", "2"], text=True,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(RANK_ID=str(r), **base)) for r in ranks]
        ended = [p.communicate(timeout=60) for p in running]
        return [(p.returncode, *texts) for p, texts in zip(running, ended)]

    def test_perf_from_tables_of_every_version(self):
        for version in ("1.0", "1.2", "2.0"):
            with self.subTest(version=version):
                path = self.folder / "table.json"
                self.assertEqual(ranktable("generate", "--hosts", "127.0.0.1:3", "--to", version, "-o", path).returncode, 0)
                ended = self.job(path, range(3))
                for status, _, error in ended:
                    self.assertEqual((status, error), (0, ""))
                self.check_row(self.rows(ended[0][1])[0], 1024, "float", "sum", -1)

    def test_perf_from_template_2(self):
        path = self.file("groups.json", {"status": "completed", "group_count": "1", "group_list": [
            {"group_name": "hccl_world_group", "instance_count": "2", "device_count": "2", "instance_list": [
                {"pod_name": p, "server_id": "127.0.0.1", "devices": [{"device_id": str(i)}]} for i, p in enumerate("xy")]}]})
        self.assertEqual([status for status, _, _ in self.job(path, range(2))], [0, 0])

    def test_an_error_is_said_by_every_rank(self):
        path = self.folder / "table.json"
        self.assertEqual(ranktable("generate", "--hosts", "127.0.0.1:3", "-o", path).returncode, 0)
        for status, _, error in self.job(path, range(3), DEVICE_ID="1"):
            self.assertEqual(status, 1)
            self.assertIn("DEVICE_ID: found 1, which the table gives to rank 1, expected ", error)
            self.assertIn("[device-id-differs, EI0004]", error)


if __name__ == "__main__":
    cli.main()
