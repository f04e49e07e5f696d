#!/usr/bin/env python3
"""Runs clang-tidy over the translation units of a build, the most recently changed first, for a bounded time.

    tidy.py CLANG_TIDY BUILD SECONDS [FILE...]

BUILD holds compile_commands.json. Without FILEs the order is: what is not committed yet, then by the time of the last commit
that changed the file or, newer still, a header that it includes by name. What the time did not suffice for is counted, not
failed: it was looked at when it changed. With FILEs only these are checked, whatever it takes.
"""

import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import time


def git(root, *arguments):
    return subprocess.run(["git", "-C", root, *arguments], capture_output=True, text=True, check=True).stdout


def change_times(root):
    """path -> when it last changed: infinity for what is not committed, else seconds of the last commit."""
    times = {}
    for line in git(root, "status", "--porcelain", "--untracked-files=all").splitlines():
        times[line[3:].split(" -> ")[-1]] = float("inf")
    has_commit = subprocess.run(["git", "-C", root, "rev-parse", "-q", "--verify", "HEAD"], capture_output=True).returncode == 0
    when = 0.0
    for line in git(root, "log", "--format=%x00%ct", "--name-only", "-n", "500").splitlines() if has_commit else []:
        if line.startswith("\0"):
            when = float(line[1:])
        elif line:
            times.setdefault(line, when)
    return times


def newest_first(root, units):
    times = change_times(root)
    headers = {}  # last two parts of a header's path, as an include would end -> its time
    for path, when in times.items():
        if path.endswith((".h", ".hpp")):
            key = "/".join(pathlib.PurePath(path).parts[-2:])
            headers[key] = max(when, headers.get(key, 0.0))

    def changed(unit):
        newest = times.get(str(unit.relative_to(root)), 0.0)
        for target in re.findall(r'#include ["<]([^">]+)[">]', unit.read_text()):
            newest = max(newest, headers.get("/".join(pathlib.PurePath(target).parts[-2:]), 0.0))
        return newest

    return sorted(units, key=lambda unit: (-changed(unit), unit))


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    tidy, build, limit = sys.argv[1], pathlib.Path(sys.argv[2]), float(sys.argv[3])
    root = pathlib.Path(__file__).resolve().parent.parent
    text = (build / "compile_commands.json").read_text()
    commands = json.loads(text)
    # Options that GCC alone has, and that change no meaning: clang takes one for an error.
    known = build / "tidy"
    known.mkdir(exist_ok=True)
    (known / "compile_commands.json").write_text(re.sub(r" -m\w+-strategy=[^ \"]+", "", text))
    units = {(pathlib.Path(c["directory"]) / c["file"]).resolve() for c in commands}
    units = [u for u in units if u.is_relative_to(root) and not u.is_relative_to(build.resolve())]
    chosen = [pathlib.Path(f).resolve() for f in sys.argv[4:]]
    for path in chosen:
        if path not in units:
            sys.exit(f"tidy: {path} is no translation unit of {build}")
    order = chosen or newest_first(root, units)
    end = float("inf") if chosen else time.monotonic() + limit

    def check(unit):
        if time.monotonic() > end:
            return unit, None
        run = subprocess.run([tidy, "-p", known, "--quiet", "--extra-arg=-Wno-unknown-warning-option", unit], capture_output=True, text=True)
        return unit, (run.returncode, run.stdout + ("" if run.returncode == 0 else run.stderr))

    failed = checked = 0
    seen = set()  # a finding in a header comes back with every file that includes it
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for unit, result in pool.map(check, order):
            if result is None:
                continue
            checked += 1
            if result[0] != 0:
                failed += 1
                fresh = [line for line in result[1].splitlines() if line not in seen]
                seen.update(line for line in fresh if re.search(r": (error|warning): ", line))
                print("\n".join(fresh), flush=True)
    print(f"clang-tidy: {checked} of {len(order)} files checked, {failed} with findings")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
