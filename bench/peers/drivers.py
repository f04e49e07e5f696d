"""The programs that compare.py measures: how each is built, started, spoken to and ended.

Every driver speaks the protocol of measure.h. Paths are relative to the project's root, where drivers run, so that a
command line in a result means the same on every machine.
"""

import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VENV = "build/peers-venv"
MPI_BUILD = "build/peers"
TORCH = "torch==2.13.0"
PACKAGES = ["openmpi-bin", "libopenmpi-dev", "mpich", "libmpich-dev", "python3-venv"]
PEERS = ["openmpi", "mpich", "gloo"]
START_SECONDS = 120
HOSTS = os.environ.get("NETNS", "").split()  # network namespaces that stand for hosts: tests/tools/with-netns.sh


class BenchError(Exception):
    """Ends the run; the text says what is wrong and what to do."""


@dataclass(frozen=True)
class Setting:
    bound: bool
    cma: bool | None  # None where the party has no such choice

    def __str__(self):
        cma = {None: "", True: ", CMA on", False: ", CMA off"}[self.cma]
        return ("bound" if self.bound else "unbound") + cma


@dataclass
class Machine:
    """The CPUs that this process may use, one hardware thread of every core first."""

    cpus: list[int]
    cores: int

    @staticmethod
    def here():
        usable = sorted(os.sched_getaffinity(0))
        first, rest, seen = [], [], set()
        for cpu in usable:
            path = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
            core = path.read_text() if path.exists() else cpu
            (rest if core in seen else first).append(cpu)
            seen.add(core)
        return Machine(first + rest, len(first))


@dataclass
class Launch:
    argv: list[str]
    env: dict[str, str] = field(default_factory=dict)
    control: bool = False  # append --control FILE --cpus N

    def text(self):
        return " ".join([f"{k}={v}" for k, v in sorted(self.env.items())] + self.argv)


def settings_of(party, transport):
    if transport == "netns":  # where ranks are dealt to the CPUs without their launchers, see between_hosts
        return [Setting(True, None)]
    has_cma = party in ("openmpi", "mpich") and transport == "shm"
    return [Setting(bound, cma) for bound in (True, False) for cma in ((True, False) if has_cma else (None,))]


@dataclass(frozen=True)
class Place:
    """Where a case runs."""

    transport: str
    ranks: int
    memory: str


def launch_of(party, place, setting, machine, build):
    transport, ranks = place.transport, place.ranks
    crowded = ranks > len(machine.cpus)
    pins = ["--pin", ",".join(str(c) for c in machine.cpus[:ranks])] if setting.bound else []
    if party in ("floor", "hocket"):
        program = [f"{build}/bin/hocket-floors", "serve"] if party == "floor" else [f"{build}/bin/hocket_bench_driver"]
        memory = [] if place.memory == "private" else ["--memory", place.memory]
        return Launch([*program, "--np", str(ranks), "--transport", transport, *memory, *pins])
    if party == "gloo":
        hosts = ["--hosts", ",".join(HOSTS)] if transport == "netns" else []
        return Launch([f"{VENV}/bin/python", "bench/peers/gloo_driver.py", "--np", str(ranks), *pins, *hosts])
    if transport == "netns":
        return between_hosts(party, ranks, machine, crowded)
    unit = "core" if crowded or ranks <= machine.cores else "hwthread"
    make = openmpi_launch if party == "openmpi" else mpich_launch
    return make(transport, ranks, setting, unit, crowded)


