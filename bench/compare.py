#!/usr/bin/env python3
"""Measures Hocket, Open MPI, MPICH and Gloo side by side, with the machine's floor beside each row.

Everything runs interleaved in short rounds: floor, Hocket, each peer, floor again. A round whose two floors differ by
more than 20 % is thrown away and repeated. Each party runs at its best of bound and unbound, with and without CMA,
tried per size. What a figure means is described in bench/peers/measure.h.

Exit status: 0 all measured; 1 a peer is missing, a program failed or gave a wrong result, or a floor turned out slower
than what it bounds; 2 a bad command line; 3 rows without a steady round.
"""

import argparse
import dataclasses
import datetime
import fnmatch
import json
import math
import os
import platform
import shutil
import signal
import statistics
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))
from drivers import (  # noqa: E402
    HOSTS,
    PEERS,
    ROOT,
    BenchError,
    Driver,
    Machine,
    Place,
    Setting,
    build_mpi_drivers,
    install_peers,
    launch_of,
    missing_peers,
    settings_of,
)

KIB, MIB = 1024, 1024 * 1024
STEADY = 1.20  # the two floors of a round may differ by this factor
FLOOR_FAULT = 0.95  # Hocket over its floor: less than this and the floor is no floor
HOPELESS = 3  # a setting this many times slower than the party's best is not tried again
PARTIES = ["hocket", *PEERS]


@dataclass(frozen=True)
class Case:
    collective: str
    transport: str
    ranks: int
    hot: bool
    sizes: tuple[int, ...]
    memory: str = "private"  # of Hocket's and the floor's buffers; the peers' are private

    @property
    def name(self):
        kind = {"all_reduce": "float32-sum", "broadcast": "float32", "barrier": "none"}[self.collective]
        hot = "/hot" if self.hot else ""
        return f"{self.collective}/{kind}/{self.transport}/{self.ranks}/{self.memory}{hot}"


def all_cases(quick, hot):
    """Grouped by transport, ranks and memory: the drivers of a group are started once. Those between network namespaces
    are there when it runs within tests/tools/with-netns.sh."""
    doubling = tuple(8 << i for i in range(24))  # 8 B to 64 MiB
    few = (8, 1 * KIB, 64 * KIB, 1 * MIB, 16 * MIB)
    tcp = (8, 1 * KIB, 64 * KIB, 1 * MIB, 64 * MIB)
    crowded = (8, 64 * KIB, 1 * MIB, 16 * MIB)
    return [
        Case("all_reduce", "shm", 2, hot, few if quick else doubling),
        Case("broadcast", "shm", 2, hot, (8, 1 * MIB) if quick else (8, 1 * KIB, 64 * KIB, 1 * MIB, 16 * MIB)),
        Case("barrier", "shm", 2, hot, (0,)),
        Case("all_reduce", "shm", 2, hot, (1 * MIB,) if quick else doubling[::2], "registered"),
        Case("all_reduce", "shm", 4, hot, (8, 1 * MIB) if quick else crowded),
        Case("barrier", "shm", 4, hot, (0,)),
        Case("all_reduce", "shm", 8, hot, (8,) if quick else crowded),
        Case("barrier", "shm", 8, hot, (0,)),
        Case("all_reduce", "tcp", 2, hot, (8, 1 * MIB) if quick else tcp),
        *([Case("all_reduce", "netns", 2, hot, (8, 1 * MIB) if quick else tcp)] if HOSTS else []),
    ]


