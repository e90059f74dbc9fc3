"""Torch's own rendezvous handlers, many in one process: prints how long they took to meet, first and again, as JSON.

Usage: handlers.py HOST:PORT RUN NODES LIMIT   The store at HOST:PORT is somebody else's process. A meeting that is not
over after LIMIT seconds is null.
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

ENDPOINT, RUN, NODES, LIMIT = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])


def handler():
    params = RendezvousParameters("c10d", ENDPOINT, RUN, NODES, NODES, local_addr="127.0.0.1", is_host="false")
    backend, store = create_backend(params)
    return create_handler(store, backend, params)


def meet(handlers):
    """Lets all join at once; the seconds until the last one knows its rank, or None."""
    ranks, start = [], threading.Event()

    def join(handler):
        start.wait()
        ranks.append(handler.next_rendezvous().rank)

    threads = [threading.Thread(target=join, args=(handler,), daemon=True) for handler in handlers]
    for thread in threads:
        thread.start()
    started = time.monotonic()
    start.set()
    for thread in threads:
        thread.join(max(0.0, started + LIMIT - time.monotonic()))
    seconds = time.monotonic() - started
    if any(thread.is_alive() for thread in threads):
        return None
    assert sorted(ranks) == list(range(NODES)), ranks
    return seconds


handlers = [handler() for _ in range(NODES)]
first = meet(handlers)
again = meet(handlers) if first is not None else None
print(json.dumps({"first": first, "again": again}), flush=True)
# The handlers' timers would keep the process for seconds, and nobody waits for them.
os._exit(0)
