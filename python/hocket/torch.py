"""The back end "hocket" of torch.distributed: importing this module registers it.

    import hocket.torch
    torch.distributed.init_process_group("hocket")

Tensors of the CPU. Errors are torch.distributed.DistBackendError with Hocket's text; what is wrong with an argument by itself
is a RuntimeError."""

import atexit
import datetime

import torch
import torch.distributed as dist

__all__ = ["Options", "monitored_barrier"]


def autoload():
    """The entry point of torch.backends: importing the module is all there is to do."""


def _create(about, options):
    from . import _torch

    if options is not None and not isinstance(options, _torch.Options):
        raise TypeError(f"pg_options of the back end hocket must be hocket.torch.Options, not {type(options).__name__}")
    atexit.unregister(_torch.stop)  # one is enough
    atexit.register(_torch.stop)
    return _torch.create(about, options)


def __getattr__(name):
    # The extension module is loaded when it is needed: torch may import this module by itself, in every program.
    if name == "Options":
        from ._torch import Options

        return Options
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def monitored_barrier(group=None, timeout=None):
    """A barrier whose timeout (a timedelta; None: the group's) names the ranks that are missing.

    torch.distributed.monitored_barrier refuses every back end but gloo."""
    group = group if group is not None else dist.group.WORLD
    options = dist.BarrierOptions()
    options.timeout = timeout if timeout is not None else datetime.timedelta(milliseconds=-1)
    options.asyncOp = False
    group.barrier(options).wait()


def _register():
    if not dist.is_available():
        return
    if not torch.__version__.startswith("2.13."):
        raise ImportError(f"hocket.torch is built for torch 2.13, not for {torch.__version__}")
    # One name for all devices: torch keeps one back end per group that is not its own. A CUDA tensor is told that it
    # cannot be served yet.
    dist.Backend.register_backend("hocket", _create, extended_api=True, devices=["cpu", "cuda"])


_register()
