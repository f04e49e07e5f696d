"""A Python that has torch 2.13 and this tree's hocket.torch, made on first use in build/torch-env. What the tests of tests/torch,
the peer's suite and bench/torch_compare.py run in.

    python3 tests/torch/env.py          prints the interpreter, or says why there is none (exit status 77)

torch comes from what pip is configured with (`pip install torch==2.13.0`), at first as the smaller build for the CPU from
download.pytorch.org. HOCKET_TORCH_ENV names an environment that has torch 2.13 already; nothing is installed into it."""

import fcntl
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLACE = ROOT / "build/torch-env"
TORCH = "2.13.0"
PYTHONS = (3, 10), (3, 12)  # for which there is a build of that torch for the CPU that is small enough to be fetched by a test
HELPERS = ["numpy", "pytest", "pytest-timeout", "expecttest", "hypothesis"]  # the peer's suite needs them


class Missing(Exception):
    """Why there can be no such environment here."""


def run(*command, **how):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False, **how)


def torch_of(python):
    return run(python, "-c", "import torch; print(torch.__version__.split('+')[0])").stdout.strip()


def make(python):
    """The environment, with torch: 2.13.0 from an index of builds for the CPU, else from wherever pip looks."""
    if not PYTHONS[0] <= sys.version_info[:2] <= PYTHONS[1]:
        raise Missing("torch for the CPU is fetched for Python 3.10 to 3.12 only")
    made = run(sys.executable, "-m", "venv", PLACE)
    if made.returncode:
        raise Missing("a virtual environment cannot be made")
    pip = [python, "-m", "pip", "-q", "--disable-pip-version-check", "install"]
    # Where pip is configured with the wheel, as a build for the CPU or not, no network is needed.
    if run(*pip, f"torch=={TORCH}", "setuptools>=77", *HELPERS, timeout=600).returncode and \
       run(*pip, f"torch=={TORCH}", "setuptools>=77", *HELPERS, "--index-url", "https://download.pytorch.org/whl/cpu",
           "--extra-index-url", "https://pypi.org/simple", timeout=600).returncode:
        raise Missing("torch 2.13.0 cannot be installed")


def python(library=ROOT / "build/release/lib/libhocket.so"):
    """The interpreter of the environment; `environment()` has this tree's hocket for it."""
    PLACE.parent.mkdir(exist_ok=True)
    with open(PLACE.parent / "torch-env.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        given = os.environ.get("HOCKET_TORCH_ENV")
        interpreter = (pathlib.Path(given) if given else PLACE) / "bin/python"
        if given and torch_of(interpreter) != TORCH:
            raise Missing("HOCKET_TORCH_ENV names no environment with torch 2.13.0")
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
