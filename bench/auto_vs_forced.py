#!/usr/bin/env python3
"""Is what the selection chooses the best there is? Measures every planner that can be forced against `auto`.

For each case (collective, transport, ranks) one driver has a communicator with the selection's own choice and one with
each planner of `hocket plan list` forced by HOCKET_ALGO: the same processes on the same CPUs. More ranks than CPUs are
bound to them in turn, for where the scheduler puts them makes more difference than any planner; --unbound leaves it to
the scheduler. A round measures auto, each planner, auto again; a round
whose two autos differ by more than 20 % is thrown away and repeated. Of a row: the ratio auto / planner in each round,
the median over the rounds; the worst ratio is the row's regret, 1 if auto is faster than all. Planners far behind
after the first round are not measured again, and one that runs the same plan as auto is auto.

A row above --limit is measured again, up to three times, in turns with the best planner alone: what is then still above
counts as a fault. Exit status: 0 the geometric mean of the regrets of every case is within 5 % and no row is above the
limit, 1 one of them is not, or a program failed; 2 a bad command line.
"""

import argparse
import json
import math
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))
sys.path.insert(0, str(Path(__file__).resolve().parent))
from compare import KIB, MIB, STEADY, parse_sizes, positive, size_text  # noqa: E402
from drivers import ROOT, BenchError, Driver, Machine, Setting, launch_of  # noqa: E402

COLLECTIVES = ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all"]
SIZES = tuple(64 << (2 * i) for i in range(10))  # 64 B to 16 MiB
HOPELESS = 1.5  # a planner this many times slower than the round's best is not measured again
MEAN_LIMIT = 1.05
AUTO = "auto"


@dataclass
class Row:
    case: tuple[str, str, int]  # collective, transport, ranks
    bytes: int
    rounds: list[dict[str, float]] = field(default_factory=list)  # by planner
    thrown: int = 0
    repeats: int = 0

    def ratio(self, planner):
        return statistics.median(r[AUTO] / r[planner] for r in self.rounds if planner in r)

    def median(self, planner):
        return statistics.median(r[planner] for r in self.rounds if planner in r)

    @property
    def planners(self):
        """Those measured in every round: what was given up after the first is no candidate."""
        last = self.rounds[-1]
        return [p for p in last if p != AUTO]

    @property
    def best(self):
        return max(self.planners, key=self.ratio)

    @property
    def regret(self):
        return max(1.0, self.ratio(self.best))

    def as_json(self):
        times = {p: float(f"{self.median(p):.5g}") for p in self.rounds[0]}
        return {
            "collective": self.case[0],
            "transport": self.case[1],
            "ranks": self.case[2],
            "bytes": self.bytes,
            "us": times,
            "best": self.best,
            "regret": round(self.regret, 4),
            "rounds": len(self.rounds),
            "thrown": self.thrown,
            "repeats": self.repeats,
        }


def planners_of(build):
    """{collective: its planners}, from the program itself."""
    listed = [f"{build}/bin/hocket", "plan", "list"]
    out = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found = {c: [] for c in COLLECTIVES}
    for line in out.splitlines():
        collective, planner = line.split()[:2]
        if collective in found:
            found[collective].append(planner)
    return found


class Group:
    """The driver of one case, whose variants are auto and the planners."""

    def __init__(self, collective, ranks, options, scratch):
        self.collective, self.ranks, self.options = collective, ranks, options
        machine = Machine.here()
        setting = Setting(not options.unbound, None)
        launch = launch_of("hocket", options.transport, ranks, setting, machine, options.build)
        self.variants = [AUTO, *planners_of(options.build)[collective]]
        launch.argv += ["--algos", ",".join(self.variants)]
        self.driver = Driver("hocket", setting, launch, len(machine.cpus), scratch)

    def time(self, name, size):
        samples = 9  # the first calls of one size learn how to store; the median is past that
        variant = self.variants.index(name)
        answer = self.driver.measure(self.collective, size, self.options.ms, samples, "cold", variant)
        return answer["p50_us"]

    def one_round(self, row, planners):
        first = self.time(AUTO, row.bytes)
        times = {p: self.time(p, row.bytes) for p in planners}
        last = self.time(AUTO, row.bytes)
        if max(first, last) > STEADY * min(first, last):
            row.thrown += 1
            return
        row.rounds.append({AUTO: math.sqrt(first * last), **times})

    def measure(self, size, planners):
        row = Row((self.collective, self.options.transport, self.ranks), size)
        while len(row.rounds) < self.options.rounds and row.thrown <= 6 * self.options.rounds:
            self.one_round(row, planners)
            if len(row.rounds) == 1 and not self.options.all:
                first = row.rounds[0]
                best = min(first.values())
                planners = [p for p in planners if first[p] <= HOPELESS * best] or [row.best]
        return row

    def row(self, size):
        row = self.measure(size, self.variants[1:])
        while row.rounds and row.regret > self.options.limit and row.repeats < 3:
            again = self.measure(size, [row.best])
            row.repeats += 1
            if again.rounds and again.regret < row.regret:
                again.rounds[0] = {**{p: row.median(p) for p in row.rounds[0]}, **again.rounds[0]}
                again.repeats = row.repeats
                row = again
        return row


