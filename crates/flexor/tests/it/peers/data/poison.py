"""A rank of a DDP job that leases its own data.

The rank that leases the bad record fails, and its peers fail because they lose it.

Usage: poison.py RECORDS BATCH BAD
"""

import json
import os
import sys
import urllib.request

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel

records, batch, bad = (int(word) for word in sys.argv[1:4])
who = {"worker": os.environ["FLEXOR_WORKER"], "incarnation": int(os.environ["FLEXOR_INCARNATION"])}
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def post(path, **body):
    url = f"http://{os.environ['FLEXOR_MASTER']}/api/{path}"
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    return json.load(opener.open(request, timeout=60))


@record
def main():
    dist.init_process_group("gloo")
    model = DistributedDataParallel(torch.nn.Linear(1, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    post("datasets", name="numbers", records=records, batch=batch)
    os.makedirs("out", exist_ok=True)
    while True:
        # Two at a time, so that the first failure does not identify the record.
        answer = post("datasets/numbers/lease", **who, holds=[], batches=2, waitMs=200)
        batches = answer.get("batches", [])
        numbers = [number for one in batches for number in range(one["first"], one["first"] + one["count"])]
        if bad in numbers:
            raise ValueError(f"record {bad} is bad")
        optimizer.zero_grad()
        # A rank without records takes part in the sum all the same.
        model(torch.tensor(numbers, dtype=torch.float32).reshape(-1, 1)).sum().backward()
        optimizer.step()
        with open(f"out/{dist.get_rank()}.txt", "a") as file:
            file.writelines(f"{number}\n" for number in numbers)
        if batches:
            done = {name: answer[name] for name in ("lease", "first", "count")}
            post("datasets/numbers/acknowledge", **who, **done)
        at_work = torch.tensor(0 if answer.get("finished") else 1)
        dist.all_reduce(at_work)
        if at_work.item() == 0:
            break
    dist.destroy_process_group()
    # Not through the interpreter's end, where torch now and then aborts because of a thread of gloo's: failures are
    # counted here.
    os._exit(0)


main()
