"""Trainings of small models on several ranks, which must come to what one process comes to."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.algorithms.join import Join
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

import launch
import ranks

BATCH, STEPS = 12, 5


def model():
    torch.manual_seed(7)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4)).double()


def batch(step):
    generator = torch.Generator().manual_seed(step)
    return torch.randn(BATCH, 8, generator=generator, dtype=torch.float64), torch.randn(BATCH, 4, generator=generator, dtype=torch.float64)


def part(t, rank, size):
    return t[rank * BATCH // size:(rank + 1) * BATCH // size]


def train(net, optimizer, rank=0, size=1):
    for step in range(STEPS):
        x, y = batch(step)
        optimizer.zero_grad()
        nn.functional.mse_loss(net(part(x, rank, size)), part(y, rank, size)).backward()
        optimizer.step()


def sgd(net):
    return torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)


def alone():
    net = model()
    train(net, sgd(net))
    return [p.detach() for p in net.parameters()]


def close(parameters, what):
    for mine, expected in zip(parameters, alone(), strict=True):
        torch.testing.assert_close(mine.detach(), expected, rtol=1e-9, atol=1e-11, msg=lambda m: f"{what}: {m}")


def ddp(rank, size):
    for options in ({}, {"find_unused_parameters": True}, {"static_graph": True}, {"gradient_as_bucket_view": True},
                    {"bucket_cap_mb": 0.001}):
        net = DistributedDataParallel(model(), **options)
        train(net, sgd(net), rank, size)
        close(net.parameters(), options)
    net = DistributedDataParallel(model())
    net.register_comm_hook(None, default_hooks.allreduce_hook)
    train(net, sgd(net), rank, size)
    close(net.parameters(), "allreduce_hook")
    for hook, state in ((default_hooks.fp16_compress_hook, None),  # torch has that of bf16 for accelerators only
                        (powerSGD_hook.powerSGD_hook, powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=2,
                                                                                  start_powerSGD_iter=2))):
        net = DistributedDataParallel(model().float())
        net.register_comm_hook(state, hook)
        for step in range(STEPS):
            net(part(batch(step)[0].float(), rank, size)).square().mean().backward()
        for p in net.parameters():  # the same everywhere
            other = p.grad.clone()
            dist.broadcast(other, 0)
            assert torch.equal(other, p.grad), hook
    net = DistributedDataParallel(model())
    with net.no_sync():
        net(batch(0)[0]).sum().backward()
    net(batch(1)[0]).sum().backward()
    with Join([net]):
        for _ in range(rank + 1):
            net(batch(2)[0]).sum().backward()


def zero(rank, size):
    net = DistributedDataParallel(model())
    optimizer = ZeroRedundancyOptimizer(net.parameters(), torch.optim.SGD, lr=0.1, momentum=0.9)
    train(net, optimizer, rank, size)
    close(net.parameters(), "ZeRO")


def fsdp(rank, size):
    net = FullyShardedDataParallel(model(), use_orig_params=True, device_id=torch.device("cpu"))
    train(net, sgd(net), rank, size)
    with FullyShardedDataParallel.summon_full_params(net):
        close(net.parameters(), "FSDP1")


def fsdp2(rank, size):
    net = model()
    mesh = init_device_mesh("cpu", (size,))
    for layer in net:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(net, mesh=mesh)
    train(net, sgd(net), rank, size)
    close([p.full_tensor() for p in net.parameters()], "FSDP2")


def dtensor(rank, size):
    mesh = init_device_mesh("cpu", (size,), mesh_dim_names=("tp",))
    net = model()
    parallelize_module(net, mesh, {"0": ColwiseParallel(output_layouts=Replicate()), "2": ColwiseParallel(), "4": RowwiseParallel()})
    train(net, sgd(net))
    close([p.full_tensor() if isinstance(p, DTensor) else p for p in net.parameters()], "tensor parallel")
    t = torch.arange(30.0).view(6, 5)
    sharded = distribute_tensor(t, mesh, [Shard(0)])
    assert torch.equal(sharded.redistribute(mesh, [Shard(1)]).full_tensor(), t)
    assert torch.equal((sharded @ distribute_tensor(t.t().contiguous(), mesh, [Replicate()])).full_tensor(), t @ t.t())


def mesh_of_two(rank, size):
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    net = model()
    fully_shard(net, mesh=mesh)
    train(net, sgd(net), rank, size)
    close([p.full_tensor() for p in net.parameters()], "HSDP")


def detail(rank, size, place):
    """torch's own checks of every call, through a group of Gloo beside ours."""
    dist.set_debug_level(dist.DebugLevel.DETAIL)
    dist.init_process_group("hocket", init_method=f"file://{place}", rank=rank, world_size=size)
    net = DistributedDataParallel(model())
    train(net, sgd(net), rank, size)
    close(net.parameters(), "DETAIL")
    return ranks.error_of(lambda: dist.all_reduce(torch.ones(3 + rank)))


def compiled(rank, size):
    net = DistributedDataParallel(model())
    train(torch.compile(net, backend="aot_eager"), sgd(net), rank, size)
    close(net.parameters(), "compiled")


class TorchTraining(launch.Case):
    def test_ddp(self):
        for size in (2, 3):
            ranks.run(size, ddp)

    def test_detail(self):
        for text in ranks.run(2, detail, init=False):
            self.assertIn("Detected mismatch between collectives on ranks", text)

    def test_compiled(self):
        ranks.run(2, compiled)

    def test_zero(self):
        ranks.run(2, zero)

    def test_fsdp(self):
        ranks.run(2, fsdp)

    def test_fsdp2(self):
        for size in (2, 3):
            ranks.run(size, fsdp2)

    def test_dtensor(self):
        ranks.run(2, dtensor)

    def test_mesh_of_two(self):
        ranks.run(4, mesh_of_two)


if __name__ == "__main__":
    launch.main()
