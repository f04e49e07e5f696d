#!/usr/bin/env python3
"""Compares the time that the tests of each label took with the time they may take.

    check_budgets.py CTEST_LOG BUDGETS

CTEST_LOG is what ctest printed, with its summary of labels; BUDGETS a text file of lines "label seconds" (# starts a comment).
A label's time is the sum over its tests, as if they had run one after another. Over budget fails; so do a label without a
budget and a budget whose label ran no test.
"""

import pathlib
import re
import sys


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    log, path = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    used = {}
    for label, seconds, tests in re.findall(r"^(\S+) += +([\d.]+) sec\*proc \((\d+) tests?\)$", log.read_text(), re.M):
        used[label] = (float(seconds), int(tests))
    budgets = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        fields = line.split("#", 1)[0].split()
        if not fields:
            continue
        if len(fields) != 2 or not fields[1].isdigit():
            sys.exit(f"check_budgets: {path}:{number}: expected 'label seconds', found '{line}'")
        budgets[fields[0]] = int(fields[1])

    faults = []
    for label in sorted(used.keys() | budgets.keys()):
        if label not in budgets:
            faults.append(f"label '{label}' has tests and no budget")
        elif label not in used:
            faults.append(f"label '{label}' has a budget, but none of its tests ran")
        else:
            seconds, tests = used[label]
            print(f"  {label:<14}{tests:>4} tests {seconds:>8.1f} of {budgets[label]:>4} s")
            if seconds > budgets[label]:
                faults.append(f"label '{label}' took {seconds:.1f} s, its budget is {budgets[label]} s")
    for fault in faults:
        print(f"check_budgets: {path}: {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
