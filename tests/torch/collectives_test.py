"""Every collective of a process group against what it should give, computed without it."""

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

import launch
import ranks

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64]
ALL = [*FLOATS, *INTEGERS, torch.bool, torch.complex64, torch.complex128, torch.float8_e4m3fn, torch.float8_e5m2,
       torch.uint16, torch.uint32, torch.uint64, torch.complex32]


def data(rank, shape=(3, 4), dtype=torch.float32, seed=0):
    """Small whole numbers: sums and products of a few are exact in every type."""
    generator = torch.Generator().manual_seed(1000 * seed + rank)
    values = torch.randint(0, 3, shape, generator=generator)
    return values.to(torch.float32).to(dtype) if dtype.itemsize == 1 and dtype.is_floating_point else values.to(dtype)


def same(a, b, what=""):
    as_bytes = lambda t: t.contiguous().view(-1).view(torch.uint8) if t.numel() else t  # noqa: E731
    assert a.shape == b.shape and a.dtype == b.dtype, (what, a, b)
    assert torch.equal(as_bytes(a.resolve_conj()), as_bytes(b.resolve_conj())), (what, a, b)


def ways(t):
    """The tensor as it is, and equal ones that are not contiguous."""
    yield t.clone()
    yield t.t().contiguous().t()
    wide = torch.zeros(t.shape[0], 2 * t.shape[1], dtype=t.dtype)
    wide[:, ::2] = t
    yield wide[:, ::2]


def all_reduce(rank, size):
    operations = {dist.ReduceOp.SUM: lambda ts: sum(ts[1:], ts[0]), dist.ReduceOp.PRODUCT: lambda ts: torch.stack(ts).prod(0),
                  dist.ReduceOp.MIN: lambda ts: torch.stack(ts).amin(0), dist.ReduceOp.MAX: lambda ts: torch.stack(ts).amax(0)}
    for dtype in FLOATS + INTEGERS:
        inputs = [data(r, dtype=dtype) for r in range(size)]
        for operation, expected in operations.items():
            for t in ways(inputs[rank]):
                dist.all_reduce(t, operation)
                same(t, expected(inputs).to(dtype), (dtype, operation))
    for dtype in (torch.complex64, torch.complex128):
        inputs = [data(r, dtype=dtype) * 1j + r for r in range(size)]
        for t in ways(inputs[rank]):
            dist.all_reduce(t)
            same(t, sum(inputs[1:], inputs[0]), dtype)
    t = data(rank, dtype=torch.int32)
    dist.all_reduce(t, dist.ReduceOp.BXOR)
    expected = data(0, dtype=torch.int32)
    for r in range(1, size):
        expected = expected ^ data(r, dtype=torch.int32)
    same(t, expected)
    t = torch.full((5,), float(rank))
    dist.all_reduce(t, dist.ReduceOp.AVG)
    same(t, torch.full((5,), (size - 1) / 2))
    t = torch.ones(5)
    dist.all_reduce(t, dist._make_nccl_premul_sum(0.5))
    same(t, torch.full((5,), size / 2))
    t = torch.tensor([rank == 0, False, True])
    dist.all_reduce(t)
    same(t, torch.tensor([True, False, True]))
    for shape in ((0,), (3, 0, 2), ()):
        t = torch.ones(shape)
        dist.all_reduce(t)
        same(t, torch.ones(shape) * size, shape)
    leaf = torch.nn.Parameter(torch.ones(3, 2).t())
    with torch.no_grad():
        dist.all_reduce(leaf)
    same(leaf.detach(), torch.full((2, 3), float(size)))


def moves(rank, size):
    for dtype in ALL:
        inputs = [data(r, dtype=dtype) for r in range(size)]
        mine = inputs[rank]
        for root in range(size):
            for t in ways(mine):
                dist.broadcast(t, root)
                same(t, inputs[root], dtype)
        for t in ways(mine):
            outputs = [torch.zeros_like(mine) for _ in range(size)]
            dist.all_gather(outputs, t)
            for got, expected in zip(outputs, inputs):
                same(got, expected, dtype)
        flat = torch.zeros(3 * size, 4).to(dtype)
        dist.all_gather_into_tensor(flat, mine)
        same(flat, torch.cat(inputs), dtype)
        parts = list(torch.zeros(3 * size, 4).to(dtype).chunk(size))  # neighbours in memory
        dist.all_gather(parts, mine)
        for got, expected in zip(parts, inputs):
            same(got, expected, dtype)
        root = size - 1
        outputs = [torch.zeros_like(mine) for _ in range(size)]
        dist.gather(mine, outputs if rank == root else None, root)
        if rank == root:
            for got, expected in zip(outputs, inputs):
                same(got, expected, dtype)
        out = torch.zeros_like(mine)
        dist.scatter(out, inputs if rank == root else None, root)
        same(out, mine, dtype)
        out = torch.zeros(size, 4).to(dtype)
        dist.all_to_all_single(out, torch.cat([data(rank, (1, 4), dtype, seed=r) for r in range(size)]))
        same(out, torch.cat([data(r, (1, 4), dtype, seed=rank) for r in range(size)]), dtype)


