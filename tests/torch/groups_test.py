"""Process groups: of some ranks, many at a time, made again, ended in any order, and beside other processes and threads."""

import datetime
import threading

import torch
import torch.distributed as dist

import hocket.torch
import launch
import ranks


def many(rank, size):
    groups = [dist.new_group([r, (r + 1) % size]) for r in range(size)] + [dist.new_group(list(range(size))) for _ in range(4)]
    for r, group in enumerate(groups[:size]):
        if rank in (r, (r + 1) % size):
            t = torch.tensor([float(rank)])
            dist.all_reduce(t, group=group)
            assert t.item() == r + (r + 1) % size
            dist.broadcast(t, max(r, (r + 1) % size), group=group)
    works = [dist.all_reduce(torch.ones(100), group=g, async_op=True) for g in groups[size:]]
    for w in reversed(works):
        w.wait()
    order = range(len(groups)) if rank % 2 else reversed(range(len(groups)))
    for i in order:  # another order on every other rank
        if groups[i] != dist.GroupMember.NON_GROUP_MEMBER:
            dist.destroy_process_group(groups[i])
    dist.all_reduce(torch.ones(1))


def again(rank, size, place):
    store = dist.FileStore(place, size)
    for round in range(4):
        # The same store and name each time, as under torchrun.
        dist.init_process_group("hocket", store=store, rank=rank, world_size=size, timeout=datetime.timedelta(seconds=30))
        t = torch.tensor([float(round)])
        dist.all_reduce(t)
        assert t.item() == size * round
        if round == 1:
            dist.all_reduce(torch.ones(200_000), async_op=True)  # nobody waits for it
        dist.destroy_process_group()


def mixed(rank, size, place):
    dist.init_process_group("cpu:hocket", init_method=f"file://{place}", rank=rank, world_size=size)
    dist.all_reduce(t := torch.ones(2))
    assert t.tolist() == [size, size]
    gloo = dist.new_group(backend="gloo")
    dist.all_reduce(t, group=gloo)
    assert dist.get_backend(gloo) == "gloo"


def after_shutdown(rank, size):
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    assert dist.get_backend() == "hocket" and backend.name() == "hocket"
    received = dist.irecv(torch.zeros(1), 1 - rank, tag=99)
    dist.barrier()
    dist.group.WORLD.shutdown()
    dist.group.WORLD.shutdown()
    return [ranks.error_of(lambda: dist.all_reduce(torch.ones(1))), ranks.error_of(received.wait)]


def aborted(rank, size):
    if rank == 1:
        dist.distributed_c10d._abort_process_group()
        return None
    return ranks.error_of(lambda: dist.all_reduce(torch.ones(10), async_op=True).wait())


def threads(rank, size):
    """Two groups at the same time from two threads, and two threads on one group."""
    other = dist.new_group()
    failures = []

    def loop(group):
        try:
            for i in range(200):
                dist.all_reduce(t := torch.full((100,), float(i)), group=group)
                assert t[0].item() == size * i
        except Exception as e:  # noqa: BLE001
            failures.append(e)

    def talk():
        try:
            for i in range(100):
                if rank == 0:
                    dist.send(torch.tensor([i]), 1, group=other)
                elif rank == 1:
                    dist.recv(t := torch.zeros(1, dtype=torch.int64), 0, group=other)
                    assert t.item() == i
        except Exception as e:  # noqa: BLE001
            failures.append(e)
    running = [threading.Thread(target=loop, args=(g,)) for g in (dist.group.WORLD, other)] + [threading.Thread(target=talk)]
    for t in running:
        t.start()
    for t in running:
        t.join()
    assert not failures, failures


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, i):
        return torch.tensor([float(i)])


def loaders(rank, size):
    dist.all_reduce(torch.ones(1))
    pending = dist.all_reduce(torch.ones(100_000), async_op=True)
    sampler = torch.utils.data.DistributedSampler(Numbers(), shuffle=False)
    total = torch.zeros(1)
    for _ in range(2):
        for batch in torch.utils.data.DataLoader(Numbers(), batch_size=2, sampler=sampler, num_workers=2):
            total += batch.sum()
            dist.all_reduce(torch.ones(10))
    pending.wait()
    dist.all_reduce(total)
    assert total.item() == 2 * sum(range(16))
    pid = ranks.os.fork()
    if pid == 0:
        text = ranks.error_of(lambda: dist.all_reduce(torch.ones(1)))
        ranks.os._exit(0 if "this process was forked" in text else 1)
    assert ranks.os.waitpid(pid, 0)[1] == 0
    dist.all_reduce(torch.ones(1))


def settings(rank, size, place):
    def init(name, options):
        dist.init_process_group("hocket", init_method=f"file://{place}{name}", rank=rank, world_size=size, pg_options=options,
                                timeout=datetime.timedelta(seconds=10))
    texts = [ranks.error_of(lambda: init("a", hocket.torch.Options(transport="pigeon"))),
             ranks.error_of(lambda: init("b", hocket.torch.Options(determinism=9))), ranks.error_of(lambda: init("c", "R2"))]
    init("d", hocket.torch.Options(transport="tcp", determinism=2))
    dist.all_reduce(t := torch.ones(300_000))
    assert t[-1].item() == size
    dist.all_reduce(t, group=dist.new_group(pg_options=hocket.torch.Options(determinism=4)))
    assert t[0].item() == size * size
    return texts


class TorchGroups(launch.Case):
    def test_many(self):
        ranks.run(3, many)

    def test_again(self):
        ranks.run(2, again, init=False)

    def test_settings(self):
        for transport, determinism, other in ranks.run(2, settings, init=False):
            self.assertIn("pigeon", transport)
            self.assertIn("determinism is 9, must be 1 to 4", determinism)
            self.assertIn("TypeError: pg_options of the back end hocket must be hocket.torch.Options, not str", other)

    def test_mixed(self):
        ranks.run(2, mixed, init=False)

    def test_after_shutdown(self):
        for call, receive in ranks.run(2, after_shutdown):
            self.assertIn("the process group has been shut down", call)
            self.assertIn("hocket: aborted in recv on rank", receive)

    def test_aborted(self):
        self.assertIn("hocket: aborted in all_reduce on rank 0 of 2: ", ranks.run(2, aborted)[0])

    def test_threads(self):
        ranks.run(2, threads)

    def test_loaders(self):
        ranks.run(2, loaders)


if __name__ == "__main__":
    launch.main()
