"""Builds libhocket and the extension module by CMake, and puts both into the wheel: hocket/lib/libhocket.so.0 and
hocket/_torch*.so. What CMake builds stays in build/python of the source tree, so that a second installation is quick.

HOCKET_BUILD_FOLDER names another folder, HOCKET_BUILD_JOBS how many compilers run at a time (default: one per CPU),
LIBHOCKET a libhocket.so of this tree that is built already."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = pathlib.Path(__file__).resolve().parent.parent
NEEDED = {"cmake": "CMake >= 3.25", "g++": "a C++20 compiler", "pkg-config": "pkg-config"}


def version():
    return re.search(r"project\(hocket VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]


class CMakeBuild(build_ext):
    def build_extension(self, ext):
        missing = [what for program, what in NEEDED.items() if not shutil.which(program)]
        if missing:
            sys.exit(f"hocket: needed to build it and not found: {', '.join(missing)}; scripts/bootstrap installs all of it")
        folder = pathlib.Path(os.environ.get("HOCKET_BUILD_FOLDER", ROOT / "build/python"))
        jobs = os.environ.get("HOCKET_BUILD_JOBS", str(os.cpu_count()))
        given = os.environ.get("LIBHOCKET", "")
        generator = ["-G", "Ninja"] if shutil.which("ninja") else []
        subprocess.run(["cmake", "-S", ROOT / "python", "-B", folder, *generator, "-DCMAKE_BUILD_TYPE=Release",
                        "-DCMAKE_CXX_FLAGS_RELEASE=-O3 -g1 -DNDEBUG", f"-DHOCKET_LIBRARY={given}",
                        f"-DHOCKET_TORCH_PYTHON={sys.executable}"], check=True)
        subprocess.run(["cmake", "--build", folder, "--target", "hocket_torch", "-j", jobs], check=True)
        target = pathlib.Path(self.get_ext_fullpath(ext.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(folder / "python/hocket" / target.name, target)
        library = target.parent / "lib"
        library.mkdir(exist_ok=True)
        # By the name that the module asks for.
        shutil.copy2(pathlib.Path(given or folder / "lib/libhocket.so.0").resolve(), library / "libhocket.so.0")


# What setuptools makes on its way goes to the build folder as well: a later wheel would take up what is left in the source tree.
SCRATCH = ROOT / "build/python-package"
SCRATCH.mkdir(parents=True, exist_ok=True)
setup(version=version(), ext_modules=[Extension("hocket._torch", [])], cmdclass={"build_ext": CMakeBuild},
      options={"build": {"build_base": str(SCRATCH)}, "egg_info": {"egg_base": str(SCRATCH)}})
