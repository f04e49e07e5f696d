"""A Python that has torch 2.13 and this tree's hocket.torch, made on first use in build/torch-env. What the tests of tests/torch
run in.

    python3 tests/torch/env.py          prints the interpreter, or says why there is none (exit status 77)

torch comes from a folder of wheels that pip is configured with (find-links), else from download.pytorch.org, which has smaller
builds for the CPU. HOCKET_TEST_TORCH=1: also for a Python other than 3.10 to 3.12. TORCH_TEST_ENV names an environment that
has torch 2.13 already; nothing is installed into it."""

import fcntl
import os
import pathlib
import subprocess
import sys
import sysconfig
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLACE = ROOT / "build/torch-env"
TORCH = "2.13.0"
PYTHONS = (3, 10), (3, 12)  # for which there is a build of that torch for the CPU that is small enough to be fetched by a test
HELPERS = ["numpy", "wheel"]
LARGEST = 400 << 20  # bytes of a wheel for the CPU
FETCH_FOR = 120  # seconds, at most, of torch and of the rest


class Missing(Exception):
    """Why there can be no such environment here. `reason` is the one that tests/skips.txt has."""

    reason = "torch 2.13 for the CPU cannot be fetched here"


class Unsuitable(Missing):
    reason = "torch 2.13 for the CPU is not fetched for this Python"


def run(*command, timeout=900):
    try:
        return subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False, timeout=timeout)
    except subprocess.TimeoutExpired as e:
        return subprocess.CompletedProcess(command, 124, "", f"it took more than {e.timeout} s")
    except OSError as e:  # no such program
        return subprocess.CompletedProcess(command, 127, "", str(e))


def torch_of(python):
    return run(python, "-c", "import torch; print(torch.__version__.split('+')[0])").stdout.strip()


def make(python):
    """The environment. Why it cannot be had is remembered for a while, for the tests that come next; and noted before the
    attempt, for one that is killed in it."""
    if not PYTHONS[0] <= sys.version_info[:2] <= PYTHONS[1] and os.environ.get("HOCKET_TEST_TORCH") != "1":
        raise Unsuitable("torch for the CPU is fetched for Python 3.10 to 3.12 only, unless HOCKET_TEST_TORCH=1")
    failed = PLACE.with_suffix(".missing")
    if failed.exists() and time.time() - failed.stat().st_mtime < 1800:
        raise Missing(failed.read_text())
    failed.write_text("an installation before this one was killed")
    try:
        install(python)
    except Missing as why:
        failed.write_text(str(why))
        raise
    failed.unlink()


def install(python):
    made = run(sys.executable, "-m", "venv", PLACE)
    if made.returncode:
        raise Missing(f"a virtual environment cannot be made: {made.stderr.strip()}")
    pip = [python, "-m", "pip", "-q", "--disable-pip-version-check", "--retries", "1", "--timeout", "15", "install"]
    # Where pip is configured with a folder that has the wheel, that very file. torch itself never comes from PyPI: its build
    # there is one for CUDA of several GB.
    wheel = wheel_at_hand(python)
    torch = [wheel] if wheel else [f"torch=={TORCH}+cpu", "--index-url", "https://download.pytorch.org/whl/cpu"]
    steps = torch, ["setuptools>=77", *HELPERS]
    for step in steps:
        done = run(*pip, *step, timeout=FETCH_FOR)
        if done.returncode:
            raise Missing(f"{step[0]} cannot be installed: {done.stderr.strip()}")


def wheel_at_hand(python):
    """torch in a folder that pip is configured with, or None. Only one for the CPU: the others are larger by far."""
    folders = run(python, "-m", "pip", "config", "list").stdout
    places = [part for line in folders.splitlines() if "find-links" in line for part in line.split("=", 1)[1].strip("' ").split()]
    tag = "cp{}{}".format(*sys.version_info[:2])
    wheels = [wheel for place in places for wheel in pathlib.Path(place).glob(f"torch-{TORCH}*-{tag}-*{os.uname().machine}.whl")]
    return next((wheel for wheel in wheels if wheel.stat().st_size < LARGEST), None)


def python(library=ROOT / "build/release/lib/libhocket.so"):
    """The interpreter of the environment; `environment()` has this tree's hocket for it."""
    PLACE.parent.mkdir(exist_ok=True)
    with open(PLACE.parent / "torch-env.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        given = os.environ.get("TORCH_TEST_ENV")
        interpreter = (pathlib.Path(given) if given else PLACE) / "bin/python"
        if given and torch_of(interpreter) != TORCH:
            raise Missing("TORCH_TEST_ENV names no environment with torch 2.13.0")
        if not given and torch_of(interpreter) != TORCH:
            make(interpreter)
        build(interpreter, library)
    return interpreter


def build(interpreter, library):
    """The extension module, in build/python/python: what an installation puts into the environment."""
    if not library.exists():
        raise RuntimeError(f"{library} is not there: run scripts/build first")
    if not (pathlib.Path(sysconfig.get_paths()["include"]) / "Python.h").exists():
        raise Missing("Python.h is not there: apt-get install python3-dev")
    folder = ROOT / "build/python"
    steps = (["cmake", "-S", ROOT / "python", "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
              "-DCMAKE_CXX_FLAGS_RELEASE=-O3 -g1 -DNDEBUG", f"-DHOCKET_LIBRARY={library}",
              f"-DHOCKET_TORCH_PYTHON={interpreter}"], ["cmake", "--build", folder, "--target", "hocket_torch"])
    for step in steps:
        done = run(*step)
        if done.returncode:
            raise RuntimeError(f"{' '.join(map(str, step))} failed:\n{done.stdout}{done.stderr}")


def environment(**changes):
    """Of a process that runs with the tree's package: as if it were installed, entry point included."""
    path = ROOT / "build/python/python"
    return {**os.environ, "PYTHONPATH": str(path), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", **changes}


if __name__ == "__main__":
    try:
        print(python())
    except Missing as why:
        print(f"skipped: {why}", file=sys.stderr)
        sys.exit(77)
