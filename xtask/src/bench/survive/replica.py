"""The training of examples/torch-survive as a replica group of torchft: one process, which continues when others die.

Usage: replica.py NUMBER LOG SLEEP   Makes steps for ever and writes a line of JSON for each, as the example does.
"""

import json
import os
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torchft import DistributedDataParallel, Manager, Optimizer, ProcessGroupGloo

BATCH = 96


def main():
    number, log, sleep = int(sys.argv[1]), open(sys.argv[2], "a", buffering=1), float(sys.argv[3])
    torch.manual_seed(0)
    samples = torch.randn(6000, 32)
    labels = (samples @ torch.randn(32, 10)).argmax(1)
    network = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    inner = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)

    def load(state):
        network.load_state_dict(state["network"])
        inner.load_state_dict(state["optimizer"])

    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    manager = Manager(
        pg=ProcessGroupGloo(timeout=timedelta(seconds=30)),
        min_replica_size=2,
        load_state_dict=load,
        state_dict=lambda: {"network": network.state_dict(), "optimizer": inner.state_dict()},
        replica_id=f"replica-{number}",
        store_addr="127.0.0.1",
        store_port=store.port,
        rank=0,
        world_size=1,
    )
    model, optimizer = DistributedDataParallel(manager, network), Optimizer(manager, inner)
    while True:
        step = manager.current_step()
        batch = torch.randint(len(samples), (BATCH,), generator=torch.Generator().manual_seed(step))
        mine = batch[number::3]
        optimizer.zero_grad()
        F.cross_entropy(model(samples[mine]), labels[mine]).backward()
        optimizer.step()
        # A step that was not committed is none.
        if manager.current_step() > step:
            entry = {"t": time.time(), "step": step + 1, "rank": number, "world": manager.num_participants()}
            log.write(json.dumps(entry | {"pid": os.getpid()}) + "\n")
        time.sleep(sleep)


main()