def between_hosts(party, ranks, machine, crowded):
    """An MPI whose ranks are dealt to network namespaces in turns, started from the first of them. Launchers take each
    for a host of its own, and would bind the ranks of all of them to its first CPU."""
    cpus = ",".join(str(cpu) for cpu in machine.cpus)
    place = f"$((${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}} % {len(machine.cpus)} + 1))"
    bound = ["sh", "-c", f'exec taskset -c "$(echo {cpus} | cut -d, -f{place})" "$0" "$@"']
    agent = str(ROOT / "tests/tools/netns-rsh.sh")
    if party == "openmpi":
        hosts = ",".join(f"{host}:{-(-ranks // len(HOSTS))}" for host in HOSTS)
        argv = ["on", HOSTS[0], "mpirun.openmpi", "-n", str(ranks), "--host", hosts, "--map-by", "node"]
        argv += ["--bind-to", "none", "--mca", "plm_rsh_agent", agent, "--mca", "oob_tcp_if_include", "eth0"]
        argv += ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "eth0"]
        if crowded:
            argv += ["--mca", "mpi_yield_when_idle", "1"]
        env = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        return Launch([*argv, *bound, f"{MPI_BUILD}/mpi_driver_openmpi"], env, control=True)
    argv = ["on", HOSTS[0], "mpirun.mpich", "-n", str(ranks), "-hosts", ",".join(HOSTS), "-ppn", "1", "-bind-to", "none"]
    argv += ["-launcher", "rsh", "-launcher-exec", agent, "-iface", "eth0"]
    env = {
        "MPIR_CVAR_NOLOCAL": "1",
        "UCX_TLS": "tcp,self",
        "UCX_NET_DEVICES": "eth0",
        "FI_PROVIDER": "tcp",
        "FI_TCP_IFACE": "eth0",
    }
    return Launch([*argv, *bound, f"{MPI_BUILD}/mpi_driver_mpich"], env, control=True)


def openmpi_launch(transport, ranks, setting, unit, crowded):
    argv = ["mpirun.openmpi", "-n", str(ranks)]
    if setting.bound:
        argv += ["--bind-to", unit + (":overload-allowed" if crowded else "")]
    else:
        argv += ["--bind-to", "none"]
    if unit == "hwthread":
        argv += ["--use-hwthread-cpus"]
    if crowded:
        argv += ["--oversubscribe", "--mca", "mpi_yield_when_idle", "1"]
    if transport == "tcp":
        argv += ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo"]
    elif openmpi_major() >= 5:
        argv += ["--mca", "smsc", "cma" if setting.cma else "^cma"]
    else:
        argv += ["--mca", "btl_vader_single_copy_mechanism", "cma" if setting.cma else "none"]
    env = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return Launch([*argv, f"{MPI_BUILD}/mpi_driver_openmpi"], env, control=True)


def mpich_launch(transport, ranks, setting, unit, crowded):
    del crowded  # taken as it comes: there is no switch
    argv = ["mpirun.mpich", "-n", str(ranks), "-bind-to", unit if setting.bound else "none"]
    if transport == "tcp":  # for MPICH on UCX and for MPICH on libfabric
        env = {
            "MPIR_CVAR_NOLOCAL": "1",
            "UCX_TLS": "tcp,self",
            "UCX_NET_DEVICES": "lo",
            "FI_PROVIDER": "tcp",
            "FI_TCP_IFACE": "lo",
        }
    elif setting.cma:
        env = {}
    else:
        env = {"UCX_TLS": "^cma", "MPIR_CVAR_CH4_CMA_ENABLE": "0"}
    return Launch([*argv, f"{MPI_BUILD}/mpi_driver_mpich"], env, control=True)


def openmpi_major():
    out = subprocess.run(["mpirun.openmpi", "--version"], capture_output=True, text=True, check=True).stdout
    return int(out.split(")")[1].split(".")[0])


