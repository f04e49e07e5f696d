"""Runs a test file of this folder in the environment of env.py. Where that cannot be had, all its tests are skips that say why.

    run.py PROGRAMS FILE        PROGRAMS is the folder of the built programs"""

import ast
import pathlib
import subprocess
import sys
import unittest

import env

sys.path.insert(0, str(env.ROOT / "tests/launch"))
import launch  # noqa: E402


def skipped(file, why):
    """The tests of a file that cannot be imported, as cases that skip themselves."""
    suite = unittest.TestSuite()
    for kind in ast.parse(file.read_text()).body:
        if not isinstance(kind, ast.ClassDef):
            continue
        names = [f.name for f in kind.body if isinstance(f, ast.FunctionDef) and f.name.startswith("test_")]
        case = type(kind.name, (unittest.TestCase,), {name: lambda self: self.skipTest(why) for name in names})
        suite.addTests(case(name) for name in names)
    return suite


def main():
    programs, file = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    library = programs.resolve().parent / "lib/libhocket.so"
    try:
        python = env.python(library)
    except env.Missing as why:
        print(f"{file.name}: {why}", file=sys.stderr)
        runner = unittest.TextTestRunner(resultclass=launch.Results, verbosity=2)
        results = runner.run(skipped(file, why.reason))
        launch.write_xml(results, file.stem)
        return 0
    variables = env.environment(PYTHONPATH=f"{env.environment()['PYTHONPATH']}:{env.ROOT / 'tests/launch'}",
                                LIBHOCKET=str(library))
    return subprocess.run([python, "-B", "-W", "ignore", file, programs], env=variables, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
