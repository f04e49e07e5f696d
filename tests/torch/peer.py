"""PyTorch's own tests of back ends, against hocket beside gloo: prints a table, and writes what each test came to.

    python3 tests/torch/peer.py [--ranks 2 3 4] [--backends gloo hocket] [--alias] [--select EXPRESSION] [--json FILE]

The tests are those of torch.testing._internal.distributed.distributed_test. --alias: run those as well that ask for the name of
the back end (needs 4 ranks). --select: pytest's -k. Exit status 1: a test passed on gloo and not on hocket."""

import argparse
import collections
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as xml

import env

# torch itself serves these for the name "gloo" only: monitored_barrier, and what DDP logs.
GATED = {"test_ddp_logging_data_cpu", "test_monitored_barrier_allreduce_hang", "test_monitored_barrier_allreduce_hang_wait_all_ranks",
         "test_monitored_barrier_failure_order", "test_monitored_barrier_gloo", "test_monitored_barrier_gloo_rank_0_timeout",
         "test_monitored_barrier_gloo_subgroup", "test_monitored_barrier_wait_all_ranks"}
HERE = pathlib.Path(__file__).resolve().parent


def run(python, backend, ranks, alias=False, select=None):
    """What each test came to, by name: (outcome, why)."""
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.xml"
        variables = env.environment(BACKEND=backend, WORLD_SIZE=str(ranks), TEMP_DIR=folder, TMPDIR=folder,
                                    DISTRIBUTED_TESTS_DEFAULT_TIMEOUT="100", PEER_ALIAS="1" if alias else "0")
        start = time.monotonic()
        done = subprocess.run([python, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout=150", f"--junitxml={report}",
                               *(["-k", select] if select else []), HERE / "peer_suite.py"],
                              capture_output=True, text=True, check=False, env=variables, cwd=folder)
        if not report.exists():
            raise RuntimeError(f"pytest wrote no report:\n{done.stdout}{done.stderr}")
        outcomes = {}
        for case in xml.parse(report).iter("testcase"):
            bad = case.find("failure") if case.find("failure") is not None else case.find("error")
            skip = case.find("skipped")
            if bad is not None:
                outcomes[case.get("name")] = ("failed", (bad.get("message") or "") + "\n" + (bad.text or ""))
            elif skip is not None:
                outcomes[case.get("name")] = ("skipped", skip.get("message") or "")
            else:
                outcomes[case.get("name")] = ("passed", "")
        return {"backend": backend, "ranks": ranks, "alias": alias, "seconds": round(time.monotonic() - start), "tests": outcomes}


def row(result):
    counts = collections.Counter(outcome for outcome, _ in result["tests"].values())
    name = result["backend"] + (", alias" if result["alias"] else "")
    return (f"| {name} | {result['ranks']} | {len(result['tests'])} | {counts['passed']} | {counts['failed']} | "
            f"{counts['skipped']} | {result['seconds']} s |")


def worse(results):
    """Tests that passed on gloo and not on hocket, in the runs of as many ranks, but for those that ask for gloo's name."""
    passed = {}
    for r in results:
        if r["backend"] == "gloo":
            passed[r["ranks"], r["alias"]] = {t for t, (outcome, _) in r["tests"].items() if outcome == "passed"} - GATED
    return [(r["ranks"], r["alias"], t, r["tests"].get(t, ("missing", ""))) for r in results if r["backend"] == "hocket"
            for t in sorted(passed.get((r["ranks"], r["alias"]), ())) if r["tests"].get(t, ("missing", ""))[0] != "passed"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 3, 4])
    parser.add_argument("--backends", nargs="+", default=["gloo", "hocket"])
    parser.add_argument("--alias", action="store_true")
    parser.add_argument("--select")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    python = env.python()
    print("| back end | ranks | tests | passed | failed | skipped | time |\n|---|---|---|---|---|---|---|")
    results = []
    for ranks in options.ranks:
        for backend in options.backends:
            results.append(run(python, backend, ranks, options.alias, options.select))
            print(row(results[-1]), flush=True)
            for test, (outcome, why) in results[-1]["tests"].items():
                if outcome == "failed":
                    lines = [line for line in why.splitlines() if "Error" in line] or why.splitlines() or [""]
                    print(f"  {test}: {lines[-1][:300]}", file=sys.stderr)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    lost = worse(results)
    for ranks, alias, test, (outcome, _) in lost:
        print(f"{ranks} ranks{', alias' if alias else ''}: {test} passed on gloo, {outcome} on hocket", file=sys.stderr)
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
