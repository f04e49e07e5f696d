#!/usr/bin/env python3
"""Compares the tests that were skipped, and why, with the list of those that may be.

    check_skips.py RESULTS SKIPS

RESULTS is a folder of GoogleTest XML files, SKIPS a text file of lines "Suite.Name: reason" (# starts a comment). The two
must be equal: a skip that is not listed fails, and so does a listed one that did run or has gone. Those that depend on
the machine, "?Suite.Name: reason", may run or not, and may have several reasons: "one | another". Prints, as its last line, how many test cases passed, failed and were
skipped.
"""

import collections
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree


def die(text):
    sys.exit(f"check_skips: {text}")


def reason_of(skipped):
    """The text given to GTEST_SKIP(), on one line. GoogleTest puts "file:line" before it."""
    text = skipped.get("message") or skipped.text or ""
    first, _, rest = text.partition("\n")
    if not re.fullmatch(r".+:\d+|unknown file", first):
        rest = text
    return " ".join(rest.split())


def read_results(folder):
    counts = collections.Counter()
    skips = {}
    files = sorted(folder.glob("*.xml"))
    if not files:
        die(f"no GoogleTest XML files in {folder}: run the tests with GTEST_OUTPUT=xml:{folder}/")
    for path in files:
        try:
            root = ElementTree.parse(path).getroot()
        except ElementTree.ParseError as error:
            die(f"{path}: {error}: did its test end before its time?")
        for case in root.iter("testcase"):
            name = f"{case.get('classname')}.{case.get('name')}"
            skipped = case.find("skipped")
            if case.find("failure") is not None:
                counts["failed"] += 1
            elif skipped is not None:
                counts["skipped"] += 1
                skips[name] = reason_of(skipped)
            elif case.get("status") == "run":
                counts["passed"] += 1
    return counts, skips


def read_list(path):
    skips = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        line = line.split("#", 1)[0].strip()
        if not line:
            continue
        name, colon, reason = line.partition(": ")
        if not colon or not reason.strip():
            die(f"{path}:{number}: expected 'Suite.Name: reason', found '{line}'")
        if name in skips:
            die(f"{path}:{number}: {name} is listed twice")
        skips[name] = reason.strip()
    return {name.lstrip("?"): reason for name, reason in skips.items()}, {name[1:] for name in skips if name[0] == "?"}


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    results, list_path = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    counts, actual = read_results(results)
    allowed, depend = read_list(list_path)
    faults = []
    for name in sorted(actual.keys() | allowed.keys()):
        if name not in allowed:
            faults.append(f"{name} was skipped ('{actual[name]}') and is not listed")
        elif name not in actual and name not in depend:
            faults.append(f"{name} is listed and was not skipped: take it off the list")
        elif name in actual and actual[name] not in allowed[name].split(" | "):
            faults.append(f"{name} was skipped because of '{actual[name]}', the list says '{allowed[name]}'")
    for fault in faults:
        print(f"check_skips: {list_path}: {fault}")
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return 1 if faults or counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