@dataclass
class Row:
    case: str
    bytes: int
    rounds: list[dict[str, float]] = field(default_factory=list)
    switches: list[dict[str, tuple[float, float]]] = field(default_factory=list)
    thrown: int = 0
    remeasured: bool = False
    commands: dict[str, str] = field(default_factory=dict)
    floor_scheme: str = ""

    def median(self, party):
        return statistics.median(r[party] for r in self.rounds) if self.rounds else None

    def per_call(self, which):
        """By party: the median of its switches or sleeps."""
        parties = self.switches[0] if self.switches else ()
        return {p: float(f"{statistics.median(s[p][which] for s in self.switches):.4g}") for p in parties}

    @property
    def best_peer(self):
        return min(PEERS, key=self.median)

    @property
    def speedup(self):
        return self.median(self.best_peer) / self.median("hocket") if self.rounds else None

    @property
    def over_floor(self):
        return self.median("hocket") / self.median("floor") if self.rounds else None

    def as_json(self):
        def short(value):
            return None if value is None else float(f"{value:.5g}")

        return {
            "case": self.case,
            "bytes": self.bytes,
            "hocket_us": short(self.median("hocket")),
            "peers": {peer: short(self.median(peer)) for peer in PEERS},
            "floor_us": short(self.median("floor")),
            "speedup": short(self.speedup),
            "over_floor": short(self.over_floor),
            "switches_per_call": self.per_call(0),
            "sleeps_per_call": self.per_call(1),
            "rounds_kept": len(self.rounds),
            "rounds_thrown": self.thrown,
            "remeasured": self.remeasured,
            "floor_scheme": self.floor_scheme,
            "commands": self.commands,
        }


def bytes_moved(transport):
    """That have gone through the interface which a transport has to use: loopback, or the first host's cable, of which
    the end outside of the host is seen here."""
    interface = f"{HOSTS[0]}a" if transport == "netns" else "lo"
    for line in Path("/proc/net/dev").read_text().splitlines():
        name, _, counters = line.partition(":")
        if name.strip() == interface:
            return int(counters.split()[0])
    raise BenchError(f"/proc/net/dev has no interface {interface}: the TCP cases need it")


class Group:
    """The drivers for one transport, number of ranks and kind of memory: every party in each of its settings."""

    def __init__(self, transport, ranks, memory, options, scratch, libraries):
        self.options, self.libraries = options, libraries
        machine = Machine.here()
        self.drivers = {
            party: {
                setting: Driver(
                    party,
                    setting,
                    launch_of(party, Place(transport, ranks, memory), setting, machine, options.build),
                    len(machine.cpus),
                    scratch,
                )
                for setting in settings_of(party, transport)
            }
            for party in ["floor", *PARTIES]
        }

    def every_driver(self):
        return [driver for settings in self.drivers.values() for driver in settings.values()]

    def measure(self, driver, case, size, milliseconds, samples):
        watched = case.transport in ("tcp", "netns")
        before = bytes_moved(case.transport) if watched else 0
        answer = driver.measure(case.collective, size, milliseconds, samples, "hot" if case.hot else "cold")
        self.libraries[driver.party] = driver.library
        if watched and driver.party != "floor":
            moved, least = bytes_moved(case.transport) - before, size * answer["samples"] * answer["batch"]
            if moved < least:
                raise driver.failure(f"moved {moved} bytes where {least} were due: it does not use TCP")
        return answer

    def best_drivers(self, case, size):
        """Each peer's fastest setting at this size by the slowest of short tries, taken in turns: ranks that are not
        bound are sometimes lucky for a while. A setting far behind after one try gets no other. Hocket and the floor are
        bound if the fastest peer is."""
        tries = {party: {d: [] for d in self.drivers[party].values()} for party in PEERS}
        for _ in range(2 if size >= 4 * MIB else 4):
            for settings in tries.values():
                leader = min((statistics.median(seen) for seen in settings.values() if seen), default=math.inf)
                for driver, seen in settings.items():
                    if not seen or statistics.median(seen) <= HOPELESS * leader:
                        seen.append(self.measure(driver, case, size, self.options.ms / 2, 2)["p50_us"])
        chosen = {party: min(settings, key=lambda driver: max(settings[driver])) for party, settings in tries.items()}
        fastest = min(chosen, key=lambda party: max(tries[party][chosen[party]]))
        same = Setting(chosen[fastest].setting.bound, None)
        return {**chosen, "hocket": self.drivers["hocket"][same], "floor": self.drivers["floor"][same]}

    def one_round(self, drivers, case, size, row):
        samples = 3 if size >= 4 * MIB else 5
        floors, times, switches = [], {}, {}
        for party in ["floor", *PARTIES, "floor"]:
            answer = self.measure(drivers[party], case, size, self.options.ms, samples)
            if "switches_per_call" in answer:  # Gloo's driver does not count them
                switches[party] = answer["switches_per_call"], answer["sleeps_per_call"]
            if party == "floor":
                floors.append(answer["p50_us"])
                row.floor_scheme = answer["detail"]
            else:
                times[party] = answer["p50_us"]
        if max(floors) > STEADY * min(floors):
            row.thrown += 1
            return
        row.rounds.append({**times, "floor": min(floors)})
        row.switches.append(switches)

    def measure_row(self, case, size):
        drivers = self.best_drivers(case, size)
        row = Row(case.name, size, commands={party: driver.launch.text() for party, driver in drivers.items()})
        while len(row.rounds) < self.options.rounds and row.thrown < 2 * self.options.rounds:
            self.one_round(drivers, case, size, row)
        return row

    def row(self, case, size):
        """A floor that comes out too slow chooses its scheme afresh, once: a moment's noise can spoil the choice."""
        row = self.measure_row(case, size)
        if row.over_floor is not None and row.over_floor < FLOOR_FAULT:
            for driver in self.drivers["floor"].values():
                driver.close()
            row = self.measure_row(case, size)
            row.remeasured = True
        return row

    def close(self):
        for driver in self.every_driver():
            driver.close()

    def kill(self):
        for driver in self.every_driver():
            if driver.process is not None:
                driver.kill()


