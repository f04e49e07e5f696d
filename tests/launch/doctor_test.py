"""`hocket doctor` on machines with one fault each. First argument: the folder of the programs."""

import json
import resource
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
        for check in ("interfaces", "mtu", "host name", "descriptors", "locked memory", "/dev/shm", "cross memory", "cpus",
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
        """A /dev/shm of its own, with 64 KiB."""
        mount = "mount -t tmpfs -o size=64k tmpfs /dev/shm && exec \"$@\""
        before = ["unshare", "--mount", "--map-root-user", "--user", "sh", "-c", mount, "sh"]
        if subprocess.run([*before, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest(self.MISSING)
        status, found = self.doctor(before=before, HOCKET_SHM="devshm")
        self.assertEqual((status, found["/dev/shm"]["verdict"]), (1, "fail"))
        self.assertIn("--shm-size=1g", found["/dev/shm"]["fix"])
        _, found = self.doctor(before=before)
        self.assertEqual(found["/dev/shm"]["verdict"], "warn")

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
