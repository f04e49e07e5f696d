#!/usr/bin/env python3
"""Measures Gloo, as PyTorch ships it, with the loop of measure.h written in Python.

  python gloo_driver.py --np N [--pin 0,1] [--hosts n1,n2]

starts N ranks and serves the commands described in measure.h from standard input. Samples, batches, inputs, checks
and the answer mean the same. torch.distributed works in place, so an all-reduce has one buffer.
"""

import argparse
import ctypes
import json
import mmap
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

PATTERN = 4093  # these are measure.h's
ROTATION = 37
MAX_BATCH = 64
BATCH_BYTES = 16384
MAX_SAMPLES = 20000
TRIALS = 4
SAMPLE_US = 4000
WARM_UP_S = 0.008
OVERTIME = 20
LINE = 64
UNDECIDED = 2**32 - 1


class Control:
    """The shared file of the ranks: a line for each decision of rank 0 and each rank's arrivals, then samples."""

    def __init__(self, path, rank, ranks, crowded):
        size = (3 + ranks) * LINE + ranks * MAX_SAMPLES * 8
        with open(path, "r+b") as file:
            file.truncate(size)
            memory = mmap.mmap(file.fileno(), size)
        words = memoryview(memory).cast("I")
        self.words = words
        self.first, self.last, self.batch, self.arrived = (line * LINE // 4 for line in range(4))
        self.doubles = memoryview(memory).cast("d")
        self.samples_at = (3 + ranks) * LINE // 8
        self.rank, self.ranks, self.crowded = rank, ranks, crowded
        self.starts = 0

    def start(self):
        """Returns when every rank has called it as often. Aligned 4-byte stores and loads of memoryview are whole."""
        self.starts += 1
        words, now = self.words, self.starts
        words[self.arrived + self.rank * (LINE // 4)] = now
        for peer in range(self.ranks):
            at = self.arrived + peer * (LINE // 4)
            while words[at] < now:
                if self.crowded:
                    os.sched_yield()

    def put_sample(self, number, us):
        self.doubles[self.samples_at + self.rank * MAX_SAMPLES + number] = us

    def slowest(self, count):
        """For each of the first samples, the time of the slowest rank."""
        rows = [self.samples_at + r * MAX_SAMPLES for r in range(self.ranks)]
        return [max(self.doubles[row + i] for row in rows) for i in range(count)]


class Rank:
    def __init__(self, options):
        import torch
        import torch.distributed as dist

        torch.set_num_threads(1)
        self.torch, self.dist = torch, dist
        cpus = options.cpus
        self.control = Control(options.control, options.rank, options.np, options.np > cpus)
        dist.init_process_group(
            "gloo", init_method="file://" + options.control + ".store", rank=options.rank, world_size=options.np
        )
        self.rank, self.ranks = options.rank, options.np

    def tables(self, count):
        """Input and sum patterns, long enough to be read from any place in the first period."""
        x, values = 12345, []
        for _ in range(PATTERN):
            x = (x * 1664525 + 1013904223) % 2**32
            values.append(float(x >> 24))
        one = self.torch.tensor(values)
        total = sum(self.torch.roll(one, -r * ROTATION) for r in range(self.ranks))
        times = (count + 2 * PATTERN) // PATTERN + 1
        return one.repeat(times), total.repeat(times)

    def decide(self, round_number, begun, samples, command, most):
        """Rank 0, before each start: how many calls a sample has, whether sampling begins or ends with this start."""
        control, spent, following = self.control, time.monotonic() - begun, self.control.starts + 1
        if round_number == 0:
            control.words[control.first] = control.words[control.last] = UNDECIDED
        elif round_number == TRIALS and most > 1:
            fastest = max(0.01, min(control.slowest(TRIALS - 1)))
            control.words[control.batch] = max(1, min(most, int(SAMPLE_US / fastest)))
        elif control.words[control.first] == UNDECIDED:
            if round_number > (TRIALS if most > 1 else 0) and spent >= WARM_UP_S:
                control.words[control.first] = following
                return time.monotonic()
        else:
            limit = command["milliseconds"] * 1e-3
            enough = spent >= limit and samples >= command["min_samples"]
            if enough or samples == MAX_SAMPLES or (spent >= OVERTIME * limit and samples > 0):
                control.words[control.last] = following
        return begun

    def measure(self, command):
        torch, dist, control = self.torch, self.dist, self.control
        name, size, hot = command["collective"], command["bytes"], command["hot"]
        count = size // 4
        batch = max(1, min(MAX_BATCH, BATCH_BYTES // size)) if size else MAX_BATCH
        buffers = [torch.full((count,), float("nan")) for _ in range(batch)]
        inputs, sums = self.tables(count)
        expected = sums if name == "all_reduce" else inputs
        # In place, an untouched input is the last result: zeros, so that sums stay what they are.
        hot_zero = hot and name == "all_reduce"
        calls = {
            "all_reduce": lambda b: dist.all_reduce(b),
            "broadcast": lambda b: dist.broadcast(b, 0),
            "barrier": lambda b: dist.barrier(),
        }
        call = calls[name]
        samples, round_number, begun, count_of_calls = 0, 0, time.monotonic(), 1
        while True:
            if name != "barrier" and (not hot or round_number == 0):
                for i, b in enumerate(buffers):
                    first = (round_number * MAX_BATCH + i + self.rank * ROTATION) % PATTERN
                    if hot_zero:
                        b.zero_()
                    elif name == "all_reduce" or self.rank == 0:
                        b.copy_(inputs[first : first + count])
            if self.rank == 0:
                begun = self.decide(round_number, begun, samples, command, batch)
            control.start()
            if control.words[control.last] <= control.starts:
                break
            warm = control.words[control.first] > control.starts
            if round_number == TRIALS and batch > 1:
                count_of_calls = control.words[control.batch]
            used = buffers[:count_of_calls]
            t0 = time.perf_counter_ns()
            for b in used:
                call(b)
            t1 = time.perf_counter_ns()
            if warm and round_number < TRIALS:
                control.put_sample(round_number, (t1 - t0) * 1e-3)
            if not warm:
                control.put_sample(samples, (t1 - t0) * 1e-3 / count_of_calls)
                samples += 1
            if name != "barrier" and not hot:
                self.check(used, expected, round_number, count)
            round_number += 1
        if name != "barrier" and hot:
            self.check(used, expected * 0 if hot_zero else expected, 0, count)
        worst = sorted(control.slowest(samples))
        control.start()
        return worst, count_of_calls

    def check(self, buffers, expected, round_number, count):
        for i, b in enumerate(buffers):
            first = (round_number * MAX_BATCH + i) % PATTERN
            if not self.torch.equal(b, expected[first : first + count]):
                raise SystemExit(f"bench: wrong result on rank {self.rank}")

    def serve(self):
        self.control.start()
        if self.rank == 0:
            hello = {"ready": True, "ranks": self.ranks, "library": f"Gloo of PyTorch {self.torch.__version__}"}
            print(json.dumps(hello), flush=True)
        for line in sys.stdin:
            command = json.loads(line)
            worst, batch = self.measure(command)
            if self.rank != 0:
                continue
            n = len(worst)
            answer = {
                "collective": command["collective"],
                "bytes": command["bytes"],
                "ranks": self.ranks,
                "hot": command["hot"],
                "samples": n,
                "batch": batch,
                "p10_us": worst[n // 10],
                "p50_us": worst[n // 2],
                "p99_us": worst[int(n * 0.99)],
                "detail": "",
            }
            print(json.dumps(answer), flush=True)
        self.dist.destroy_process_group()


def parse_command(line):
    try:
        name, size, milliseconds, least, mode = line.split()
        command = {
            "collective": name,
            "bytes": int(size),
            "milliseconds": float(milliseconds),
            "min_samples": int(least),
            "hot": {"hot": True, "cold": False}[mode],
        }
        good_size = command["bytes"] == 0 if name == "barrier" else command["bytes"] > 0 and command["bytes"] % 4 == 0
        if name in ("all_reduce", "broadcast", "barrier") and good_size:
            return command
    except (ValueError, KeyError):
        pass
    return None


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def start_rank(options, rank, pins, control, cpus):
    command = [sys.executable, "-W", "ignore", __file__, "--np", str(options.np), "--rank", str(rank)]
    command += ["--control", control, "--cpus", str(cpus)]
    hosts = options.hosts.split(",") if options.hosts else []
    if hosts:  # network namespaces, see tests/tools/with-netns.sh
        command = ["on", hosts[rank % len(hosts)], *command]
    interface = "eth0" if hosts else "lo"

    def prepare():
        die_with_parent()
        if pins:
            os.sched_setaffinity(0, {pins[rank % len(pins)]})

    environment = dict(os.environ, GLOO_SOCKET_IFNAME=os.environ.get("GLOO_SOCKET_IFNAME", interface))
    return subprocess.Popen(command, stdin=subprocess.PIPE, preexec_fn=prepare, env=environment, text=True)


def give_up(directory):
    shutil.rmtree(directory, ignore_errors=True)
    os._exit(1)  # the ranks die with this process


def watch(process, rank, directory):
    """Ends everything as soon as a rank fails: the others would wait for it."""
    status = process.wait()
    if status != 0:
        print(f"bench: Gloo rank {rank} ended with status {status}", file=sys.stderr)
        give_up(directory)


def launch(options):
    """Starts the ranks and hands every command to each of them; ends when input does, or when a rank dies."""
    pins = [int(cpu) for cpu in options.pin.split(",")] if options.pin else []
    cpus = len(set(pins)) if pins else len(os.sched_getaffinity(0))
    where = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    directory = tempfile.mkdtemp(prefix="hocket-bench-", dir=where)
    signal.signal(signal.SIGTERM, lambda *_: give_up(directory))
    control = os.path.join(directory, "control")
    with open(control, "wb"):
        pass
    ranks = [start_rank(options, r, pins, control, cpus) for r in range(options.np)]
    watchers = [threading.Thread(target=watch, args=(p, r, directory)) for r, p in enumerate(ranks)]
    for watcher in watchers:
        watcher.start()
    for line in sys.stdin:
        command = parse_command(line)
        if command is None:
            print('{"error":"expected: COLLECTIVE BYTES MILLISECONDS MIN_SAMPLES cold|hot"}', flush=True)
            continue
        for process in ranks:
            process.stdin.write(json.dumps(command) + "\n")
            process.stdin.flush()
    for process in ranks:
        process.stdin.close()
    for watcher in watchers:
        watcher.join()
    shutil.rmtree(directory, ignore_errors=True)
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--np", type=int, required=True, help="number of ranks")
    parser.add_argument("--pin", default="", help="CPUs to bind the ranks to, for example 0,1")
    parser.add_argument("--hosts", default="", help="network namespaces to deal the ranks to, for example n1,n2")
    for inner in ("--rank", "--cpus"):
        parser.add_argument(inner, type=int, help=argparse.SUPPRESS)
    parser.add_argument("--control", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank is None:
        return launch(options)
    Rank(options).serve()
    return 0


if __name__ == "__main__":
    sys.exit(main())
