"""`hocket doctor` on machines with one fault each. First argument: the folder of the programs."""

import json
import pathlib
import resource
import shutil
import socket
import subprocess

import launch
from launch import TOOLS, Case


class Doctor(Case):
    MISSING = "network namespaces cannot be made here"

    def doctor(self, *words, before=(), limit=None, **changes):
        """(exit status, {check: finding}) of `hocket doctor --json`."""
        def lower():
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))

        run = subprocess.run([*map(str, before), launch.BIN / "hocket", "doctor", "--json", *map(str, words)], text=True,
                             capture_output=True, timeout=60, check=False, env=launch.environment(**changes),
                             preexec_fn=lower if limit else None)
        if run.returncode == 77:
            self.skipTest(self.MISSING)
        report = json.loads(run.stdout)
        return run.returncode, {f["check"]: f for f in report["findings"]}

    def test_every_line_has_a_verdict_and_what_is_not_good_has_a_fix(self):
        run = self.run_command(launch.BIN / "hocket", "doctor")
        lines = run.stdout.splitlines()
        heads = [i for i, line in enumerate(lines) if not line.startswith("      -> ")]
        for i in heads:
            self.assertRegex(lines[i], r"^(ok  |warn|fail)  [^:]+: \S")
            fixed = i + 1 < len(lines) and lines[i + 1].startswith("      -> ")
            self.assertEqual(fixed, not lines[i].startswith("ok"), lines[i])
        self.assertEqual(run.returncode, 1 if any(lines[i].startswith("fail") for i in heads) else 0)
        _, found = self.doctor()
        for check in ("interfaces", "mtu", "host name", "descriptors", "locked memory", "ports", "/dev/shm", "cross memory", "cpus",
                      "huge pages", "leftovers"):
            self.assertIn(check, found)

    def test_few_descriptors(self):
        status, found = self.doctor(limit=64)
        self.assertEqual((status, found["descriptors"]["verdict"]), (1, "fail"))
        self.assertIn("ulimit -n is 64", found["descriptors"]["found"])
        self.assertIn("`ulimit -n 4096`", found["descriptors"]["fix"])
        self.assertEqual(self.doctor(limit=512)[1]["descriptors"]["verdict"], "warn")
        self.assertEqual(self.doctor(limit=1024)[1]["descriptors"]["verdict"], "ok")

    def test_no_interface(self):
        status, found = self.doctor(HOCKET_SOCKET_IFNAME="nosuch")
        self.assertEqual((status, found["interfaces"]["verdict"]), (1, "fail"))
        self.assertIn("no network interface is left by HOCKET_SOCKET_IFNAME='nosuch'", found["interfaces"]["found"])

    def test_ports(self):
        self.assertEqual(self.doctor()[1]["ports"]["verdict"], "ok")
        self.assertEqual(self.doctor(HOCKET_PORT_RANGE="20000-20099")[1]["ports"]["verdict"], "ok")
        status, found = self.doctor(HOCKET_PORT_RANGE="9-1")
        self.assertEqual((status, found["ports"]["verdict"]), (1, "fail"))
        first, last = map(int, pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
        _, found = self.doctor(HOCKET_PORT_RANGE=f"{first - 1}-{first}")
        self.assertEqual(found["ports"]["verdict"], "warn")
        self.assertIn(f"the system takes 1 of them for outgoing connections ({first}-{last})", found["ports"]["found"])

    def test_stale_rendezvous_file(self):
        file = self.folder / "meet"
        file.write_bytes(b"HKTF")
        _, found = self.doctor(HOCKET_INIT=f"file://{file}")
        self.assertEqual(found["leftovers"]["verdict"], "warn")
        self.assertIn(str(file), found["leftovers"]["found"])
        self.assertRegex(found["leftovers"]["fix"], rf"^rm.* {file}")
        other = self.folder / "none"
        _, found = self.doctor(HOCKET_INIT=f"file://{other}")
        self.assertNotIn(str(other), found["leftovers"]["found"])

    def test_full_shared_memory(self):
        """A /dev/shm of its own, which a file fills."""
        fill = "mount -t tmpfs -o size=128m tmpfs /dev/shm && fallocate -l 128M /dev/shm/file && exec \"$@\""
        for how in ((), ("--map-root-user", "--user")):
            before = ["unshare", "--mount", *how, "sh", "-c", fill, "sh"]
            if subprocess.run([*before, "true"], capture_output=True, check=False).returncode == 0:
                break
        else:
            self.skipTest("no /dev/shm of its own can be mounted here")
        status, found = self.doctor(before=before, HOCKET_SHM="devshm")
        self.assertEqual((status, found["/dev/shm"]["verdict"]), (1, "fail"))
        self.assertIn("0 MiB of 128 MiB are free", found["/dev/shm"]["found"])
        self.assertIn("--shm-size=1g", found["/dev/shm"]["fix"])
        # By default nothing is made there.
        _, found = self.doctor(before=before)
        self.assertEqual(found["/dev/shm"]["verdict"], "warn")

    def table(self, *addresses, name="table.json"):
        servers = [{"server_id": f"s{i}", "host_ip": a, "device": [{"device_id": "0", "device_ip": f"10.9.{i}.1", "rank_id": str(i)}]}
                   for i, a in enumerate(addresses)]
        file = self.folder / name
        file.write_text(json.dumps({"version": "1.0", "status": "completed", "server_count": str(len(servers)),
                                    "server_list": servers}, indent=1))
        return file

    def test_rank_table_of_this_host(self):
        table = self.table("127.0.0.1")
        for words, changes in ((("--rank-table", table), {}), ((), {"RANK_TABLE_FILE": str(table)})):
            _, found = self.doctor(*words, **changes, HCCL_IF_BASE_PORT="21800")
            for check in ("rank table", "place in the table", "meeting place"):
                self.assertEqual(found[check]["verdict"], "ok", found[check])
            self.assertEqual(found["rank table"]["found"], f"{table}: version 1.0, 1 servers, 1 ranks")
            self.assertIn("tcp://127.0.0.1:21800 (", found["meeting place"]["found"])
        first, last = map(int, pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
        _, found = self.doctor("--rank-table", table, HCCL_IF_BASE_PORT=str(first))
        self.assertEqual(found["meeting place"]["verdict"], "warn")
        self.assertIn(f"the system takes for outgoing connections ({first}-{last})", found["meeting place"]["found"])
        with socket.create_server(("127.0.0.1", 0)) as holder:
            status, found = self.doctor("--rank-table", table, HOCKET_PORT_RANGE=str(holder.getsockname()[1]))
        self.assertEqual((status, found["meeting place"]["verdict"]), (1, "fail"))
        self.assertIn("the port is taken by another process", found["meeting place"]["found"])

    def test_rank_table_that_is_wrong(self):
        table = self.table("127.0.0.1")
        table.write_text(table.read_text().replace('"server_count": "1"', '"server_count": "2"'))
        status, found = self.doctor("--rank-table", table)
        self.assertEqual((status, found["rank table"]["verdict"]), (1, "fail"))
        self.assertIn("[wrong-count", found["rank table"]["found"])
        run = self.run_command(launch.BIN / "hocket", "doctor", RANK_TABLE_FILE=str(table), MINDSPORE_HCCL_CONFIG_PATH="/other")
        self.assertEqual(run.returncode, 2)
        self.assertIn("[two-tables]", run.stderr)

    def test_rank_table_whose_hosts_cannot_be_asked(self):
        """A warning: its ranks need not be started from here. The table's address does not answer: an error."""
        status, found = self.doctor("--rank-table", self.table("203.0.113.1", "224.0.0.1"), "--remote", "false")
        self.assertEqual(found["place in the table"]["verdict"], "warn")
        self.assertIn("none of its hosts is this one, which has ", found["place in the table"]["found"])
        self.assertEqual(found["224.0.0.1: report"]["verdict"], "warn")
        self.assertIn("--rank-table", found["224.0.0.1: report"]["fix"])
        self.assertEqual((status, found["224.0.0.1: answers"]["verdict"]), (1, "fail"))

    def test_rank_table_of_three_hosts(self):
        """Two are as they should be; of the third the cable is out, and the table is another on the second."""
        script = self.folder / "rsh"
        script.write_text('#!/bin/sh\nhost=n${1##*.}; shift; exec on "$host" sh -c "$*"\n')
        script.chmod(0o755)
        table, other = self.table("10.77.0.1", "10.77.0.2", "10.77.0.3"), self.table("10.77.0.3", "10.77.0.2", "10.77.0.1", name="other")
        words = ("--rank-table", table, "--remote", script)
        before = [TOOLS / "with-netns.sh", "-n", "3", "--"]
        status, found = self.doctor(*words, before=[*before, "on", "n1"], HCCL_IF_BASE_PORT="21800")
        self.assertEqual(found["place in the table"]["found"], "10.77.0.1: 1 ranks")
        for peer in ("10.77.0.2", "10.77.0.3"):
            for check in ("answers", "library", "kernel", "table", "clock", "reaches this host"):
                self.assertEqual(found[f"{peer}: {check}"]["verdict"], "ok", found)
        self.assertEqual(status, 0, found)
        script.write_text(f'#!/bin/sh\nhost=n${{1##*.}}; shift; exec on "$host" sh -c "mount --bind {other} {table}; $*"\n')
        status, found = self.doctor(*words, before=[*before, "sh", "-c", 'unplug n3; exec on n1 "$@"', "sh"], HCCL_IF_BASE_PORT="21800")
        self.assertEqual((status, found["10.77.0.3: answers"]["verdict"]), (1, "fail"), found)
        self.assertEqual(found["10.77.0.2: answers"]["verdict"], "ok", found)
        self.assertEqual(found["10.77.0.2: table"]["verdict"], "fail", found)
        self.assertEqual(found["10.77.0.2: table"]["fix"], f"copy {table} to all hosts")

    def test_peers_that_hold_out(self):
        """A peer that closes its output and runs on, and one that prints without end."""
        script = self.folder / "remote"
        good = '{"version": "1", "kernel": "0", "time": 0, "reach": {}, "findings": []}'
        script.write_text("#!/bin/sh\ncase $1 in\n"
                          f"closes) echo '{good}'; exec >&-; sleep 2; exit 0 ;;\n"
                          "prints) yes ;;\n"
                          "esac\n")
        script.chmod(0o755)
        status, found = self.doctor("--peers", "closes,prints", "--remote", script)
        self.assertEqual(status, 1)
        self.assertEqual(found["closes: library"]["found"], "1")
        self.assertIn("prints more than 1 MiB", found["prints: report"]["found"])

    def test_words_reach_the_peer_as_they_are(self):
        """Also the path of a program that has a blank in it."""
        folder = self.folder / "a folder's"
        folder.mkdir()
        shutil.copy(launch.BIN / "hocket", folder / "hocket")
        script = self.folder / "remote"
        script.write_text('#!/bin/sh\nshift; exec sh -c "$*"\n')
        script.chmod(0o755)
        run = self.run_command(folder / "hocket", "doctor", "--json", "--peers", "x", "--remote", script)
        self.assertIn('"x: library"', run.stdout, run.stderr)

    def test_usage(self):
        for words, text in ((["--peers=-x"], "--peers is '-x': give names or addresses of hosts"),
                            (["--peers", "a", "--remote", " "], "--remote is ' ': give the command that runs a command line")):
            run = self.run_command(launch.BIN / "hocket", "doctor", *words)
            self.assertEqual(run.returncode, 2, run.stderr)
            self.assertIn(text, run.stderr)

    def test_peers_of_their_own(self):
        before = [TOOLS / "with-netns.sh", "-n", "3", "--", "on", "n1"]
        status, found = self.doctor("--peers", "n2,n3", "--remote", TOOLS / "netns-rsh.sh", before=before)
        for peer in ("n2", "n3"):
            for check in ("library", "kernel", "clock", "reaches this host"):
                self.assertEqual(found[f"{peer}: {check}"]["verdict"], "ok", found)
            self.assertIn("10.77.0.1:", found[f"{peer}: reaches this host"]["found"])
        self.assertEqual(status, 0, found)

    def test_a_peer_that_reaches_one_of_two_addresses(self):
        before = [TOOLS / "with-netns.sh", "-n", "2", "-2", "--", "sh", "-c", "unplug -s n1 eth1; exec on n1 \"$@\"", "sh"]
        _, found = self.doctor("--peers", "n2", "--remote", TOOLS / "netns-rsh.sh", before=before)
        reach = found["n2: reaches this host"]
        self.assertEqual(reach["verdict"], "warn", reach)
        self.assertRegex(reach["found"], r"^at .*10\.77\.0\.1:.*, not at .*10\.77\.1\.1:")

    def test_a_peer_that_does_not_answer(self):
        status, found = self.doctor("--peers", "nobody", "--remote", "false")
        self.assertEqual(found["nobody: report"]["verdict"], "fail")
        self.assertEqual(status, 1)

    def test_a_peer_of_another_version_and_time(self):
        script = self.folder / "remote"
        script.write_text('#!/bin/sh\necho \'{"version": "9.9.9", "kernel": "0", "time": 1000, "reach": {}, "findings": '
                          '[{"check": "cpus", "verdict": "warn", "found": "f", "fix": "x"}]}\'\n')
        script.chmod(0o755)
        status, found = self.doctor("--peers", "old", "--remote", script)
        self.assertEqual(status, 1)
        self.assertEqual({k: v["verdict"] for k, v in found.items() if k.startswith("old: ")},
                         {"old: library": "fail", "old: kernel": "warn", "old: clock": "warn",
                          "old: reaches this host": "fail", "old: cpus": "warn"})

    def test_a_peer_that_sends_junk(self):
        script = self.folder / "remote"
        for junk in ("", "[]", "{", '{"findings": 1}', '{"findings": [1, {"check": 2}], "version": 3}'):
            script.write_text(f"#!/bin/sh\nprintf '%s' '{junk}'\n")
            script.chmod(0o755)
            self.assertEqual(self.doctor("--peers", "junk", "--remote", script)[0], 1)


if __name__ == "__main__":
    launch.main()
