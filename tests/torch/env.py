"""A Python that has torch 2.13 and this tree's hocket.torch, made on first use in build/torch-env. What the tests of tests/torch
run in.

    python3 tests/torch/env.py          prints the interpreter, or says why there is none (exit status 77)

torch comes from a folder of wheels that pip is configured with (find-links), else from download.pytorch.org, which has smaller
builds for the CPU, else from wherever pip looks. TORCH_TEST_ENV names an environment that has torch 2.13 already; nothing is installed into it."""

import fcntl
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLACE = ROOT / "build/torch-env"
TORCH = "2.13.0"
PYTHONS = (3, 10), (3, 12)  # for which there is a build of that torch for the CPU that is small enough to be fetched by a test
HELPERS = ["numpy"]


class Missing(Exception):
    """Why there can be no such environment here."""


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
    """The environment, with torch from wherever pip looks, else from an index of builds for the CPU. That it failed is
    remembered for a while, for the tests that come next."""
    failed = PLACE.with_suffix(".missing")
    if failed.exists() and time.time() - failed.stat().st_mtime < 1800:
        raise Missing(failed.read_text())
    try:
        install(python)
    except Missing as why:
        failed.write_text(str(why))
        raise


def install(python):
    if not PYTHONS[0] <= sys.version_info[:2] <= PYTHONS[1]:
        raise Missing("torch for the CPU is fetched for Python 3.10 to 3.12 only")
    made = run(sys.executable, "-m", "venv", PLACE)
    if made.returncode:
        raise Missing(f"a virtual environment cannot be made: {made.stderr.strip()}")
    pip = [python, "-m", "pip", "-q", "--disable-pip-version-check", "install"]
    packages = [f"torch=={TORCH}", "setuptools>=77", *HELPERS]
    # Where pip is configured with the wheel no network is needed. PyPI's own build is one for CUDA of several GB.
    indices = (["--index-url", "https://download.pytorch.org/whl/cpu", "--extra-index-url", "https://pypi.org/simple"], [])
    if has_find_links(python):
        indices = reversed(indices)
    for index in indices:
        done = run(*pip, *packages, *index, timeout=600)
        if done.returncode == 0:
            return
    raise Missing(f"torch {TORCH} cannot be installed: {done.stderr.strip()}")


def has_find_links(python):
    """Is pip configured with a folder that has torch?"""
    folders = run(python, "-m", "pip", "config", "list").stdout
    places = [part for line in folders.splitlines() if "find-links" in line for part in line.split("=", 1)[1].strip("' ").split()]
    return any(list(pathlib.Path(place).glob(f"torch-{TORCH}*.whl")) for place in places)


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
