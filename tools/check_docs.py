#!/usr/bin/env python3
"""Checks that the documentation still speaks of the code that is there.

    check_docs.py [--static]

- Relative links of every Markdown file lead to a file.
- The hops of docs/life_of_an_allreduce.md, its lines "N. `Symbol` (path)", are at most 6 and are defined in the files named.
- README.md shows examples/all_reduce.cc as it is.
- docs/api.md has every name and every prototype of include/hocket/hocket.h, and none that is not there.
- Unless --static: docs/environment.md is what `hocket env --markdown` of the release build prints, and docs/types.md what
  `hocket types --markdown` prints, where that is built.
- Unless --static: the hops are those of a backtrace. Two processes run example_all_reduce of the debug build; gdb stops one of
  them in the last hop's function during its first all-reduce and reads the call stack. It must be the hops and, before a hop
  whose line says "through `a`, `b`", these: no function is left out. A hop with "called and returned" in its line has left the
  stack by then; it must have been entered.
"""

import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIFE = ROOT / "docs/life_of_an_allreduce.md"
EXAMPLE = ROOT / "examples/all_reduce.cc"
HEADER = ROOT / "include/hocket/hocket.h"
API = ROOT / "docs/api.md"
GENERATED = {"env": ROOT / "docs/environment.md", "types": ROOT / "docs/types.md"}  # by the subcommand that prints it
HOCKET = ROOT / "build/release/bin/hocket"
PROGRAM = ROOT / "build/debug/bin/example_all_reduce"
MAX_HOPS = 6
HOP = re.compile(r"^(\d+)\. `([\w:]+)` \(\[?`?([\w./]+)`?(?:\]\([^)]*\))?\)(.*)$")


class Hop:
    def __init__(self, symbol, path, rest):
        self.symbol, self.path = symbol, path
        self.name = symbol.split("::")[-1]
        self.returned = "called and returned" in rest
        through = re.search(r"through ((?:`[\w:()]+`(?:, | and )?)+)", rest)
        self.through = re.findall(r"`([\w:()]+)`", through[1]) if through else []


def markdown_files():
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
                            capture_output=True, text=True, check=True).stdout.split()
    return [ROOT / path for path in listed if (ROOT / path).is_file()]


def prose(text):
    """The text without its code blocks."""
    return re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)


def check_links():
    faults = []
    for path in markdown_files():
        for target in re.findall(r"\]\(([^)\s]+)\)", prose(path.read_text())):
            if re.match(r"[a-z]+:|#", target):
                continue
            if not (path.parent / target.split("#")[0]).exists():
                faults.append(f"{path.relative_to(ROOT)}: link to '{target}', which is not there")
    return faults


def read_hops():
    hops, faults = [], []
    for line in LIFE.read_text().splitlines():
        match = HOP.match(line)
        if match:
            hops.append(Hop(match[2], match[3], match[4]))
            if int(match[1]) != len(hops):
                faults.append(f"{LIFE.name}: hop {match[2]} is numbered {match[1]}, it is number {len(hops)}")
    if not hops:
        faults.append(f"{LIFE.name}: found no hop: a line is 'N. `Symbol` (path)'")
    if len(hops) > MAX_HOPS:
        faults.append(f"{LIFE.name}: {len(hops)} hops; {MAX_HOPS} are the promise")
    return hops, faults


def check_symbols(hops):
    """A hop is defined in its file: its name before a parenthesis, and the names that qualify it."""
    faults = []
    for hop in hops:
        path = ROOT / hop.path
        if not path.is_file():
            faults.append(f"{LIFE.name}: {hop.symbol}: there is no file {hop.path}")
            continue
        text = re.sub(r"//.*", "", path.read_text())
        missing = [part for part in hop.symbol.split("::")[:-1] if not re.search(rf"\b{part}\b", text)]
        if not re.search(rf"\b{hop.name}\s*\(", text):
            missing.append(hop.name)
        if missing:
            faults.append(f"{LIFE.name}: {hop.symbol}: {hop.path} does not define {', '.join(missing)}")
    return faults


def check_example():
    blocks = re.findall(r"^```(?:cpp|c\+\+)\n(.*?)^```", (ROOT / "README.md").read_text(), flags=re.M | re.S)
    if EXAMPLE.read_text().strip() in (block.strip() for block in blocks):
        return []
    return [f"README.md: none of its C++ blocks is {EXAMPLE.relative_to(ROOT)} as it stands"]


def prototypes(text):
    """The functions of the C interface that a text declares at the beginning of a line, each with single spaces."""
    declared = re.findall(r"^(?:HKT_API )?((?:hktResult_t|const char\*) hkt\w+\([^;{]*\));", text, flags=re.M)
    return {re.sub(r"\s+", " ", prototype) for prototype in declared}


