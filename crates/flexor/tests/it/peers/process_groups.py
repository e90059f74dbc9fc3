"""Forms a process group by an init method, and on request an RPC group on the same store; exits with 0 if both work.

Usage: process_groups.py INIT_METHOD [rpc]
"""

import os
import sys

import torch
import torch.distributed as dist
from torch.distributed import rpc


def doubled(number):
    return 2 * number


def main():
    init_method, with_rpc = sys.argv[1], sys.argv[2:] == ["rpc"]
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", init_method=init_method, rank=rank, world_size=size)
    ranks = torch.tensor([rank])
    dist.all_reduce(ranks)
    assert ranks.item() == sum(range(size)), ranks
    if with_rpc:
        # Without a world size, members join one after the other, under a lock that is a compare-and-set.
        rpc.init_rpc(f"worker{rank}", rank=rank)
        dist.barrier()
        answer = rpc.rpc_sync(f"worker{(rank + 1) % size}", doubled, args=(rank,))
        assert answer == 2 * rank, answer
        dist.barrier()
        rpc.shutdown()
    dist.barrier()
    # One write: an unbuffered print() writes its newline apart, behind whatever the other rank prints meanwhile.
    os.write(sys.stdout.fileno(), f"rank {rank} of {size}: {init_method} works\n".encode())
    dist.destroy_process_group()


main()
