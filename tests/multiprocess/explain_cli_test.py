"""Runs `hocket explain`, `hocket perf --explain`, and ranks whose tune files differ. First argument: the path of the program."""

import json
import pathlib
import socket
import subprocess

import cli
from cli import Case, environment, hocket, path_of

COSTS = ["step", "message", "cross", "line", "turn", "near", "mid", "far", "pull", "push", "first", "cache_kib",
         "outer_kib", "socket", "socket_kib", "wire", "fetch", "fetch_kib"]


class Explain(Case):
    def setUp(self):
        super().setUp()
        self.env = environment(XDG_CACHE_HOME=str(self.folder))

    def explain(self, *arguments, **changes):
        run = hocket("explain", *arguments, "--json", env={**self.env, **changes})
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        return json.loads(run.stdout)

    def test_says_what_is_chosen_and_what_else_there_is(self):
        told = self.explain("all_reduce", "--np", "8", "--bytes", "1M", "--cpus", "2")
        self.assertEqual((told["collective"], told["bytes"], told["ranks"], told["cpus"]), ("all_reduce", 1 << 20, 8, 2))
        times = [r["predicted_us"] for r in told["ranking"]]
        self.assertEqual(times, sorted(times))
        self.assertGreaterEqual(times[0], told["lower_bound_us"])
        self.assertGreater(told["lower_bound_us"], 0)
        chosen = [r["predicted_us"] for r in told["ranking"]
                  if (r["planner"], r["way"]) == (told["planner"], told["way"])]
        self.assertLessEqual(chosen[0], times[0] * 2.01)  # reading has to take half the time
        text = hocket("explain", "all_reduce", "--np", "8", "--bytes", "1M", "--cpus", "2", env=self.env).stdout
        self.assertRegex(text, rf"(?m)^> {told['planner']} ")
        self.assertRegex(text, r"(?m)^  lower bound ")

    def test_network_says_what_was_probed_and_why_the_winner_won(self):
        with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            open_peer, closed_peer = (f"127.0.0.1:{s.getsockname()[1]}" for s in (server, closed))
            told = self.explain("network", open_peer, HOCKET_SOCKET_IFNAME="=lo", HOCKET_SOCKET_FAMILY="ipv4")
            self.assertEqual([(a["interface"], a["address"]) for a in told["addresses"]], [("lo", "127.0.0.1")])
            for left in told["left_out"]:
                self.assertEqual(left["why"], "by HOCKET_SOCKET_IFNAME==lo")
            [peer] = told["peers"]
            self.assertEqual(peer["peer"], open_peer)
            self.assertEqual([(w["to"], w["from"], w["outcome"], w["wins"]) for w in peer["ways"]],
                             [(open_peer, "127.0.0.1", "answers", True)])
            run = hocket("explain", "network", open_peer, closed_peer, env=self.env)
        self.assertEqual(run.returncode, 1)
        self.assertIn("this host is reached at, best first:", run.stdout)
        self.assertRegex(run.stdout, rf"(?m)^> {open_peer}( from \S+)? +answers after [0-9.]+ ms, the first$")
        self.assertRegex(run.stdout, rf"(?m)^  {closed_peer}( from \S+)? +cannot connect to {closed_peer}: Connection refused$")
        self.assertIn(f"no way to {closed_peer} answers", run.stderr)

    def test_network_takes_peers_and_nothing_else_does(self):
        run = hocket("explain", "all_reduce", "h:1", env=self.env)
        self.assertEqual(run.returncode, 2)
        self.assertIn("'h:1' has no place here", run.stderr)

    def test_what_is_forced(self):
        told = self.explain("all_reduce", "--np", "4", HOCKET_ALGO="ring")
        self.assertEqual((told["planner"], told["forced"]), ("ring", True))

    def test_where_there_is_no_forecast(self):
        told = self.explain("all_reduce", "--np", "100")
        self.assertEqual((told["forecast"], told["ranking"]), (False, []))

    def test_mistakes(self):
        self.refused(hocket("explain", "all_reduc", env=self.env), 2, "all_reduc", "did you mean all_reduce?")
        self.refused(hocket("explain", "all_reduce", "--bytes", "x", env=self.env), 2, "--bytes")
        self.refused(hocket("explain", "all_reduce", env={**self.env, "HOCKET_ALGO": "rin"}), 2, "'rin'")

    def test_perf_explains_every_size(self):
        run = hocket("perf", "all_reduce", "--np", "2", "-b", "8", "-e", "1M", "-f", "1024", "-n", "2", "--explain", env=self.env)
        self.assertEqual(run.returncode, 0, run.stderr)
        told = [line for line in run.stdout.splitlines() if line.startswith("# all_reduce: ")]
        self.assertEqual(len(told), len(self.rows(run.stdout)))
        for line in told:
            self.assertRegex(line, r"^# all_reduce: [\w ]+, predicted \S+ us \(lower bound \S+ us\); then ")


class TuneFiles(Case):
    def test_the_costs_of_rank_0_count(self):
        # Both ranks would choose otherwise by their own costs: what differs would be an error, or a wrong result.
        machine = hocket("tune", "--machine", env=environment(XDG_CACHE_HOME=str(self.folder))).stdout.splitlines()
        key, path = machine[0], pathlib.Path(machine[1])
        for rank in (0, 1):
            home = self.folder / str(rank)
            file = home / path.relative_to(self.folder)
            file.parent.mkdir(parents=True)
            costs = {c: 1000 for c in COSTS} | {"line": 100_000_000 if rank else 1}
            file.write_text(json.dumps({"hocket_tune": 1, "machine": key, "costs": costs}))
        ranks = [subprocess.Popen(
            [path_of(), "perf", "all_reduce", "-b", "8", "-e", "1M", "-f", "4", "-n", "2", "--explain"], text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=environment(XDG_CACHE_HOME=str(self.folder / str(rank)), RANK=str(rank), WORLD_SIZE="2",
                            HOCKET_INIT=f"file://{self.folder}/meet")) for rank in (0, 1)]
        for rank in ranks:
            out, err = rank.communicate(timeout=60)
            self.assertEqual((rank.returncode, err), (0, ""), out)

    def test_a_broken_file_is_one_warning_and_the_defaults(self):
        env = environment(XDG_CACHE_HOME=str(self.folder))
        path = pathlib.Path(hocket("tune", "--machine", env=env).stdout.splitlines()[1])
        path.parent.mkdir(parents=True)
        path.write_text("{")
        run = hocket("perf", "all_reduce", "--np", "2", "-b", "8", "-e", "8", "-n", "2", env=env)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(len(run.stderr.splitlines()), 1, run.stderr)
        self.assertIn(f"WARN the costs of this machine are not used, but the defaults: {path}: format: ", run.stderr)


if __name__ == "__main__":
    cli.main()
