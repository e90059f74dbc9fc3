"""Handwritten digits with DistributedDataParallel, for any launcher that speaks torchrun's environment.

The number of processes may change while the job runs: every process is then started again with another WORLD_SIZE, and
the training goes on from the last checkpoint, at the very sample where that checkpoint was taken. `--batch` is the size
of the batch of all processes together, so the result does not depend on how many there were.

With `--shards`, under `flexor launch`, the job's master says which samples come next and keeps the books: at the end
every one of them is accounted for, whatever was killed meanwhile.
"""

import argparse
import gzip
import http.client
import json
import os
import struct
import time
import urllib.error
import urllib.parse
import urllib.request
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
    parser.add_argument("--shards", action="store_true", help="lease the data from the job's master (FLEXOR_MASTER)")
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


# --- which samples come next ------------------------------------------------------------------------------------------


class OwnOrder:
    """Every process makes the same order by itself. Where it stands in it is part of the progress."""

    def __init__(self, count, epochs):
        self.count, self.epochs = count, epochs
        self.epoch, self.order = None, None

    def restore(self, progress, saved):
        if saved is not None:
            raise SystemExit("the checkpoint was made with --shards; go on with it, or name another --checkpoint")

    def next(self, progress, size):
        """The samples of the next batch of all processes together; none when there is nothing left to do."""
        if progress["position"] >= self.count:
            progress.update(epoch=progress["epoch"] + 1, position=0)
        if progress["epoch"] >= self.epochs:
            return None
        if self.epoch != progress["epoch"]:
            self.epoch = progress["epoch"]
            self.order = torch.randperm(self.count, generator=torch.Generator().manual_seed(1000 + self.epoch))
        return self.order[progress["position"] : progress["position"] + size]

    def done(self):
        """The model has learnt from the batch."""

    def position(self):
        """What a checkpoint has to hold beside the progress."""

    def report(self):
        """What became of the data."""


class Shards:
    """The job's master says which samples come next. Rank 0 speaks with it for all processes."""

    def __init__(self, count, epochs, size, device):
        if "FLEXOR_MASTER" not in os.environ:
            raise SystemExit("--shards needs a master: start this with `flexor launch`, which sets FLEXOR_MASTER")
        self.who = {"worker": os.environ["FLEXOR_WORKER"], "incarnation": int(os.environ["FLEXOR_INCARNATION"])}
        self.headers = {"Content-Type": "application/json"}
        if "FLEXOR_TOKEN_FILE" in os.environ:
            self.headers["Authorization"] = f"Bearer {Path(os.environ['FLEXOR_TOKEN_FILE']).read_text().strip()}"
        # A master on the job's own network is asked directly, whatever the machine's proxy is.
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self.device, self.lease = device, None
        if dist.get_rank() == 0:
            dataset = {"name": "digits", "records": count, "batch": size, "epochs": epochs, "shuffle": "records"}
            self.found = self.call("datasets", dataset)

    def call(self, path, body=None):
        """Asks the master, again and again while it is away: nothing that is said to it counts twice."""
        url = f"http://{os.environ['FLEXOR_MASTER']}/api/{path}"
        data = None if body is None else json.dumps(body).encode()
        for _ in range(600):
            try:
                request = urllib.request.Request(url, data, self.headers)
                return json.load(self.opener.open(request, timeout=60))
            except urllib.error.HTTPError as refused:
                if refused.code != 503:
                    raise RuntimeError(f"{path}: {refused.read().decode()}") from refused
            except (OSError, http.client.HTTPException):
                pass
            time.sleep(0.5)
        raise RuntimeError(f"{url} does not answer")

    def restore(self, progress, saved):
        """Brings the data to where it stood when the model was saved, before anything is leased."""
        if saved is None and progress["step"] > 0:
            raise SystemExit("the checkpoint was made without --shards; name another --checkpoint")
        if dist.get_rank() != 0:
            return
        if saved is not None:
            rewound = self.call("restore", {"position": saved})["rewound"]
            print(f"the data is back where the checkpoint was written: {rewound} samples will come again", flush=True)
        elif self.found["totals"]["accounted"] > 0:
            raise SystemExit(
                "the master has data that a model has learnt from, and there is no checkpoint of that model; "
                "name its --checkpoint, or start a master with another --state to begin anew"
            )

    def next(self, progress, size):
        """As OwnOrder's: rank 0 leases a batch and tells everybody."""
        told = torch.zeros(2 + size, dtype=torch.int64)  # how many samples, of which epoch, and these
        if dist.get_rank() == 0:
            answer = {"wait": "not asked yet"}
            while "wait" in answer:
                answer = self.call("datasets/digits/lease", {**self.who, "holds": [], "waitMs": 5000})
            for batch in answer.get("batches", []):  # one, or none when there is nothing left
                self.lease = {"lease": answer["lease"], "first": batch["batch"]}
                samples = batch["records"]
                told[: 2 + len(samples)] = torch.tensor([len(samples), answer["epoch"], *samples])
        told = told.to(self.device)
        dist.broadcast(told, src=0)
        count, epoch, *samples = told.tolist()
        if count == 0:
            return None
        if epoch != progress["epoch"]:
            progress.update(epoch=epoch, position=0)
        return torch.tensor(samples[:count])

    def done(self):
        # Refused means that the master has given the batch to be learnt again: this model must not go on.
        self.call("datasets/digits/acknowledge", {**self.who, **self.lease})

    def position(self):
        return self.call("position")["position"]

    def report(self):
        totals = self.call("datasets/digits")["totals"]
        names = ["expected", "accounted", "quarantined", "outstanding", "rewound", "repeatedAtMost"]
        print("samples: " + " ".join(f"{name} {totals[name]}" for name in names), flush=True)


