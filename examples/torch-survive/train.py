"""Training that outlives changes of its world: who is left goes on in the same process, newcomers get the model from rank 0.

Run it under `flexor launch`. A killed worker costs the others the step they were in; nobody else is started again. The
batches depend on the step alone, so the loss is that of an undisturbed run.
"""

import argparse
import json
import os
import select
import socket
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel


class Worlds:
    """The socket of the launcher: says when to leave a world, and what the next one is."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(os.environ["FLEXOR_WORLD_SOCKET"])
        self.lines = self.socket.makefile("r")
        self.say({"worker": os.environ["FLEXOR_WORKER"]})

    def say(self, message):
        self.socket.sendall(json.dumps(message).encode() + b"\n")

    def next(self):
        """Leaves the world, if there is one, and waits for the next."""
        self.say({"ready": True})
        for line in self.lines:
            message = json.loads(line)
            if "world" in message:
                return message["world"]
        raise SystemExit("the launcher is gone")

    def shall_meet(self):
        """Whether the launcher has asked to leave the world. Nothing else is said while it stands."""
        return bool(select.select([self.socket], [], [], 0)[0])


def enter(world):
    """Makes the process group of a world; its store has keys of its own."""
    # Where somebody goes on, everybody is ready: who does not come within the launcher's 20 s is not coming. A first
    # world waits for the slowest start.
    timeout = timedelta(seconds=15 if world["survivors"] else 60)
    store = dist.TCPStore(
        world["masterAddr"], world["masterPort"], is_master=False, wait_for_workers=False, timeout=timeout
    )
    dist.init_process_group(
        "gloo", store=store, rank=world["rank"], world_size=world["worldSize"], timeout=timeout
    )


def share(network, optimizer, step, world):
    """Everybody takes over what rank 0 knows, who was there before if anybody was."""
    if not world["survivors"]:
        return step
    for tensor in network.state_dict().values():
        dist.broadcast(tensor, src=0)
    for parameter in network.parameters():
        state = optimizer.state[parameter]
        if state.get("momentum_buffer") is None:
            state["momentum_buffer"] = torch.zeros_like(parameter)
        dist.broadcast(state["momentum_buffer"], src=0)
    done = torch.tensor(step)
    dist.broadcast(done, src=0)
    return done.item()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=96, help="samples per step, of all processes together")
    parser.add_argument("--sleep", type=float, default=0.0, help="seconds to wait in each step, to watch it work")
    parser.add_argument("--log", help="file for a line of JSON per step: time, step, loss, rank, world, process")
    args = parser.parse_args()

    torch.manual_seed(0)
    samples = torch.randn(6000, 32)
    labels = (samples @ torch.randn(32, 10)).argmax(1)
    network = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    step, worlds = 0, Worlds()
    log = open(args.log, "a", buffering=1) if args.log else None

    while step < args.steps:
        world = worlds.next()
        rank, size = world["rank"], world["worldSize"]
        try:
            enter(world)
            step = share(network, optimizer, step, world)
            model = DistributedDataParallel(network)
            worlds.say({"joined": world["round"]})
            print(f"rank {rank}/{size} of round {world['round']} goes on from step {step}", flush=True)
            while step < args.steps and not worlds.shall_meet():
                batch = torch.randint(len(samples), (args.batch,), generator=torch.Generator().manual_seed(step))
                mine = batch[rank::size]
                # DDP takes the mean over processes; this makes it the mean over the samples of the whole batch.
                loss = F.cross_entropy(model(samples[mine]), labels[mine], reduction="sum") * size / len(batch)
                optimizer.zero_grad()
                loss.backward()
                total = loss.detach() / size
                dist.all_reduce(total)
                optimizer.step()
                step += 1
                if log:
                    entry = {"t": time.time(), "step": step, "loss": total.item(), "rank": rank, "world": size}
                    log.write(json.dumps(entry | {"pid": os.getpid()}) + "\n")
                time.sleep(args.sleep)
        except (RuntimeError, dist.DistError) as error:
            print(f"rank {rank}/{size} lost its peers in step {step + 1}: {str(error).splitlines()[0]}", flush=True)
        # They hold on to the process group: without this it would stay, its connections open, and a peer that waits for
        # this process would not notice that it has left.
        model = loss = total = None
        if dist.is_initialized():
            dist.destroy_process_group()
    print(f"rank {rank}/{size}: done after {step} steps", flush=True)


if __name__ == "__main__":
    main()
