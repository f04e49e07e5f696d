"""What the tests of launchers share: the programs, what a machine must have, and results that tests/skips.txt sees."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.sax.saxutils as sax

TOOLS = pathlib.Path(__file__).resolve().parents[1] / "tools"
BIN = pathlib.Path()
STEERS = ("HOCKET_", "OMPI_", "PMI", "PMIX_", "SLURM_", "TORCHELASTIC_", "HOROVOD_", "MS_", "VC_", "NCCL_", "HCCL_")
LAUNCHER = {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}


def environment(**changes):
    """The environment of this process without what would steer Hocket, and with `changes`."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(STEERS) and k not in LAUNCHER}
    return {**kept, **changes}


def need(program, package):
    """The path of a program; without it the test is skipped."""
    found = shutil.which(program)
    if not found:
        raise unittest.SkipTest(f"{program} is not installed ({package})")
    return found


class Case(unittest.TestCase):
    maxDiff = None
    MISSING = ""  # why tests of this class are skipped where a tool of tests/tools cannot run

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_command(self, *command, timeout=60, cwd=None, **changes):
        """Runs a command to its end; exit status 77 of tests/tools means that the machine lacks something."""
        run = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=timeout, check=False,
                             env=environment(**changes), stdin=subprocess.DEVNULL, cwd=cwd)
        if run.returncode == 77 and "skipped: " in run.stderr:
            print(run.stderr, end="", file=sys.stderr)
            self.skipTest(self.MISSING)
        return run

    def good(self, *command, nranks, rounds=1, **how):
        """A job of the program `launch_rank` that must succeed: every rank says so, as often as it was asked."""
        run = self.run_command(*command, **how)
        said = re.findall(r"rank (\d+) of (\d+): good", run.stdout)
        expected = sorted((str(r), str(nranks)) for r in range(nranks) for _ in range(rounds))
        self.assertEqual((run.returncode, sorted(said)), (0, expected), run.stdout + run.stderr)
        return run


class Results(unittest.TextTestResult):
    """Collects what ran and what was skipped."""

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.passed = []

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed.append(test)


def write_xml(result, name):
    """In GoogleTest's form, where ctest says that such files go."""
    place = os.environ.get("GTEST_OUTPUT", "")
    if not place.startswith("xml:"):
        return

    def case(test, inside=""):
        kind, _, method = test.id().rpartition(".")
        quoted = sax.quoteattr(kind.rpartition(".")[2])
        return f'<testcase classname={quoted} name={sax.quoteattr(method)} status="run">{inside}</testcase>'

    rows = [case(t) for t in result.passed]
    rows += [case(t, f"<skipped message={sax.quoteattr(why)}/>") for t, why in result.skipped if hasattr(t, "id")]
    rows += [case(t, "<failure/>") for t, _ in result.failures + result.errors if hasattr(t, "id")]
    folder = pathlib.Path(place[4:])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.xml").write_text("<testsuites><testsuite>" + "\n".join(rows) + "</testsuite></testsuites>\n")


def main():
    """The first argument is the folder of the built programs."""
    global BIN
    BIN = pathlib.Path(sys.argv.pop(1)).resolve()
    program = unittest.main("__main__", exit=False, testRunner=unittest.TextTestRunner(resultclass=Results, verbosity=2))
    write_xml(program.result, pathlib.Path(sys.argv[0]).stem)
    sys.exit(0 if program.result.wasSuccessful() else 1)
