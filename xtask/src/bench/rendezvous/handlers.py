"""Torch's own rendezvous handlers, several in one process.

Usage: handlers.py HOST:PORT RUN NODES MINE LIMIT   The store at HOST:PORT is somebody else's process; MINE of the NODES
handlers are in this one. Prints "ready"; for each line it then reads, lets all of its handlers join and prints their
ranks as JSON, or null when that took longer than LIMIT seconds.
"""

import json
import os
import sys
import threading
import time

os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"

from torch.distributed.elastic.rendezvous import RendezvousParameters
from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import create_backend
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import create_handler

ENDPOINT, RUN, NODES, MINE, LIMIT = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])


def handler():
    params = RendezvousParameters("c10d", ENDPOINT, RUN, NODES, NODES, local_addr="127.0.0.1", is_host="false")
    backend, store = create_backend(params)
    return create_handler(store, backend, params)


def meet(handlers, go):
    """Lets all join once `go` has returned; their ranks, or None."""
    ranks, start = [], threading.Event()

    def join(handler):
        start.wait()
        ranks.append(handler.next_rendezvous().rank)

    threads = [threading.Thread(target=join, args=(handler,), daemon=True) for handler in handlers]
    for thread in threads:
        thread.start()
    print("ready", flush=True)
    go()
    start.set()
    deadline = time.monotonic() + LIMIT
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return None if any(thread.is_alive() for thread in threads) else ranks


handlers = [handler() for _ in range(MINE)]
for _ in range(2):
    ranks = meet(handlers, sys.stdin.readline)
    print(json.dumps(ranks), flush=True)
    if ranks is None:
        break
# The handlers' timers would keep the process for seconds, and the race does not wait for them.
os._exit(0)
