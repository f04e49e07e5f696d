"""torchrun --standalone --nproc-per-node 2 torch_all_reduce.py"""

import torch
import torch.distributed as dist

import hocket.torch

dist.init_process_group("hocket")
rank, size = dist.get_rank(), dist.get_world_size()

gradient = torch.full((1000,), float(rank))
dist.all_reduce(gradient)
print(f"rank {rank} of {size}: {gradient[0].item()}")

dist.destroy_process_group()
