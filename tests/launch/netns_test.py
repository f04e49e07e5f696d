"""Jobs among hosts that are network namespaces. First argument: the folder of the programs."""

import re

import launch
from launch import TOOLS, Case

WITH = TOOLS / "with-netns.sh"


class Hosts(Case):
    MISSING = "network namespaces cannot be made here"

    def job(self, hosts, per_host=1, master="n1", each="", before=""):
        """A shell script that runs `per_host` ranks on every host; `each` goes before every rank, `before` before all."""
        ranks = [f"on n{1 + r // per_host} env RANK={r} WORLD_SIZE={hosts * per_host} MASTER_ADDR={master} MASTER_PORT=29511 "
                 f"{each} {launch.BIN / 'launch_rank'} & p{r}=$!" for r in range(hosts * per_host)]
        ends = " ".join(f"wait $p{r} || rc=$?;" for r in range(hosts * per_host))
        return f"rc=0\n{before}\n" + "\n".join(ranks) + f"\n{ends} exit $rc"

    def run_job(self, options, script, nranks, **changes):
        return self.good(WITH, *options, "--", "bash", "-c", script, nranks=nranks, HOCKET_DEBUG="INFO", **changes)

    def winners(self, run):
        """[(rank that connects, address of the other, own address)] of the connections between ranks."""
        return re.findall(r" (\d+)/\d+ INFO rank \d+ answers first at \[?([0-9a-f.:]+?)\]?:\d+ \(from ([0-9a-f.:]+)\)", run.stderr)

    def test_three_hosts(self):
        run = self.run_job(["-n", "3"], self.job(3), 3)
        self.assertIn("3 groups of ranks with shared memory, tcp", run.stderr)
        self.assertTrue(self.winners(run))

    def test_dead_interfaces_are_left(self):
        run = self.run_job(["-n", "3", "-D"], self.job(3), 3)
        for _, there, here in self.winners(run):
            self.assertRegex(there + here, r"^(10\.77\.0\.|fd77::).*(10\.77\.0\.|fd77::)")
        # docker0, which is the same on every host, comes last: it is not even tried.
        self.assertNotIn("answers first at 172.17", run.stderr)

    def test_the_chosen_interface_is_used_at_both_ends(self):
        run = self.run_job(["-n", "2", "-2"], self.job(2, 2, each="HOCKET_SOCKET_IFNAME==eth1", master="10.77.1.1"), 4)
        self.assertTrue(self.winners(run))
        for _, there, here in self.winners(run):
            self.assertRegex(there + " " + here, r"^(10\.77\.1\.|fd77:1::)\S+ (10\.77\.1\.|fd77:1::)")

    def test_settings_of_others_are_understood(self):
        for name in ("HCCL_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
            run = self.run_job(["-n", "2", "-2"], self.job(2, each=f"{name}==eth1", master="10.77.1.1"), 2)
            self.assertIn(f"{name}='=eth1' is used", run.stderr)
            for _, there, here in self.winners(run):
                self.assertRegex(there + " " + here, r"^(10\.77\.1\.|fd77:1::)\S+ (10\.77\.1\.|fd77:1::)")

    def test_one_interface_unplugged_leaves_the_other(self):
        self.run_job(["-n", "2", "-2"], self.job(2, master="10.77.1.1", before="unplug -s n2 eth0"), 2)

    def test_ipv6_only(self):
        before = "for i in 1 2; do ip -n n$i addr del 10.77.0.$i/24 dev eth0; done"
        run = self.run_job(["-n", "2"], self.job(2, master="fd77::1", before=before), 2)
        for _, there, here in self.winners(run):
            self.assertRegex(there + " " + here, r"^fd77::\S* fd77::")

    def test_family_by_setting(self):
        run = self.run_job(["-n", "2"], self.job(2, master="fd77::1", each="NCCL_SOCKET_FAMILY=AF_INET6"), 2)
        self.assertTrue(self.winners(run))
        for _, there, here in self.winners(run):
            self.assertRegex(there + " " + here, r"^fd77::\S* fd77::")

    def test_two_interfaces_in_one_network(self):
        before = """for i in 1 2; do
            ip link add n${i}c type veth peer name eth1 netns n$i; ip link set n${i}c master sw0 up
            ip -n n$i addr add 10.77.0.10$i/24 dev eth1; ip -n n$i link set eth1 up; done"""
        self.run_job(["-n", "2"], self.job(2, before=before), 2)
        run = self.run_job(["-n", "2"], self.job(2, before=before, each="HOCKET_SOCKET_IFNAME=eth1", master="10.77.0.101"), 2)
        for _, there, here in self.winners(run):
            self.assertEqual((there, here), ("10.77.0.101", "10.77.0.102"))

    def test_large_messages_go_by_several_connections(self):
        perf = f"{launch.BIN / 'hocket'} perf all_reduce -b 100K -e 6400K -f 4 -w 1 -n 3 -c 3"
        ranks = [f"on n{1 + r % 2} env RANK={r} WORLD_SIZE=4 MASTER_ADDR=n1 MASTER_PORT=29511 HOCKET_HOST_ID=host{r} "
                 f"HOCKET_NSOCKS_PERPEER=3 {perf} & p{r}=$!" for r in range(4)]
        script = "rc=0\n" + "\n".join(ranks) + "\nfor p in $p0 $p1 $p2 $p3; do wait $p || rc=$?; done; exit $rc"
        run = self.run_command(WITH, "-n", "2", "--", "bash", "-c", script, HOCKET_DEBUG="INFO")
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertIn("4 groups of ranks with shared memory, tcp", run.stderr)
        wide = set(re.findall(r" (\d)/4 INFO 3 connections with rank (\d), for large messages", run.stderr))
        self.assertTrue(wide, run.stderr)
        self.assertEqual(wide, {(b, a) for a, b in wide})  # both ends have them
        self.assertNotIn("4 connections", run.stderr)

    def test_a_name_that_means_loopback_at_home(self):
        hosts = self.folder / "hosts"
        hosts.write_text("127.0.0.1 localhost\n127.0.1.1 n1\n")
        script = self.job(2).replace("on n1 env", f"on n1 unshare --mount sh -c 'mount --bind {hosts} /etc/hosts; exec \"$@\"' x env")
        self.run_job(["-n", "2"], script, 2)

    def test_loopback_only(self):
        script = self.job(1, 3, master="127.0.0.1", each="HOCKET_TRANSPORT=tcp", before="ip -n n1 link set eth0 down")
        run = self.run_job(["-n", "1"], script, 3)
        for _, there, here in self.winners(run):
            self.assertIn((there, here), [("127.0.0.1", "127.0.0.1"), ("::1", "::1")])

    def test_ports_of_a_range(self):
        run = self.run_job(["-n", "2"], self.job(2, each="HOCKET_PORT_RANGE=40000-40009"), 2)
        ports = re.findall(r"INFO rank \d+ answers first at \S+:(\d+) ", run.stderr)
        self.assertTrue(ports)
        for port in ports:
            self.assertIn(int(port), range(40000, 40010))

    def fails(self, options, script, nranks, *texts):
        """Every rank ends with an error within its deadline; each of `texts` occurs on at least one."""
        run = self.run_command(WITH, *options, "--", "bash", "-c", script, timeout=30, HOCKET_INIT_TIMEOUT="4")
        self.assertNotEqual(run.returncode, 0)
        self.assertEqual(len(re.findall("(?m)^init: ", run.stderr)), nranks, run.stderr)
        for text in texts:
            self.assertRegex(run.stderr, text)

    def test_a_host_that_is_cut_off_is_named(self):
        self.fails(["-n", "3"], self.job(3, before="unplug -s n3"), 3, r"init: rank 2 of 3 did not come within 4 s",
                   r"init: rank 2 of 3 could not reach rank 0 at tcp://n1:29511 before the deadline")

    def test_a_range_that_is_used_up(self):
        hold = "python3 -c 'import socket,time;s=[socket.create_server((\"10.77.0.2\",p)) for p in (40000,40001)];time.sleep(8)'"
        before = f"for i in 0 1; do ip -n n2 addr del fd77::2/64 dev eth0 2>/dev/null; done; on n2 {hold} & sleep 1"
        self.fails(["-n", "3"], self.job(3, before=before, each="HOCKET_PORT_RANGE=40000-40001"), 3,
                   r"rank 1 .*HOCKET_PORT_RANGE=40000-40001 is free on 10.77.0.2: another job uses them")

    def test_no_interface_is_left(self):
        script = self.job(3, each="HOCKET_INIT_TIMEOUT=4").replace("env RANK=1", "env HOCKET_SOCKET_IFNAME=ib RANK=1")
        self.fails(["-n", "3"], script, 3, r"no network interface is left by HOCKET_SOCKET_IFNAME='ib': this host has lo \(",
                   r"init: rank 1 of 3 did not come within")


if __name__ == "__main__":
    launch.main()
