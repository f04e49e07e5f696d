#!/usr/bin/env python3
"""Draws what bench/compare.py has measured: time, speedup and floor against size. Needs matplotlib.

  bench/compare_plot.py bench/results/FILE.json docs/compare.svg
"""
import json
import pathlib
import sys

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402

# One column each: what is to be seen at one glance. A case that was not measured has no column.
CASES = {
    "all_reduce/float32-sum/shm/2/private": "all-reduce, 2 ranks",
    "all_reduce/float32-sum/shm/2/registered": "the same, registered",
    "all_reduce/float32-sum/shm/4/private": "all-reduce, 4 ranks",
    "all_reduce/float32-sum/tcp/2/private": "all-reduce, 2 ranks, TCP",
}


def in_words(size: int) -> str:
    for unit, name in ((1 << 20, "M"), (1 << 10, "K")):
        if size >= unit:
            return f"{size // unit}{name}"
    return str(size)


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    result = json.loads(pathlib.Path(sys.argv[1]).read_text())
    columns = [(title, sorted((r for r in result["results"] if r["case"] == case), key=lambda r: r["bytes"]))
               for case, title in CASES.items()]
    columns = [(title, rows) for title, rows in columns if rows]
    if not columns:
        print(f"{sys.argv[1]}: none of the cases {', '.join(CASES)}", file=sys.stderr)
        return 1
    plt.rcParams["svg.hashsalt"] = "compare"  # the same bytes each time
    plt.rcParams["svg.fonttype"] = "none"  # text stays text: a small file
    figure, axes = plt.subplots(2, len(columns), figsize=(4 * len(columns), 6), squeeze=False, sharex="col")
    for (title, rows), time, ratio in zip(columns, axes[0], axes[1]):
        sizes = [r["bytes"] for r in rows]
        for peer in sorted({name for r in rows for name in r["peers"]}):
            with_it = [r for r in rows if peer in r["peers"]]
            time.loglog([r["bytes"] for r in with_it], [r["peers"][peer] for r in with_it], linewidth=1, label=peer)
        time.loglog(sizes, [r["floor_us"] for r in rows], "--", color="gray", label="floor")
        time.loglog(sizes, [r["hocket_us"] for r in rows], color="black", marker=".", label="Hocket")
        ratio.semilogx(sizes, [r["speedup"] for r in rows], color="black", marker=".", label="best peer / Hocket")
        ratio.semilogx(sizes, [r["over_floor"] for r in rows], "--", color="gray", label="Hocket / floor")
        ratio.axhline(1, color="gray", linewidth=0.5)
        ratio.set_ylim(bottom=0)
        time.set_title(title)
        ratio.set_xlabel("bytes")
        shown = sizes[::max(1, len(sizes) // 6)]
        ratio.set_xticks(shown, [in_words(s) for s in shown])
        for one in (time, ratio):
            one.minorticks_off()
            one.grid(alpha=0.3)
    axes[0][0].set_ylabel("microseconds a call")
    axes[1][0].set_ylabel("ratio")
    axes[0][0].legend(fontsize="small")
    axes[1][0].legend(fontsize="small")
    figure.suptitle(f"{result['machine']['cpu']}, {result['machine']['cpus']} CPUs, {result['machine']['date'][:10]}")
    figure.tight_layout()
    figure.savefig(sys.argv[2], metadata={"Date": None, "Creator": None})
    return 0


if __name__ == "__main__":
    sys.exit(main())
