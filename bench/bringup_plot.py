#!/usr/bin/env python3
"""Draws the plot of docs/bringup.md from what bench/bringup.py has measured, and prints its table. Needs matplotlib.

  bench/bringup_plot.py bench/results/FILE.json docs/bringup.svg
"""
import json
import pathlib
import sys

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402

NAMES = {"env": "RANK, MASTER_ADDR", "file": "file", "table": "rank table", "torch": "torchrun's store"}


def table(results) -> str:
    """Medians by number of ranks and way to meet, in milliseconds, and what went to and from the server."""
    ways = [by for by in NAMES if any(r["by"] == by for r in results)]
    lines = ["| ranks | " + " | ".join(NAMES[by] for by in ways) + " | requests | bytes in | bytes out |",
             "|" + "---|" * (len(ways) + 4)]
    for ranks in sorted({r["ranks"] for r in results}):
        rows = {r["by"]: r for r in results if r["ranks"] == ranks}
        times = [f"{rows[by]['median_s'] * 1e3:,.0f} ms" if by in rows else "" for by in ways]
        counts = [f"{rows['env'][what]:,}" for what in ("requests", "bytes_in", "bytes_out")]
        lines.append("| " + " | ".join([str(ranks), *times, *counts]) + " |")
    return "\n".join(lines)


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    result = json.loads(pathlib.Path(sys.argv[1]).read_text())
    plt.rcParams["svg.hashsalt"] = "bringup"  # the same bytes each time
    figure, (time, volume) = plt.subplots(1, 2, figsize=(10, 4))
    for by, name in NAMES.items():
        rows = [r for r in result["results"] if r["by"] == by]
        if rows:
            time.loglog([r["ranks"] for r in rows], [r["median_s"] for r in rows], marker="o", label=name)
    rows = [r for r in result["results"] if r["by"] == "env"]
    ranks = [r["ranks"] for r in rows]
    volume.loglog(ranks, [r["bytes_out"] for r in rows], marker="o", label="from the server")
    volume.loglog(ranks, [r["bytes_in"] for r in rows], marker="o", label="to the server")
    volume.loglog(ranks, [200 * n * max(1, (n - 1).bit_length()) for n in ranks], "--", color="gray",
                  label="200 n log n")
    time.axhline(2, linestyle="--", color="gray")
    time.set(title=f"until all are up, ranks as threads on {result['cpus']} CPUs", xlabel="ranks", ylabel="seconds")
    volume.set(title="bytes of all ranks", xlabel="ranks", ylabel="bytes")
    for axes in (time, volume):
        axes.legend()
        axes.grid(alpha=0.3)
        axes.set_xticks(ranks, [str(n) for n in ranks])
        axes.minorticks_off()
    figure.tight_layout()
    print(table(result["results"]))
    figure.savefig(sys.argv[2], metadata={"Date": None, "Creator": None})
    return 0


if __name__ == "__main__":
    sys.exit(main())