def uneven(rank, size):
    outputs = [torch.zeros(r) for r in range(size)]
    dist.all_gather(outputs, torch.full((rank,), float(rank)))
    for r, t in enumerate(outputs):
        same(t, torch.full((r,), float(r)))
    # Rank a sends a + b rows to rank b.
    sends, receives = [rank + r for r in range(size)], [r + rank for r in range(size)]
    out = torch.zeros(sum(receives), 2)
    dist.all_to_all_single(out, torch.full((sum(sends), 2), float(rank)), receives, sends)
    same(out, torch.cat([torch.full((n, 2), float(r)) for r, n in enumerate(receives)]))
    outs = [torch.zeros(n, 2) for n in receives]
    dist.all_to_all(outs, [torch.full((n, 2), float(rank)) for n in sends])
    for r, t in enumerate(outs):
        same(t, torch.full((r + rank, 2), float(r)))
    out = torch.zeros(rank + 1)
    dist.reduce_scatter(out, [torch.full((r + 1,), float(rank)) for r in range(size)])
    same(out, torch.full((rank + 1,), float(sum(range(size)))))


def reductions(rank, size):
    for dtype in FLOATS + INTEGERS:
        inputs = [data(r, (size, 4), dtype) for r in range(size)]
        total = sum(inputs[1:], inputs[0]).to(dtype)
        for t in ways(inputs[rank]):
            dist.reduce(t, 0)
            if rank == 0:
                same(t, total, dtype)
        out = torch.zeros(4, dtype=dtype)
        dist.reduce_scatter(out, list(inputs[rank].unbind(0)))
        same(out, total[rank], dtype)
        out = torch.zeros(4, dtype=dtype)
        dist.reduce_scatter_tensor(out, inputs[rank].reshape(-1))
        same(out, total[rank], dtype)


def coalesced(rank, size):
    tensors = [data(rank, (n,)) for n in (5, 0, 1000, 3)]
    with dist._coalescing_manager():
        for t in tensors:
            dist.all_reduce(t)
    for t, n in zip(tensors, (5, 0, 1000, 3)):
        same(t, sum(data(r, (n,)) for r in range(size)))
    outs, inputs = [torch.zeros(4 * size), torch.zeros(2 * size)], [torch.full((4,), float(rank)), torch.full((2,), 2.0 * rank)]
    with dist._coalescing_manager(async_ops=True) as manager:
        for out, t in zip(outs, inputs):
            dist.all_gather_into_tensor(out, t)
    manager.wait()
    same(outs[0], torch.arange(size).repeat_interleave(4).float())
    same(outs[1], 2 * torch.arange(size).repeat_interleave(2).float())
    outs = [torch.zeros(1), torch.zeros(3)]
    with dist._coalescing_manager():
        for out in outs:
            dist.reduce_scatter_tensor(out, torch.arange(size).repeat_interleave(out.numel()).float())
    for out in outs:
        same(out, torch.full_like(out, float(rank * size)))
    outs = [[torch.zeros(2), torch.zeros(3)] for _ in range(size)]
    dist.group.WORLD.allgather_coalesced(outs, [torch.full((2,), float(rank)), torch.full((3,), rank + 0.5)]).wait()
    for r, (two, three) in enumerate(outs):
        same(two, torch.full((2,), float(r)))
        same(three, torch.full((3,), r + 0.5))


def objects(rank, size):
    mine = {"rank": rank, "text": "x" * (1 + 1000 * rank)}
    everybody = [None] * size
    dist.all_gather_object(everybody, mine)
    assert [o["rank"] for o in everybody] == list(range(size)) and everybody[rank] == mine
    listed = [mine, rank] if rank == 0 else [None, None]
    dist.broadcast_object_list(listed, 0)
    assert listed == [{"rank": 0, "text": "x"}, 0]
    gathered = [None] * size if rank == 0 else None
    dist.gather_object(mine, gathered, 0)
    assert rank or [o["rank"] for o in gathered] == list(range(size))
    got = [None]
    dist.scatter_object_list(got, [f"for {r}" for r in range(size)] if rank == 0 else None, 0)
    assert got == [f"for {rank}"]
    if size > 1 and rank < 2:
        if rank == 0:
            dist.send_object_list([mine], 1)
        else:
            got = [None]
            dist.recv_object_list(got, 0)
            assert got[0]["rank"] == 0


