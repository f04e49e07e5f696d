"""What is wrong with a call, a rank or a job is an exception in Python that says so; the others do not hang."""

import datetime
import os

import torch
import torch.distributed as dist

import launch
import ranks


def arguments(rank, size):
    full = torch.ones(4)
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    cases = {
        # As the dispatcher hands them over; no machine of CI has a tensor of CUDA.
        "device": lambda: backend.allreduce([torch.ones(2, device="meta")]),
        "sparse": lambda: backend.broadcast([torch.ones(2).to_sparse()]),
        "bits": lambda: dist.all_reduce(full, dist.ReduceOp.BAND),
        "bool": lambda: dist.all_reduce(torch.ones(2, dtype=torch.bool), dist.ReduceOp.AVG),
        "size": lambda: dist.all_gather_into_tensor(torch.zeros(3), full),
        "dtype": lambda: dist.all_gather_into_tensor(torch.zeros(4 * size, dtype=torch.float64), full),
        "list": lambda: dist.group.WORLD.allgather([[full]], [full]).wait(),
        "split": lambda: dist.all_to_all_single(torch.zeros(4), full, [1] * size, [4] + [0] * (size - 1)),
        "tag": lambda: dist.send(full, (rank + 1) % size, tag=-1),
        "address": lambda: dist.group.WORLD._allgather_base(full, full[1:3]).wait(),
    }
    texts = {name: ranks.error_of(call) for name, call in cases.items()}
    dist.all_reduce(full)  # none of that has cost the group anything
    assert full.tolist() == [size] * 4
    return texts


def different(first, second):
    return lambda rank, size: ranks.error_of(lambda: (first if rank == 0 else second)(size))


def missing(rank, size):
    dist.barrier()
    store = dist.distributed_c10d._get_default_store()
    if rank == 2:
        store.wait(["given up on rank 0", "given up on rank 1"])
        return None
    begin = datetime.datetime.now()
    text = ranks.error_of(lambda: dist.group.WORLD.allreduce(
        [torch.ones(3)], _options(datetime.timedelta(seconds=1))).wait())
    store.set(f"given up on rank {rank}", "yes")
    assert (datetime.datetime.now() - begin).total_seconds() < 20
    return text


def _options(timeout):
    options = dist.AllreduceOptions()
    options.timeout = timeout
    return options


def late(rank, size):
    """wait() gives up; the operation does not."""
    if rank == 0:
        work = dist.irecv(t := torch.zeros(1), 1)
        text = ranks.error_of(lambda: work.wait(datetime.timedelta(milliseconds=200)))
        dist.barrier()
        work.wait()
        assert t.item() == 5
        return text
    dist.barrier()
    dist.send(torch.tensor([5.0]), 0)
    return None


def dies(rank, size):
    dist.all_reduce(torch.ones(1))
    if rank == 1:
        os._exit(3)
    return ranks.error_of(lambda: dist.all_reduce(torch.ones(1000)))


def raises(rank, size):
    """A rank that raises in Python and leaves ends the group of the others with its name."""
    dist.all_reduce(torch.ones(1))
    if rank == 1:
        dist.destroy_process_group()
        return None
    return ranks.error_of(lambda: dist.all_reduce(torch.ones(1000)))


def alone(rank, size, place):
    return ranks.error_of(lambda: dist.init_process_group(
        "hocket", init_method=f"file://{place}", rank=0, world_size=2, timeout=datetime.timedelta(seconds=2)))


def in_a_part(rank, size):
    part = dist.new_group([0, 2])
    if rank == 1:
        return None
    return ranks.error_of(lambda: dist.all_reduce(torch.ones(2 + rank), group=part))


class TorchErrors(launch.Case):
    def expect(self, text, *words):
        for word in words:
            self.assertIn(word, text)

    def test_arguments(self):
        for texts in ranks.run(2, arguments):
            self.expect(texts["device"], "RuntimeError", "all_reduce", "meta", "tensors of the CPU only", "cpu:hocket,cuda:nccl")
            self.expect(texts["sparse"], "broadcast", "Sparse", "must be dense")
            self.expect(texts["bits"], "DistBackendError", "integers and bool only")
            self.expect(texts["bool"], "the average of truth values is none")
            self.expect(texts["size"], "the output has 3 elements, must be 8")
            self.expect(texts["dtype"], "one tensor is of Double, another one of Float")
            self.expect(texts["list"], "the list of outputs has 1 elements, must be 2")
            self.expect(texts["split"], "the splits of the output add up to 2, not to its 4 rows")
            self.expect(texts["tag"], "tag is -1, must not be negative")
            self.expect(texts["address"], "overlap")

    def both(self, first, second, *words):
        for text in ranks.run(2, different(first, second)):
            self.expect(text, "DistBackendError: hocket: mismatch in", *words)

    def test_sizes_differ(self):
        self.both(lambda n: dist.all_reduce(torch.ones(3)), lambda n: dist.all_reduce(torch.ones(4)),
                  "all_reduce(count 3, float, sum)", "all_reduce(count 4, float, sum)")

    def test_types_differ(self):
        self.both(lambda n: dist.all_reduce(torch.ones(3)), lambda n: dist.all_reduce(torch.ones(3, dtype=torch.int32)),
                  "all_reduce(count 3, float, sum)", "all_reduce(count 3, int32, sum)")

    def test_calls_differ(self):
        self.both(lambda n: dist.all_reduce(torch.ones(3)), lambda n: dist.barrier(), "barrier", "all_reduce(count 3")

    def test_roots_differ(self):
        self.both(lambda n: (dist.broadcast(torch.ones(3), 0), dist.barrier()), lambda n: (dist.broadcast(torch.ones(3), 1), dist.barrier()),
                  "root 0", "root 1")

    def test_missing(self):
        text = ranks.run(3, missing, within=60)[0]
        self.expect(text, "DistBackendError: hocket: timeout in all_reduce on rank 0 of 3", "rank 2")

    def test_late(self):
        self.expect(ranks.run(2, late)[0], "wait() timed out after 200 ms; the operation itself goes on")

    def test_dies(self):
        with self.assertRaises(AssertionError) as seen:
            ranks.run(3, dies)
        self.assertEqual(str(seen.exception), "rank 1 of 3: it died: exit code 3")  # the others heard of it

    def test_raises(self):
        text = ranks.run(2, raises)[0]
        self.expect(text, "DistBackendError: hocket: another rank failed in all_reduce on rank 0 of 2", "rank 1")

    def test_alone(self):
        text = ranks.run(1, alone, init=False)[0]
        self.expect(text, "DistBackendError: hocket: timeout in init_process_group on rank 0 of 2", "rank 1")

    def test_in_a_part(self):
        for text in [t for t in ranks.run(3, in_a_part) if t]:
            self.expect(text, "of a group whose ranks are the global ranks 0, 2", "count 2", "count 4")


if __name__ == "__main__":
    launch.main()
