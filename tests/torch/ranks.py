"""Ranks as forked processes of one that has loaded torch already: starting torch is what takes time."""

import datetime
import multiprocessing
import os
import pathlib
import sys
import tempfile
import traceback

import torch
import torch.distributed as dist

import hocket.torch  # noqa: F401: registers the back end

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "launch"))
FORK = multiprocessing.get_context("fork")


def _rank(pipe, place, rank, size, body, options):
    torch.set_num_threads(1)
    try:
        if options.get("init", True):
            dist.init_process_group(options.get("backend", "hocket"), init_method=f"file://{place}", rank=rank, world_size=size,
                                    timeout=datetime.timedelta(seconds=options.get("timeout", 30)),
                                    pg_options=options.get("pg_options"))
        result = body(rank, size) if options.get("init", True) else body(rank, size, place)
        if dist.is_initialized():
            dist.destroy_process_group()
        pipe.send((True, result))
    except BaseException as e:  # noqa: BLE001: whatever it is, the test shows it
        pipe.send((False, f"{type(e).__name__}: {e}\n{traceback.format_exc()}"))
    pipe.close()
    os._exit(0)  # what the parent's threads and modules would do at exit is not the rank's to do


def run(size, body, within=90, **options):
    """body(rank, size) on each of `size` ranks in a group of hocket; what each returned. A rank that raised, died or did not
    end within the time fails the test with what it said."""
    with tempfile.TemporaryDirectory() as folder:
        place = os.path.join(folder, "store")
        pipes, processes = [], []
        for rank in range(size):
            mine, theirs = FORK.Pipe(duplex=False)
            process = FORK.Process(target=_rank, args=(theirs, place, rank, size, body, options))
            process.start()
            theirs.close()
            pipes.append(mine)
            processes.append(process)
        results, failures = [], []
        try:
            for rank, pipe in enumerate(pipes):
                if not pipe.poll(within if not failures else 5):
                    good, result = False, f"it did not end within {within} s"
                else:
                    try:
                        good, result = pipe.recv()
                    except EOFError:
                        processes[rank].join(5)
                        good, result = False, f"it died: exit code {processes[rank].exitcode}"
                if good:
                    results.append(result)
                else:
                    failures.append(f"rank {rank} of {size}: {result}")
        finally:
            for process in processes:
                process.join(5)
                if process.is_alive():
                    process.kill()
                    process.join()
        if failures:
            raise AssertionError("\n".join(failures))
        return results


def error_of(call):
    """The text of what `call` raises, with its type in front; fails if it raises nothing."""
    try:
        call()
    except Exception as e:  # noqa: BLE001: the test looks at which
        return f"{type(e).__name__}: {e}"
    raise AssertionError("no error was raised")
