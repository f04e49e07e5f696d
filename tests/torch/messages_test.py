"""Point-to-point messages: tags, any source, groups of them, and what does not fit."""

import torch
import torch.distributed as dist

import launch
import ranks


def ring(rank, size):
    after, before = (rank + 1) % size, (rank - 1) % size
    for elements in (0, 1, 1000, 3_000_000):
        out, into = torch.full((elements,), float(rank)), torch.zeros(elements)
        works = [dist.isend(out, after), dist.irecv(into, before)]
        for w in works:
            w.wait()
        assert torch.equal(into, torch.full((elements,), float(before)))
    into = torch.zeros(4, 6).t()
    works = dist.batch_isend_irecv([dist.P2POp(dist.irecv, into, before), dist.P2POp(dist.isend, torch.arange(24.0).view(6, 4), after)])
    for w in works:
        w.wait()
    assert torch.equal(into, torch.arange(24.0).view(6, 4))


def tags(rank, size):
    if rank == 0:
        for tag in range(10):
            dist.send(torch.tensor([tag], dtype=torch.bfloat16), 1, tag=tag)
    elif rank == 1:
        for tag in reversed(range(10)):
            t = torch.zeros(1, dtype=torch.bfloat16)
            assert dist.recv(t, 0, tag=tag) == 0 and t.item() == tag


def any_source(rank, size):
    if rank == 0:
        seen = []
        for _ in range(2 * (size - 1)):
            t = torch.zeros(50_000)
            source = dist.recv(t)
            assert torch.equal(t, torch.full((50_000,), float(source))), source
            seen.append(source)
        assert sorted(seen) == sorted(2 * list(range(1, size))), seen
        t = torch.zeros(3)
        work = dist.irecv(t, tag=7)
        dist.all_reduce(torch.ones(1))  # collectives go on beside it
        work.wait()
        return work._source_rank()
    dist.send(torch.full((50_000,), float(rank)), 0)
    dist.isend(torch.full((50_000,), float(rank)), 0).wait()
    dist.all_reduce(torch.ones(1))
    if rank == size - 1:
        dist.send(torch.ones(3), 0, tag=7)
    return None


def order_with_collectives(rank, size):
    """A message that is received before the collective that its sender has not come to."""
    if rank == 0:
        work = dist.irecv(t := torch.zeros(2), 1)
        dist.barrier()
        work.wait()
        assert t.tolist() == [3, 4]
    elif rank == 1:
        dist.send(torch.tensor([3.0, 4.0]), 0)
        dist.barrier()
    else:
        dist.barrier()


def wrong_length(rank, size):
    if rank == 0:
        dist.send(torch.ones(3), 1)
        dist.send(torch.ones(9), 1)
        dist.send(torch.ones(5, dtype=torch.int32), 1)
        return None
    return [ranks.error_of(lambda: dist.recv(torch.zeros(5), 0)) for _ in range(3)]


class TorchMessages(launch.Case):
    def test_ring(self):
        for size in (2, 3):
            ranks.run(size, ring)

    def test_tags(self):
        ranks.run(2, tags)

    def test_any_source(self):
        self.assertEqual(ranks.run(3, any_source), [2, None, None])

    def test_order_with_collectives(self):
        ranks.run(3, order_with_collectives)

    def test_wrong_length(self):
        shorter, longer, other = ranks.run(2, wrong_length)[1]
        self.assertIn("rank 0 of 2 has sent 3 elements, the tensor has 5", shorter)
        self.assertIn("rank 0 has sent 9 elements, more than the 5 there is room for", longer)
        self.assertIn("rank 0 has sent int32 there, not float", other)


if __name__ == "__main__":
    launch.main()