HEADER = f"{'case':<28} {'size':>8} {'auto us':>11} {'best us':>11} {'regret':>7}  best forced"


def row_text(row):
    name = f"{row.case[0]}/{row.case[1]}/{row.case[2]}"
    if not row.rounds:
        return f"{name:<28} {size_text(row.bytes):>8} no steady round: left out; run it again on a quieter machine"
    return (
        f"{name:<28} {size_text(row.bytes):>8} {row.median(AUTO):>11.2f} {row.median(row.best):>11.2f} "
        f"{row.regret:>7.3f}  {row.best}"
    )


def run(options, scratch):
    rows = []
    print(HEADER, flush=True)
    for ranks in options.ranks:
        for collective in options.collectives:
            group = Group(collective, ranks, options, scratch)
            try:
                for size in (s for s in options.sizes if s % (4 * ranks) == 0):
                    rows.append(group.row(size))
                    print(row_text(rows[-1]), flush=True)
                group.driver.close()
            finally:
                if group.driver.process is not None:
                    group.driver.kill()
    return [row for row in rows if row.rounds]


def verdict(rows, limit):
    bad = False
    for case in dict.fromkeys(r.case for r in rows):
        mine = [r for r in rows if r.case == case]
        mean = math.exp(statistics.mean(math.log(r.regret) for r in mine))
        over = [size_text(r.bytes) for r in mine if r.regret > limit]
        bad = bad or mean > MEAN_LIMIT or bool(over)
        print(f"{case[0]}/{case[1]}/{case[2]}: regret {mean:.3f} in the mean; above {limit}: {', '.join(over) or 'none'}")
    mean = math.exp(statistics.mean(math.log(r.regret) for r in rows))
    print(f"all: regret {mean:.3f} in the mean of {len(rows)} rows")
    return 1 if bad else 0


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    whole_numbers = lambda text: [positive(t) for t in text.split(",")]  # noqa: E731
    parser.add_argument("--ranks", metavar="LIST", type=whole_numbers, default=[2, 4, 8], help="numbers of ranks (2,4,8)")
    parser.add_argument("--collectives", metavar="LIST", type=lambda t: t.split(","), default=COLLECTIVES)
    parser.add_argument("--transport", choices=["shm", "tcp"], default="shm")
    parser.add_argument("--unbound", action="store_true", help="let the scheduler place the ranks")
    parser.add_argument("--sizes", metavar="LIST", type=parse_sizes, default=SIZES, help="64,256,1K ... 16M")
    parser.add_argument("--rounds", metavar="N", type=positive, default=3, help="rounds to keep for each row (3)")
    parser.add_argument("--all", action="store_true", help="measure hopeless planners in every round, too")
    parser.add_argument("--ms", metavar="N", type=positive, default=10, help="milliseconds of each measurement (10)")
    parser.add_argument("--limit", metavar="X", type=float, default=1.15, help="the most regret of a row (1.15)")
    parser.add_argument("--json", metavar="FILE", help="write the rows to FILE")
    parser.add_argument("--build", metavar="DIR", default="build/release")
    options = parser.parse_args(argv)
    unknown = [c for c in options.collectives if c not in COLLECTIVES]
    if unknown:
        parser.error(f"--collectives: {unknown[0]} is none of {', '.join(COLLECTIVES)}")
    return options


def main(argv):
    options = parse(argv)
    scratch = tempfile.mkdtemp(prefix="hocket-bench-")
    try:
        rows = run(options, scratch)
    except BenchError as error:
        print(f"auto_vs_forced.py: {error}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if options.json:
        Path(options.json).write_text(json.dumps([row.as_json() for row in rows], indent=1) + "\n")
    return verdict(rows, options.limit)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