def check_api():
    """A name counts as documented where the text has it between backticks: the examples do not explain anything."""
    if not HEADER.is_file():
        return []  # a tree without an interface
    if not API.is_file():
        return [f"there is no {API.relative_to(ROOT)}, which explains {HEADER.relative_to(ROOT)}"]
    name = re.compile(r"\b(?:hkt[A-Z]|HKT_)\w*")
    header = re.sub(r"/\*.*?\*/|//[^\n]*", "", HEADER.read_text(), flags=re.S)
    api = API.read_text()
    tags = set(re.findall(r"\bstruct (hkt\w+)", header))  # opaque: only their typedefs are for users
    names = set(name.findall(header)) - tags
    explained = {n for span in re.findall(r"`([^`\n]+)`", prose(api)) for n in name.findall(span)}
    faults = [f"{API.name}: does not explain {n} of {HEADER.name}" for n in sorted(names - explained)]
    faults += [f"{API.name}: {n} is not in {HEADER.name}" for n in sorted(set(name.findall(api)) - names)]
    faults += [f"{API.name}: lacks the prototype '{p}'" for p in sorted(prototypes(header) - prototypes(api))]
    faults += [f"{API.name}: {HEADER.name} does not declare '{p}'" for p in sorted(prototypes(api) - prototypes(header))]
    return faults


def check_generated():
    if not HOCKET.is_file():
        return []  # not built; where all gates run, it is
    faults = []
    for command, path in GENERATED.items():
        printed = subprocess.run([HOCKET, command, "--markdown"], capture_output=True, text=True, check=True).stdout
        if not path.is_file() or path.read_text() != printed:
            where = path.relative_to(ROOT)
            faults.append(f"{where} is not what the program says: {HOCKET.relative_to(ROOT)} {command} --markdown > {where}")
    return faults


def backtrace(hops):
    """Returns (returned hops in the order in which they were entered, functions on the stack from the outermost), or a fault."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HOCKET_")}
    environment |= {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    script = ["set pagination off", "set confirm off", "set breakpoint pending on", "set debuginfod enabled off",
              "set disable-randomization off", "handle SIGPIPE nostop noprint pass",
              f"tbreak {hops[0].symbol}", "run"]
    # From here on everything is part of the first all-reduce.
    for hop in hops:
        if hop.returned:
            script += [f"tbreak {hop.symbol}", "commands", "silent", f"echo ENTERED {hop.symbol}\\n", "continue", "end"]
    script += [f"tbreak {hops[-1].symbol}", "continue", "echo STACK\\n", "backtrace", "kill"]
    with tempfile.TemporaryDirectory() as folder:
        commands = pathlib.Path(folder) / "commands.gdb"
        commands.write_text("\n".join(script) + "\n")
        other = subprocess.Popen([PROGRAM], env=environment | {"RANK": "1"}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            run = subprocess.run(["gdb", "-nx", "-batch", "-x", commands, PROGRAM], env=environment | {"RANK": "0"},
                                 capture_output=True, text=True, timeout=120)
        except subprocess.TimeoutExpired:
            return None, "gdb did not come back within 120 s"
        finally:
            other.kill()
            other.wait()
    output = run.stdout
    if "STACK\n" not in output or not re.search(r"^#0 ", output, re.M):
        return None, f"no stop in {hops[-1].symbol}; gdb said: {' | '.join((output + run.stderr).strip().splitlines()[-6:])}"
    before, stack = output.split("STACK\n", 1)
    entered = re.findall(r"^ENTERED (\S+)$", before, re.M)
    # "#1  0x.. in hocket::Engine::run<..> (this=..) at file:1" -> "hocket::Engine::run"
    frames = re.findall(r"^#\d+ +(?:0x[0-9a-f]+ in )?([^\n]*?) \(", stack, re.M)
    return entered, [re.sub(r"<.*", "", frame) for frame in reversed(frames)]


def ends_with(frame, symbol):
    return frame == symbol or frame.endswith("::" + symbol)


def check_backtrace(hops):
    if not shutil.which("gdb"):
        return ["no gdb here to take a backtrace with: scripts/bootstrap --ci installs it"]
    if not PROGRAM.is_file():
        return [f"{PROGRAM.relative_to(ROOT)} is not built: scripts/build debug example_all_reduce"]
    entered, frames = backtrace(hops)
    if entered is None:
        return [frames]

    faults = [f"{LIFE.name}: {hop.symbol} was not called" for hop in hops if hop.returned and hop.symbol not in entered]
    expected = [symbol for hop in hops if not hop.returned for symbol in [*hop.through, hop.symbol]]
    start = next((i for i, frame in enumerate(frames) if ends_with(frame, expected[0])), 0)
    actual = frames[start:]
    if len(actual) != len(expected) or not all(ends_with(frame, symbol) for frame, symbol in zip(actual, expected)):
        faults.append(f"{LIFE.name}: says {' > '.join(expected)}; the backtrace says {' > '.join(actual)}")
    return faults


def main():
    if sys.argv[1:] not in ([], ["--static"]):
        sys.exit(__doc__)
    hops, faults = read_hops()
    faults += check_links() + check_symbols(hops) + check_example() + check_api()
    if not sys.argv[1:]:
        faults += check_generated() + (check_backtrace(hops) if hops else [])
    for fault in faults:
        print(f"check_docs: {fault}")
    if not faults:
        ran = "" if sys.argv[1:] else " with their backtrace" + (", the environment, the types" if HOCKET.is_file() else "")
        print(f"check_docs: links, {len(hops)} hops{ran}, the interface and the example are true")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
