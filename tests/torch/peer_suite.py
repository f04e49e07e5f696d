"""torch.testing._internal.distributed.distributed_test, as it is in torch's wheel, for pytest: run by peer.py.

BACKEND and WORLD_SIZE choose the back end and the number of ranks. PEER_ALIAS=1: where the suite asks for the name of
the back end, it also answers to "gloo" and "mpi", which lets about 60 more tests run."""

import os
import tempfile

import torch
import torch.testing._internal.common_distributed as common

import hocket.torch  # noqa: F401

NAME = os.environ["BACKEND"]
ALIAS = os.environ.get("PEER_ALIAS") == "1"
os.environ.setdefault("INIT_METHOD", "file://" + os.path.join(tempfile.mkdtemp(), "store"))
for feature in ("gpu", "cuda", "ddp", "subgroup", "plugin"):
    common.DistTestCases.backend_feature[feature].add(NAME)


class Alias(str):
    """Is the back end's name, and equal to two others."""

    def __eq__(self, other):
        return str(other) in (str(self), "gloo", "mpi")

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return hash("gloo")


if ALIAS:
    plain = type(os.environ).__getitem__
    type(os.environ).__getitem__ = lambda self, key: Alias(NAME) if key == "BACKEND" else plain(self, key)
import torch.testing._internal.distributed.distributed_test as suite  # noqa: E402

if ALIAS:
    type(os.environ).__getitem__ = plain
    os.environ["BACKEND"] = "mpi"
suite.PROFILING_SUPPORTED_BACKENDS.append(NAME)
suite.SEND_RECV_PROFILING_SUPPORTED_BACKENDS.append(NAME)


class TestPeer(suite.TestDistBackend, suite.DistributedTest._DistTestBase):
    def setUp(self):
        super().setUp()
        # Forked ranks start in a tenth of the time of spawned ones.
        self._start_processes(torch.multiprocessing.get_context("fork").Process)
