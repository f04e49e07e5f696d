#!/usr/bin/env python3
"""Hocket beside Gloo under PyTorch, in the same processes and interleaved rounds: a call of all_reduce, what torch itself
costs (its back end `fake`, which does nothing), and a training step of DistributedDataParallel.

    bench/torch_compare.py [--ranks 2 4] [--quick] [--json FILE]

All figures are medians over rounds, each the slowest rank's: microseconds of a call (blocking; the mean of a batch of calls),
milliseconds of a step. `alone`: the same step without a process group, on all ranks at the same time, so that what is left of a
step is communication. The environment is that of tests/torch/env.py."""

import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests/torch"), str(ROOT / "tests/launch")]

SIZES = [8, 1 << 10, 16 << 10, 256 << 10, 1 << 20, 16 << 20, 64 << 20]
LAYERS, WIDTH, BATCH = 16, 1024, 32


def slowest(dist, torch, gloo, seconds):
    """The largest of the ranks' times, on all of them."""
    t = torch.tensor([seconds], dtype=torch.float64)
    dist.all_reduce(t, dist.ReduceOp.MAX, group=gloo)
    return t.item()


def calls(rank, size, rounds):
    import torch
    import torch.distributed as dist
    groups = {"hocket": dist.group.WORLD, "gloo": dist.new_group(backend="gloo"), "fake": dist.new_group(backend="fake")}
    rows = []
    for bytes_ in SIZES:
        t = torch.zeros(bytes_ // 4)
        batch = max(1, min(300, (8 << 20) // (bytes_ + 4096)))
        times = {name: [] for name in groups}
        for _ in range(rounds + 1):  # the first one warms up
            for name, group in groups.items():
                dist.barrier(group=groups["gloo"])
                begin = time.perf_counter()
                for _ in range(batch):
                    dist.all_reduce(t, group=group)
                times[name].append(slowest(dist, torch, groups["gloo"], (time.perf_counter() - begin) / batch))
        rows.append({"bytes": bytes_, **{f"{name}_us": 1e6 * statistics.median(ts[1:]) for name, ts in times.items()}})
    return rows


def steps(rank, size, rounds):
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel
    gloo = dist.new_group(backend="gloo")

    def net():
        torch.manual_seed(1)
        return nn.Sequential(*[nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)])
    nets = {"hocket": DistributedDataParallel(net()), "gloo": DistributedDataParallel(net(), process_group=gloo), "alone": net()}
    x = torch.randn(BATCH, WIDTH)
    times = {name: [] for name in nets}
    for i in range(rounds + 3):
        for name, model in nets.items():
            model.zero_grad()
            dist.barrier(group=gloo)
            begin = time.perf_counter()
            model(x).sum().backward()
            seconds = slowest(dist, torch, gloo, time.perf_counter() - begin)
            if i >= 3:
                times[name].append(seconds)
    for a, b in zip(nets["hocket"].parameters(), nets["gloo"].parameters()):
        torch.testing.assert_close(a.grad, b.grad)
    return {f"{name}_ms": 1e3 * statistics.median(ts) for name, ts in times.items()}


def measure(options):
    import ranks
    import torch
    result = {"machine": {"cpus": os.cpu_count(), "processor": platform.processor() or platform.machine(),
                          "torch": torch.__version__, "date": time.strftime("%Y-%m-%d")}, "all_reduce": [], "ddp_step": []}
    rounds = 3 if options.quick else 9
    for size in options.ranks:
        rows = ranks.run(size, lambda rank, n: calls(rank, n, rounds), within=280)[0]
        print(f"\nall_reduce, {size} ranks\n| bytes | hocket us | gloo us | fake us | gloo / hocket |\n|---|---|---|---|---|")
        for r in rows:
            print(f"| {r['bytes']} | {r['hocket_us']:.1f} | {r['gloo_us']:.1f} | {r['fake_us']:.1f} | "
                  f"{r['gloo_us'] / r['hocket_us']:.1f} |", flush=True)
        result["all_reduce"].append({"ranks": size, "rows": rows})
        step = ranks.run(size, lambda rank, n: steps(rank, n, rounds), within=280)[0]
        mine, theirs = step["hocket_ms"] - step["alone_ms"], step["gloo_ms"] - step["alone_ms"]
        print(f"\nDDP step, {size} ranks, {LAYERS} layers of {WIDTH}x{WIDTH}: hocket {step['hocket_ms']:.1f} ms, gloo "
              f"{step['gloo_ms']:.1f} ms, alone {step['alone_ms']:.1f} ms; communication: {mine:.1f} and {theirs:.1f} ms", flush=True)
        result["ddp_step"].append({"ranks": size, **step})
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--quick", action="store_true", help="3 rounds, not 9")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        return measure(options)
    import env
    try:
        python = env.python()
    except env.Missing as why:
        print(f"torch_compare.py: {why}", file=sys.stderr)
        return 1
    return subprocess.run([python, "-B", __file__, *sys.argv[1:], "--inside"], env=env.environment(), check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
