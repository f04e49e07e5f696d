#!/usr/bin/env python3
"""Checks the include order of the folders of src/, and that include/hocket stands on its own.

    check_layers.py [ROOT]

- A file of src/FOLDER includes by path from src/, and only folders that ALLOWED names for its own.
- No circle of headers.
- A public header includes standard and public headers only, and compiles alone: hocket.h as C99 and C++, the others as C++20.
"""

import pathlib
import re
import shutil
import subprocess
import sys

# folder: the folders it may include besides itself. A path instead of a folder allows the files that start with it.
ALLOWED = {
    "base": [],
    "topology": ["base"],
    "schedule": ["base", "topology"],
    "algorithms": ["base", "topology", "schedule"],
    "select": ["base", "topology", "schedule", "algorithms"],
    "transport": ["base"],
    "gpu": ["base"],
    "kernels": ["base", "gpu", "schedule/step", "schedule/shape", "schedule/drive", "algorithms"],
    "engine": ["base", "schedule", "transport", "kernels"],
    "bootstrap": ["base"],
    "comm": ["base", "topology", "schedule", "algorithms", "select", "transport", "gpu", "kernels", "engine", "bootstrap"],
    "api": ["base", "schedule/collective", "comm"],
}
QUOTED_ELSEWHERE = ("hwy/",)  # Highway includes its own headers with quotes, again and again: one spelling for all
SOURCES = {".h", ".cc", ".cuh", ".cu", ".hpp", ".c"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def includes(path):
    """Yields (line number, "<" or '"', what is included)."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            yield number, match[1], match[2]


def files_of(folder):
    return sorted(p for p in folder.rglob("*") if p.suffix in SOURCES)


def check_sources(root):
    faults = []
    src, graph = root / "src", {}
    for path in files_of(src):
        folder = path.relative_to(src).parts[0]
        if folder not in ALLOWED:
            faults.append(f"{path.relative_to(root)}: src/{folder} has no place in the include order (ALLOWED in check_layers.py)")
            continue
        graph[path] = []
        for number, quote, target in includes(path):
            where = f"{path.relative_to(root)}:{number}"
            if target.startswith("hocket/"):
                if not (root / "include" / target).is_file():
                    faults.append(f"{where}: there is no include/{target}")
            elif (src / target).is_file():
                if quote == "<":
                    faults.append(f'{where}: write "{target}": angle brackets are for other libraries')
                graph[path].append(src / target)
                allowed = [folder] + ALLOWED[folder]
                if not any(target == a or target.startswith(a if "/" in a else a + "/") for a in allowed):
                    faults.append(f'{where}: src/{folder} may not include "{target}"; it may include {", ".join(allowed)}')
            elif quote == '"' and not target.startswith(QUOTED_ELSEWHERE):
                faults.append(f'{where}: "{target}" is no file below src/: includes are written from there')
    return faults + circles(root, graph)


def circles(root, graph):
    """Depth-first: a header that is reached while it is still open closes a circle."""
    faults, state = [], {}

    def visit(path, trail):
        state[path] = "open"
        for target in graph.get(path, []):
            if state.get(target) == "open":
                loop = trail[trail.index(target):] + [target]
                faults.append("circle of includes: " + " -> ".join(str(p.relative_to(root)) for p in loop))
            elif target not in state:
                visit(target, trail + [target])
        state[path] = "done"

    for path in graph:
        if path not in state:
            visit(path, [path])
    return faults


def check_public(root):
    faults = []
    include = root / "include"
    # Neither another public header nor one of the project's own: then it must be the compiler's, which compiling shows.
    own = {str(p.relative_to(root / "src")) for p in files_of(root / "src")}
    for path in files_of(include):
        name = path.relative_to(include)
        for number, quote, target in includes(path):
            if target in own or (quote == '"' and not (include / target).is_file()):
                faults.append(f"include/{name}:{number}: a public header may include only standard and public headers, not '{target}'")
        languages = [("c++", "c++20")]
        if path.suffix == ".h":
            languages.append(("c", "c99"))
        for language, standard in languages:
            compiler = shutil.which("g++" if language == "c++" else "gcc")
            if not compiler:
                faults.append(f"include/{name}: not compiled: there is no g++ and gcc")
                continue
            run = subprocess.run([compiler, "-x", language, f"-std={standard}", "-Wall", "-Wextra", "-Wpedantic", "-Werror",
                                  "-fsyntax-only", f"-I{include}", "-"],
                                 input=f"#include <{name}>\n", capture_output=True, text=True)
            if run.returncode != 0:
                error = next((line for line in run.stderr.splitlines() if "error" in line), run.stderr.strip())
                faults.append(f"include/{name} does not compile alone as {standard}: {error}")
    return faults


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
    faults = check_sources(root) + check_public(root)
    for fault in faults:
        print(f"check_layers: {fault}")
    if not faults:
        print(f"check_layers: {len(files_of(root / 'src'))} files of src/ keep the order, "
              f"{len(files_of(root / 'include'))} public headers stand alone")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