class Driver:
    """One started driver. Not started until first used; idle between measurements without using a CPU."""

    def __init__(self, party, setting, launch, cpus, scratch):
        self.party, self.setting, self.launch, self.cpus = party, setting, launch, cpus
        self.scratch = scratch
        self.process = None
        self.pending = b""
        self.library = ""

    def start(self):
        argv = list(self.launch.argv)
        if self.launch.control:
            control = tempfile.mktemp(prefix="control-", dir=self.scratch)
            argv += ["--control", control, "--cpus", str(self.cpus)]
        self.errors = open(tempfile.mktemp(prefix="stderr-", dir=self.scratch), "w+b")
        self.process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            env=dict(os.environ, **self.launch.env),
            cwd=ROOT,
            start_new_session=True,
        )
        self.library = self.answer(START_SECONDS)["library"]

    def measure(self, collective, size, milliseconds, samples, mode, variant=0):
        if self.process is None:
            self.start()
        which = f" {variant}" if variant else ""  # most drivers have no variants, and Gloo's knows none
        line = f"{collective} {size} {milliseconds} {samples} {mode}{which}\n"
        try:
            self.process.stdin.write(line.encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            raise self.failure("died") from None
        answer = self.answer(120 + milliseconds * 0.1)
        if "error" in answer:
            raise self.failure(f"answered {answer['error']!r} to {line!r}")
        return answer

    def answer(self, seconds):
        """The next line of JSON; other output of launchers is passed over."""
        deadline = time.monotonic() + seconds
        fd = self.process.stdout.fileno()
        while True:
            while b"\n" in self.pending:
                line, self.pending = self.pending.split(b"\n", 1)
                if line.startswith(b"{"):
                    return json.loads(line)
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([fd], [], [], left)[0]:
                raise self.failure(f"gave no answer within {seconds:.0f} s")
            more = os.read(fd, 65536)
            if not more:
                raise self.failure("died")
            self.pending += more

    def failure(self, what):
        self.kill()
        self.errors.seek(0)
        tail = self.errors.read().decode(errors="replace").strip().splitlines()[-12:]
        return BenchError("\n  ".join([f"{self.party} ({self.setting}) {what}: {self.launch.text()}", *tail]))

    def close(self):
        """Ends it in the orderly way, by the end of its input."""
        if self.process is None:
            return
        try:
            self.process.stdin.close()
            self.process.wait(20)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self.kill()
        self.process.stdout.close()
        self.errors.close()
        self.process = None

    def kill(self):
        """A launcher that gets SIGTERM ends its ranks; what is left in its session's first group goes after 3 s."""
        for how, patience in ((signal.SIGTERM, 3), (signal.SIGKILL, 10)):
            try:
                os.killpg(self.process.pid, how)
                self.process.wait(patience)
                return
            except ProcessLookupError:
                return
            except subprocess.TimeoutExpired:
                continue


def missing_peers():
    """{peer: what is not there}."""
    missing = {}
    for mpi in ("openmpi", "mpich"):
        absent = [f"{tool}.{mpi}" for tool in ("mpirun", "mpicc") if shutil.which(f"{tool}.{mpi}") is None]
        if absent:
            missing[mpi] = " and ".join(absent)
    python = ROOT / VENV / "bin/python"
    check = [str(python), "-c", "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"]
    if not python.exists() or subprocess.run(check, check=False).returncode != 0:
        missing["gloo"] = f"PyTorch in {VENV}"
    return missing


def install_peers():
    missing = missing_peers()
    sudo = [] if os.geteuid() == 0 else ["sudo"]
    steps = []
    if missing.keys() & {"openmpi", "mpich"} or shutil.which("python3") is None:
        steps.append([*sudo, "apt-get", "update"])
        steps.append([*sudo, "apt-get", "install", "-y", "--no-install-recommends", *PACKAGES])
    if "gloo" in missing:
        steps.append(["python3", "-m", "venv", VENV])
        steps.append([f"{VENV}/bin/pip", "install", "--quiet", TORCH])
    for step in steps:
        print("+ " + " ".join(step), flush=True)
        try:
            subprocess.run(step, cwd=ROOT, check=True, env=dict(os.environ, DEBIAN_FRONTEND="noninteractive"))
        except (OSError, subprocess.CalledProcessError) as error:
            raise BenchError(f"--install-peers: {error}") from None


def build_mpi_drivers():
    (ROOT / MPI_BUILD).mkdir(parents=True, exist_ok=True)
    sources = [ROOT / "bench/peers/mpi_driver.c", ROOT / "bench/peers/measure.h"]
    newest = max(source.stat().st_mtime for source in sources)
    for mpi in ("openmpi", "mpich"):
        program = ROOT / MPI_BUILD / f"mpi_driver_{mpi}"
        if program.exists() and program.stat().st_mtime > newest:
            continue
        command = [f"mpicc.{mpi}", "-O2", "-std=gnu11", str(sources[0]), "-o", str(program)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BenchError(f"{' '.join(command)} failed:\n{done.stderr}")
