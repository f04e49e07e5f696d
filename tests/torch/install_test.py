"""As a new user would: the package built and installed into an environment that holds torch, and a script under torchrun."""

import os
import pathlib
import subprocess
import sys
import venv

import launch

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = (ROOT / "examples/torch_all_reduce.py").read_text()


class TorchInstall(launch.Case):
    def make(self):
        """A fresh environment that sees this one's torch, with hocket installed by pip."""
        venv.create(self.folder / "env", with_pip=True)
        site = next((self.folder / "env/lib").glob("python3.*")) / "site-packages"
        packages = {str(pathlib.Path(m.__file__).parents[1]) for m in map(__import__, ("torch", "setuptools", "numpy"))}
        (site / "torch.pth").write_text("\n".join(packages))
        python = self.folder / "env/bin/python"
        clean = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        # The library and the module that the other tests use, so that nothing is built twice.
        installed = subprocess.run([python, "-m", "pip", "install", "--no-build-isolation", "--no-deps", ROOT / "python"],
                                   capture_output=True, text=True, check=False, env=clean)
        self.assertEqual(installed.returncode, 0, installed.stdout + installed.stderr)
        return python, clean

    def test_a_script_under_torchrun(self):
        python, clean = self.make()
        (self.folder / "script.py").write_text(SCRIPT)
        for text in (SCRIPT, SCRIPT.replace("import hocket.torch\n", "")):  # the second one: loaded by torch itself
            (self.folder / "script.py").write_text(text)
            run = subprocess.run([python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
                                  self.folder / "script.py"], capture_output=True, text=True, check=False, env=clean,
                                 timeout=120, cwd=self.folder)
            self.assertEqual(run.returncode, 0, run.stderr)
            for rank in range(2):  # their lines may come in any order, and in one another
                self.assertIn(f"rank {rank} of 2: 1.0", run.stdout, run.stderr)
        said = subprocess.run([python, "-c", "import hocket, sys; print(hocket.__file__)"], capture_output=True, text=True,
                              check=True, env=clean, cwd=self.folder).stdout
        self.assertIn(str(self.folder), said)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "tests/launch"))
    launch.main()