def size_text(size):
    for unit, name in ((MIB, "MiB"), (KIB, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B" if size else "-"


HEADER = (
    f"{'case':<38} {'size':>8} {'hocket us':>11} {'best peer us':>22} {'speedup':>8} {'floor us':>11} "
    f"{'over floor':>10} {'rounds':>7}"
)


def row_text(row):
    rounds = f"{len(row.rounds)}/{len(row.rounds) + row.thrown}"
    front = f"{row.case:<38} {size_text(row.bytes):>8}"
    if not row.rounds:
        return f"{front} {'no steady round':>67} {rounds:>7}"
    peer = f"{row.median(row.best_peer):.2f} ({row.best_peer})"
    return (
        f"{front} {row.median('hocket'):>11.3f} {peer:>22} {row.speedup:>8.2f} {row.median('floor'):>11.3f} "
        f"{row.over_floor:>10.2f} {rounds:>7}"
    )


def cpu_model():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def describe_machine(libraries, begun):
    machine = Machine.here()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    system = platform.freedesktop_os_release().get("PRETTY_NAME", "") if Path("/etc/os-release").exists() else ""
    return {
        "cpu": cpu_model(),
        "cpus": len(machine.cpus),
        "cores": machine.cores,
        "memory_gib": round(memory / 2**30, 1),
        "kernel": platform.release(),
        "system": system,
        "date": begun.isoformat(timespec="seconds"),
        "load_average": list(os.getloadavg()),
        "versions": {party: libraries[party] for party in PARTIES if party in libraries},
    }


def select_cases(options):
    cases = [c for c in all_cases(options.quick, options.hot) if fnmatch.fnmatch(c.name, options.cases)]
    if options.sizes:
        cases = [dataclasses.replace(c, sizes=options.sizes) for c in cases if c.sizes != (0,)]
    if not cases:
        names = "\n  ".join(c.name for c in all_cases(options.quick, options.hot))
        raise BenchError(f"--cases {options.cases}: no such case; there are\n  {names}")
    return cases


def run(options, cases, scratch):
    rows, libraries = [], {}
    print(HEADER, flush=True)
    for key in dict.fromkeys((c.transport, c.ranks, c.memory) for c in cases):
        group = Group(*key, options, scratch, libraries)
        try:
            for case in (c for c in cases if (c.transport, c.ranks, c.memory) == key):
                for size in case.sizes:
                    rows.append(group.row(case, size))
                    print(row_text(rows[-1]), flush=True)
            group.close()
        finally:
            group.kill()
    return rows, libraries


def check_programs(options):
    for program in ("hocket-floors", "hocket_bench_driver"):
        if not (ROOT / options.build / "bin" / program).exists():
            raise BenchError(f"{options.build}/bin/{program} is not built: run scripts/build, or name --build DIR")
    missing = missing_peers()
    if missing:
        lines = [f"{peer} is missing ({what})" for peer, what in missing.items()]
        raise BenchError(
            "; ".join(lines) + ": a run without it does not count; bench/compare.py --install-peers gets it"
        )
    build_mpi_drivers()


def verdict(rows):
    unsteady = [r for r in rows if not r.rounds]
    faults = [r for r in rows if r.rounds and r.over_floor < FLOOR_FAULT]
    slower = [r for r in rows if r.rounds and r.speedup < 1]
    for r in slower:
        print(f"behind: {r.case} {size_text(r.bytes)}: {r.best_peer} is {1 / r.speedup:.2f} times as fast")
    for r in faults:
        print(f"floor fault: {r.case} {size_text(r.bytes)}: the floor ({r.floor_scheme}) is slower than Hocket")
    for r in unsteady:
        print(f"unsteady: {r.case} {size_text(r.bytes)}: no round kept its floor; run it again on a quieter machine")
    return 1 if faults else 3 if unsteady else 0


def parse_sizes(text):
    units = {"K": KIB, "M": MIB}
    try:
        sizes = tuple(int(t[:-1]) * units[t[-1]] if t[-1] in units else int(t) for t in text.upper().split(","))
    except (ValueError, IndexError):
        sizes = ()
    if not sizes or any(size <= 0 or size % 4 for size in sizes):
        raise argparse.ArgumentTypeError(f"{text}: expected multiples of 4 bytes like 8,64K,1M")
    return sizes


def positive(text):
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: expected a whole number from 1 up")
    return int(text)


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few sizes and rounds: less than 3 minutes")
    parser.add_argument("--cases", metavar="GLOB", default="*", help="only cases like this: 'all_reduce/*/shm/2/*'")
    parser.add_argument("--sizes", metavar="LIST", type=parse_sizes, help="these sizes instead: 8,64K,1M")
    parser.add_argument("--hot", action="store_true", help="leave the buffers untouched between calls")
    parser.add_argument("--rounds", metavar="N", type=positive, help="rounds to keep for each row (7; quick 3)")
    parser.add_argument("--ms", metavar="N", type=positive, default=20, help="milliseconds of each measurement (20)")
    parser.add_argument("--json", metavar="FILE", help="write machine and rows to FILE")
    parser.add_argument("--build", metavar="DIR", default="build/release", help="where Hocket is built (build/release)")
    parser.add_argument("--install-peers", action="store_true", help="first install what is missing of the peers")
    options = parser.parse_args(argv)
    options.rounds = options.rounds or (3 if options.quick else 7)
    return options


def main(argv):
    options = parse(argv)
    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit(143)
    )  # an exception, so that the drivers are ended on the way out
    begun = datetime.datetime.now(datetime.timezone.utc)
    # In memory, not on a disk: the ranks of MPI drivers meet in a file of it.
    scratch = tempfile.mkdtemp(prefix="hocket-bench-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
    try:
        cases = select_cases(options)
        if options.install_peers:
            install_peers()
        check_programs(options)
        rows, libraries = run(options, cases, scratch)
    except BenchError as error:
        print(f"compare.py: {error}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if options.json:
        result = {"machine": describe_machine(libraries, begun), "results": [row.as_json() for row in rows]}
        Path(options.json).write_text(json.dumps(result, indent=1) + "\n")
    return verdict(rows)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