# --- progress that outlives a process ---------------------------------------------------------------------------------


def save(path, model, optimizer, progress, data):
    """Written beside the file and renamed, so that a crash at any moment leaves the old one or the new one, whole."""
    unfinished = path.with_name(path.name + ".unfinished")
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "progress": progress}
    with open(unfinished, "wb") as file:
        torch.save({**state, "data": data.position()}, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(unfinished, path)


def restore(path, model, optimizer, data):
    """Goes on from the file if there is one. Every process reads it, and they must all have read the same."""
    # How far all processes together have come: `position` counts the samples of the epoch that are done.
    progress, position = {"epoch": 0, "position": 0, "step": 0}, None
    if path.exists():
        saved = torch.load(path, map_location="cpu")
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        progress, position = saved["progress"], saved.get("data")
    device = next(model.parameters()).device
    first = torch.tensor(progress["step"], device=device)
    dist.broadcast(first, src=0)
    if first.item() != progress["step"]:
        raise SystemExit(
            f"{path} holds step {progress['step']} here and {first.item()} for rank 0; is it on a disk all nodes share?"
        )
    data.restore(progress, position)
    return progress


# --- training ---------------------------------------------------------------------------------------------------------


def tell_step(step):
    """Tells the job's master how far training is, where there is one: `flexor run` shows steps a second."""
    if "FLEXOR_MASTER" not in os.environ:
        return
    node = os.environ.get("POD_NAME") or os.environ.get("FLEXOR_WORKER", "rank-0")
    url = f"http://{os.environ['FLEXOR_MASTER']}/api/nodes/{urllib.parse.quote(node, safe='')}/metrics"
    headers = {"Content-Type": "application/json"}
    if "FLEXOR_TOKEN_FILE" in os.environ:
        headers["Authorization"] = f"Bearer {Path(os.environ['FLEXOR_TOKEN_FILE']).read_text().strip()}"
    request = urllib.request.Request(url, json.dumps({"step": step}).encode(), headers)
    try:
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=1).close()
    except OSError:
        pass  # it is away for a moment; training does not depend on it


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
    images, labels = load(args.data, "train", drawn_count=6000)
    if args.shards:
        data = Shards(len(images), args.epochs, args.batch, device)
    else:
        data = OwnOrder(len(images), args.epochs)
    progress = restore(args.checkpoint, network, optimizer, data)
    first_step = progress["step"]
    if args.shards and rank == 0 and not args.checkpoint.exists():
        # Whoever is killed before the next checkpoint has a model that knows nothing, and data to fit it.
        save(args.checkpoint, network, optimizer, progress, data)
    model = DistributedDataParallel(network)
    print(f"rank {rank}/{world} restart {restart} starts at step {first_step}", flush=True)

    while args.steps is None or progress["step"] < args.steps:
        batch = data.next(progress, args.batch)
        if batch is None:
            break
        mine = batch[rank::world]  # may be empty at an epoch's end; the process still takes part in the sum
        output = model(images[mine].to(device))
        # DDP takes the mean over processes; this makes it the mean over the samples of the whole batch.
        loss = F.cross_entropy(output, labels[mine].to(device), reduction="sum") * world / len(batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

        progress["position"] += len(batch)
        progress["step"] += 1
        if rank == 0:
            data.done()
            if progress["step"] % args.checkpoint_every == 0:
                save(args.checkpoint, network, optimizer, progress, data)
        if progress["step"] % args.log_every == 0:
            where = " ".join(f"{name} {value}" for name, value in progress.items())
            print(f"rank {rank}/{world} restart {restart} {where} loss {loss.item():.4f}", flush=True)
            if rank == 0:
                tell_step(progress["step"])
        time.sleep(args.sleep)

    if rank == 0:
        if progress["step"] == first_step:
            anew = "name another --checkpoint, or remove it" + (", and give the master another --state" * args.shards)
            print(f"{args.checkpoint} is of a finished run: nothing was left to do. To begin anew {anew}", flush=True)
        save(args.checkpoint, network, optimizer, progress, data)
        images, labels = load(args.data, "t10k", drawn_count=1000)
        with torch.no_grad():
            right = (network(images.to(device)).argmax(1).cpu() == labels).float().mean().item()
        print(f"done after {progress['step']} steps: {100 * right:.1f} % of the test digits are right", flush=True)
        data.report()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
