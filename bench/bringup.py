#!/usr/bin/env python3
"""Measures bring-up with ranks as threads over 127.0.0.1: by environment, file, rank table and torchrun's store.

  bench/bringup.py [--build build/release] [--python PYTHON] [--ranks 2,...,1024] [--rounds 5] [--json FILE]

torchrun's store is PyTorch's own server, started here by a Python that has torch (--python); without one that way is left
out, and said to be.
"""
import argparse
import json
import pathlib
import subprocess
import sys

STORE = """
import sys, datetime
from torch.distributed import TCPStore
store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=datetime.timedelta(seconds=60))
print(store.port, flush=True)
sys.stdin.read()
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release", type=pathlib.Path)
    parser.add_argument("--python", default="python3", help="one that has torch")
    parser.add_argument("--ranks", default="2,4,8,16,32,64,128,256,512,1024")
    parser.add_argument("--rounds", default="5")
    parser.add_argument("--json", type=pathlib.Path, help="file to write")
    args = parser.parse_args()

    command = [args.build / "bin" / "hocket-bringup", "--ranks", args.ranks, "--rounds", args.rounds]
    if args.json:
        command += ["--json", args.json]
    has_torch = subprocess.run([args.python, "-c", "import torch"], stderr=subprocess.DEVNULL).returncode == 0
    if not has_torch:
        print(f"{args.python} has no torch: without torchrun's store", file=sys.stderr)
        return subprocess.run(command).returncode
    store = subprocess.Popen([args.python, "-c", STORE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        port = store.stdout.readline().strip()
        status = subprocess.run(command + ["--by", "env,file,table,torch", "--torch-store", port]).returncode
    finally:
        store.stdin.close()
        store.wait(timeout=30)
    if args.json and status == 0:
        version = subprocess.run([args.python, "-c", "import torch; print(torch.__version__)"], capture_output=True,
                                 text=True, check=True).stdout.strip()
        result = json.loads(args.json.read_text())
        result["torch"] = version
        rows = ",\n  ".join(json.dumps(row) for row in result.pop("results"))
        head = json.dumps(result)[:-1]
        args.json.write_text(f'{head}, "results": [\n  {rows}\n]}}\n')
    return status


if __name__ == "__main__":
    sys.exit(main())
