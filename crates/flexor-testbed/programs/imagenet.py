"""A stand-in for TorchElastic's imagenet example: its options, with a tiny model and drawn data in place of images.
Each node keeps a checkpoint of its own. After a restart all processes go on from the newest one among them.
"""

import argparse
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

parser = argparse.ArgumentParser()
parser.add_argument("--arch", default="resnet18")
parser.add_argument("--epochs", type=int, default=90)
parser.add_argument("--data", help="not read")
parser.add_argument("--checkpoint-file", type=Path, default=Path("/tmp/checkpoint.pth.tar"))
parser.add_argument("--epoch-seconds", type=float, default=1.0, help="an epoch takes at least this long")


def newest(path, model):
    """Loads the newest checkpoint of all processes everywhere, and returns the epoch to begin with."""
    saved = torch.load(path) if path.exists() else {"epoch": 0, "model": model.state_dict()}
    model.load_state_dict(saved["model"])
    epochs = [torch.zeros(1, dtype=torch.long) for _ in range(dist.get_world_size())]
    dist.all_gather(epochs, torch.tensor([saved["epoch"]]))
    source = max(range(len(epochs)), key=lambda rank: epochs[rank].item())
    for tensor in model.state_dict().values():
        dist.broadcast(tensor, src=source)
    return epochs[source].item()


@record
def main():
    args = parser.parse_args()
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)
    task, network = torch.eye(16, 10), torch.nn.Linear(16, 10)
    first = newest(args.checkpoint_file, network)
    print(f"rank {rank}/{world}: {args.arch} begins with epoch {first}", flush=True)
    model = torch.nn.parallel.DistributedDataParallel(network)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for epoch in range(first, args.epochs):
        images = torch.randn(512, 16)
        loss = torch.nn.functional.cross_entropy(model(images), (images @ task).argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(args.epoch_seconds)
        print(f"rank {rank}/{world}: epoch {epoch} loss {loss.item():.4f}", flush=True)
        if os.environ["LOCAL_RANK"] == "0":
            unfinished = args.checkpoint_file.with_suffix(".unfinished")
            torch.save({"epoch": epoch + 1, "model": network.state_dict()}, unfinished)
            unfinished.replace(args.checkpoint_file)
    dist.destroy_process_group()


main()
