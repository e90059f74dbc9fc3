"""Handwritten digits with DistributedDataParallel, for any launcher that speaks torchrun's environment.

The number of processes may change while the job runs: every process is then started again with another WORLD_SIZE, and
the training goes on from the last checkpoint, at the very sample where that checkpoint was taken. `--batch` is the size
of the batch of all processes together, so the result does not depend on how many there were.
"""

import argparse
import gzip
import os
import struct
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

SIDE = 28  # pixels


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with MNIST's IDX files, .gz or not; drawn digits without it")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch", type=int, default=96, help="samples per step, of all processes together")
    parser.add_argument("--steps", type=int, help="end after this many steps, however many epochs that is")
    parser.add_argument("--checkpoint", type=Path, default=Path("checkpoint.pt"), help="file on a disk all nodes share")
    parser.add_argument("--checkpoint-every", type=int, default=20, metavar="STEPS")
    parser.add_argument("--log-every", type=int, default=10, metavar="STEPS")
    parser.add_argument("--sleep", type=float, default=0.0, help="seconds to wait in each step, to watch it work")
    return parser.parse_args()


# --- data -------------------------------------------------------------------------------------------------------------


def read_idx(folder, name):
    """One IDX file as a tensor of bytes: two zero bytes, type, number of dimensions, the dimensions, the data."""
    plain = folder / name
    raw = plain.read_bytes() if plain.exists() else gzip.decompress((folder / f"{name}.gz").read_bytes())
    zeros, kind, dimensions = struct.unpack(">HBB", raw[:4])
    if zeros != 0 or kind != 8:
        raise ValueError(f"{plain} is no IDX file of bytes")
    shape = struct.unpack(f">{dimensions}I", raw[4 : 4 + 4 * dimensions])
    return torch.frombuffer(bytearray(raw[4 + 4 * dimensions :]), dtype=torch.uint8).reshape(shape)


# Which bars of a seven-segment display make each digit, and where the bars are: (rows, columns).
BARS = {
    "top": (slice(4, 7), slice(8, 20)),
    "middle": (slice(13, 16), slice(8, 20)),
    "bottom": (slice(22, 25), slice(8, 20)),
    "upper left": (slice(4, 16), slice(8, 11)),
    "upper right": (slice(4, 16), slice(17, 20)),
    "lower left": (slice(13, 25), slice(8, 11)),
    "lower right": (slice(13, 25), slice(17, 20)),
}
LEFT_OUT = [
    ["middle"],
    ["top", "middle", "bottom", "upper left", "lower left"],
    ["upper left", "lower right"],
    ["upper left", "lower left"],
    ["top", "bottom", "lower left"],
    ["upper right", "lower left"],
    ["upper right"],
    ["middle", "bottom", "upper left", "lower left"],
    [],
    ["lower left"],
]


def draw_digits(count, seed):
    """Digits of our own, for when there are no files: shifted, noisy, and the same for everyone with the same seed."""
    shapes = torch.zeros(10, SIDE, SIDE)
    for digit, left_out in enumerate(LEFT_OUT):
        for bar, (rows, columns) in BARS.items():
            if bar not in left_out:
                shapes[digit, rows, columns] = 1.0
    random = torch.Generator().manual_seed(seed)
    labels = torch.randint(10, (count,), generator=random)
    shifts = torch.randint(-3, 4, (count, 2), generator=random).tolist()
    images = torch.stack([shapes[label].roll(shift, (0, 1)) for label, shift in zip(labels.tolist(), shifts)])
    images += 0.5 * torch.randn(images.shape, generator=random)
    return (images.clamp(0, 1) * 255).to(torch.uint8), labels


def load(folder, part, drawn_count):
    """Images as floats in rows, and their labels. `part` is `train` or `t10k`, as MNIST calls its files."""
    if folder is None:
        images, labels = draw_digits(drawn_count, seed=1 if part == "train" else 2)
    else:
        images, labels = (read_idx(folder, f"{part}-{name}") for name in ("images-idx3-ubyte", "labels-idx1-ubyte"))
    return images.reshape(len(images), -1).float() / 255, labels.long()


# --- progress that outlives a process ---------------------------------------------------------------------------------


def save(path, model, optimizer, progress):
    """Written beside the file and renamed, so that a crash at any moment leaves the old one or the new one, whole."""
    unfinished = path.with_name(path.name + ".unfinished")
    with open(unfinished, "wb") as file:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "progress": progress}, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(unfinished, path)


def restore(path, model, optimizer):
    """Goes on from the file if there is one. Every process reads it, and they must all have read the same."""
    # How far all processes together have come: `position` counts the samples of the epoch that are done.
    progress = {"epoch": 0, "position": 0, "step": 0}
    if path.exists():
        saved = torch.load(path, map_location="cpu")
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        progress = saved["progress"]
    device = next(model.parameters()).device
    first = torch.tensor(progress["step"], device=device)
    dist.broadcast(first, src=0)
    if first.item() != progress["step"]:
        raise SystemExit(
            f"{path} holds step {progress['step']} here and {first.item()} for rank 0; is it on a disk all nodes share?"
        )
    return progress


# --- training ---------------------------------------------------------------------------------------------------------


def epoch_order(count, epoch):
    """The samples in this epoch's order; every process makes the same one."""
    return torch.randperm(count, generator=torch.Generator().manual_seed(1000 + epoch))


@record  # An exception reaches torchrun, and with it the job's status, with its traceback.
def main():
    args = arguments()
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    dist.init_process_group("nccl" if cuda else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    restart = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")

    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(SIDE * SIDE, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10)).to(device)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    progress = restore(args.checkpoint, network, optimizer)
    model = DistributedDataParallel(network)
    images, labels = load(args.data, "train", drawn_count=6000)
    print(f"rank {rank}/{world} restart {restart} starts at step {progress['step']}", flush=True)

    def finished():
        return progress["epoch"] >= args.epochs or (args.steps is not None and progress["step"] >= args.steps)

    while not finished():
        order = epoch_order(len(images), progress["epoch"])
        while progress["position"] < len(order) and not finished():
            batch = order[progress["position"] : progress["position"] + args.batch]
            mine = batch[rank::world]  # may be empty at an epoch's end; the process still takes part in the sum
            output = model(images[mine].to(device))
            # DDP takes the mean over processes; this makes it the mean over the samples of the whole batch.
            loss = F.cross_entropy(output, labels[mine].to(device), reduction="sum") * world / len(batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

            progress["position"] += len(batch)
            progress["step"] += 1
            if rank == 0 and progress["step"] % args.checkpoint_every == 0:
                save(args.checkpoint, network, optimizer, progress)
            if progress["step"] % args.log_every == 0:
                where = " ".join(f"{name} {value}" for name, value in progress.items())
                print(f"rank {rank}/{world} restart {restart} {where} loss {loss.item():.4f}", flush=True)
            time.sleep(args.sleep)
        if progress["position"] >= len(order):
            progress.update(epoch=progress["epoch"] + 1, position=0)

    if rank == 0:
        save(args.checkpoint, network, optimizer, progress)
        images, labels = load(args.data, "t10k", drawn_count=1000)
        with torch.no_grad():
            right = (network(images.to(device)).argmax(1).cpu() == labels).float().mean().item()
        print(f"done after {progress['step']} steps: {100 * right:.1f} % of the test digits are right", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