def functional_collectives(rank, size):
    group = dist.group.WORLD
    t = torch.full((size, 2), float(rank))
    total = float(sum(range(size)))
    same(functional.all_reduce(t, "sum", group) + 0, torch.full((size, 2), total))
    for r in functional.all_reduce_coalesced([t, t + 1], "sum", group):
        assert r.shape == t.shape
    same(functional.all_gather_tensor(t, 0, group) + 0, torch.arange(size).repeat_interleave(size * 2).view(-1, 2).float())
    same(functional.reduce_scatter_tensor(t, "sum", 0, group) + 0, torch.full((1, 2), total))
    same(functional.reduce_scatter_tensor_coalesced([t, t], "avg", [0, 0], group)[1] + 0, torch.full((1, 2), total / size))
    same(functional.all_to_all_single(t, [1] * size, [1] * size, group) + 0, torch.arange(size).float().repeat_interleave(2).view(-1, 2))
    same(functional.broadcast(t, 0, group) + 0, torch.zeros(size, 2))


def sparse(rank, size):
    def of(r):
        return torch.sparse_coo_tensor([[r, r + 1, r]], torch.ones(3, 2) * (r + 1), (size + 2, 2))
    t = of(rank)
    dist.all_reduce(t)
    same(t.to_dense(), sum(of(r).to_dense() for r in range(size)))
    t = of(0) if rank == 0 else torch.sparse_coo_tensor(torch.zeros(1, 0, dtype=torch.int64), torch.zeros(0, 2), (size + 2, 2))
    dist.all_reduce(t)
    same(t.to_dense(), of(0).to_dense())
    wrong = torch.sparse_coo_tensor([[0]], [1.0], (3 + rank,))
    return ranks.error_of(lambda: dist.all_reduce(wrong)) if size > 1 else "mismatch"


def asynchronous(rank, size):
    tensors = [torch.full((n,), float(rank)) for n in (1, 1000, 300_000) for _ in range(10)]
    works = [dist.all_reduce(t, async_op=True) for t in tensors]
    blocking = torch.ones(7)
    dist.all_reduce(blocking)  # behind those outstanding
    same(blocking, torch.full((7,), float(size)))
    for work in reversed(works):
        assert work.wait() and work.is_completed() and work.is_success()
    for t in tensors:
        same(t, torch.full_like(t, float(sum(range(size)))))
    told = []
    work = dist.all_reduce(torch.ones(300_000), async_op=True)
    chained = work.get_future().then(lambda f: (told.append(f.value()[0][0].item()), f.value()[0] * 2)[1])
    assert chained.wait()[0].item() == 2 * size and told == [size]
    # Callbacks that wait for another collective, several at a time; each in a group of its own, for their order is open.
    def nested(group):
        return lambda future: dist.all_reduce(future.value()[0], group=group, async_op=True).get_future().then(
            lambda f: f.value()[0]).wait()
    groups = [dist.new_group() for _ in range(3)]
    futures = [dist.all_reduce(torch.ones(1000), async_op=True).get_future().then(nested(g)) for g in groups]
    for f in futures:
        assert f.wait()[0].item() == size * size
    # Nobody waits: it completes by itself.
    work = dist.all_reduce(torch.ones(5), async_op=True)
    while not work.is_completed():
        pass
    dist.barrier()
    dist.barrier(async_op=True).wait()
    hocket_torch = __import__("hocket.torch").torch
    hocket_torch.monitored_barrier()


class TorchCollectives(launch.Case):
    def check(self, body, sizes=(2, 3)):
        for size in sizes:
            ranks.run(size, body)

    def test_all_reduce(self):
        self.check(all_reduce, (1, 2, 3))

    def test_moves(self):
        self.check(moves)

    def test_uneven(self):
        self.check(uneven)

    def test_reductions(self):
        self.check(reductions)

    def test_coalesced(self):
        self.check(coalesced)

    def test_objects(self):
        self.check(objects)

    def test_functional(self):
        self.check(functional_collectives)

    def test_sparse(self):
        for text in ranks.run(2, sparse):
            self.assertIn("mismatch", text)
            self.assertIn("[4]", text)

    def test_asynchronous(self):
        self.check(asynchronous)


if __name__ == "__main__":
    launch.main()
