"""What the tests of the program `hocket` share: running it as its users do, and reading what it prints."""

import os
import pathlib
import re
import resource
import socket
import subprocess
import sys
import tempfile
import unittest

PROGRAM = ""
LAUNCHER = {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "NCCL_TESTS_MIN_BW",
            "RANK_TABLE_FILE", "MINDSPORE_HCCL_CONFIG_PATH", "RANK_ID", "RANK_SIZE", "DEVICE_ID", "SERVER_ID"}
INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
FLOATS = ["half", "bfloat16", "float", "double", "f8e4m3", "f8e5m2"]
NUMBERS = ["sum", "prod", "max", "min", "avg"]
BITS = ["band", "bor", "bxor", "land", "lor", "lxor"]
OPERATIONS = {**{t: NUMBERS + BITS for t in INTEGERS}, **{t: NUMBERS for t in FLOATS},
              "bool": NUMBERS[:4] + BITS, "complex64": ["sum", "prod", "avg"], "complex128": ["sum", "prod", "avg"]}


def environment(**changes):
    """The environment of this process without what would steer Hocket, and with `changes`."""
    steers = ("HOCKET_", "OMPI_", "PMI", "SLURM_", "NCCL_TESTS_", "HCCL_", "ASCEND_", "CM_", "PBS_", "HYDRA_", "PRTE_")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(steers) and k not in LAUNCHER}
    return {**kept, **changes}


def path_of(program=None):
    """Of `hocket`, or of its link `program`."""
    return PROGRAM if program is None else str(pathlib.Path(PROGRAM).with_name(program))


def hocket(*arguments, program=None, env=None, limit=None, timeout=30):
    """Runs the program to its end, or its link `program`. `limit`: how many files it may have open."""

    def lower_limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))

    return subprocess.run([path_of(program), *arguments], capture_output=True, text=True, timeout=timeout, check=False,
                          env=env or environment(), preexec_fn=lower_limit if limit else None)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return str(s.getsockname()[1])


class NcclTests:
    """Reads what a program printed as strictly as a parser made for nccl-tests may, cell by cell."""

    HALF = [("time", 7), ("algbw", 6), ("busbw", 6), ("#wrong", 6)]
    COLUMNS = [("size", 12), ("count", 12), ("type", 8), ("redop", 6), ("root", 6), *HALF, *HALF]

    def __init__(self, text):
        lines = text.splitlines()
        self.name = self.one(r"# Collective test starting: (\S+)_perf$", lines)[0]
        assert self.one(r"# Collective test concluded: (\S+)_perf$", lines)[0] == self.name
        self.config = self.one(r"# nThread (\d+) nGpus (\d+) minBytes (\d+) maxBytes (\d+) step: (\d+)\((factor|bytes)\) "
                               r"warmup iters: (\d+) iters: (\d+) agg iters: 1 validation: (\d+) graph: 0", lines)
        self.devices = [m.groups() for m in (re.match(
            r"#  Rank ([ \d]\d) Group  0 Pid ([ \d]{5}\d) on +(\S+) device  0 \[0000:00:00\] cpu$", line)
            for line in lines) if m]
        out_of_bounds = self.one(r"# Out of bounds values : (\d+) (OK|FAILED)$", lines)
        self.wrong, self.right = int(out_of_bounds[0]), out_of_bounds[1] == "OK"
        average = self.one(r"# Avg bus bandwidth    : (\S+) (OK|FAILED|)$", lines)
        self.average, self.fast_enough = float(average[0]), average[1]
        head = next(i for i, line in enumerate(lines) if line.split()[1:3] == ["size", "count"])
        assert self.cells(lines[head].replace("#", " ", 1)) == [name for name, _ in self.COLUMNS], lines[head]
        assert lines[head - 1].split() == ["#", "out-of-place", "in-place"], lines[head - 1]
        end = next(i for i, line in enumerate(lines) if line.startswith("# Out of bounds"))
        self.rows = [self.cells(line) for line in lines[head + 2:end]]

    @classmethod
    def cells(cls, line):
        """The columns are two spaces apart and right-aligned."""
        cut, at = [], 0
        for _, width in cls.COLUMNS:
            cut.append(line[at:at + width].strip())
            assert line[at + width:at + width + 2].strip() == "", line
            at += width + 2
        assert at - 2 == len(line), line
        return cut

    @staticmethod
    def one(pattern, lines):
        found = [m.groups() for m in (re.match(pattern, line) for line in lines) if m]
        assert len(found) == 1, (pattern, lines)
        return found[0]


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def perf(self, *arguments, **how):
        """A benchmark that must succeed; returns the table's rows as lists of words."""
        run = hocket("perf", *arguments, **how)
        self.assertEqual(run.returncode, 0, run.stderr)
        return self.rows(run.stdout)

    def rows(self, text):
        self.assertIn("# Out of bounds values : 0 OK\n", text)
        self.assertRegex(text, r"(?m)^# Avg bus bandwidth    : \S+ $")
        return [line.split() for line in text.splitlines() if line and not line.startswith("#")]

    def check_row(self, row, size, kind, op, root, halves=4):
        """`halves`: columns of each half."""
        self.assertEqual(len(row), 5 + 2 * halves, row)
        self.assertEqual([row[0], row[2], row[3], row[4]], [str(size), kind, op, str(root)])
        for half in (row[5:5 + halves], row[5 + halves:]):
            for number in half:
                self.assertGreaterEqual(float(number), 0)
            self.assertEqual(half[3], "0", row)

    def refused(self, run, status, *words):
        """One line that has all the words, and nothing on the standard output."""
        self.assertEqual(run.returncode, status, run.stderr)
        self.assertEqual(run.stdout, "")
        self.assertRegex(run.stderr, r"\Ahocket: [^\n]+\n\Z")
        for word in words:
            self.assertIn(word, run.stderr)


def main():
    """The first argument is the path of the program."""
    global PROGRAM
    PROGRAM = sys.argv.pop(1)
    unittest.main("__main__")
