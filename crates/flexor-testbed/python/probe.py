"""A worker that does nothing but stay in step with the others and write down when.

Usage: probe.py EVENTS NODE STEPS LINGER   Each line of EVENTS is one JSON object; the names are those of events.rs.
After STEPS steps it waits LINGER seconds and ends. PROBE_FAILS_AT names a step at which it fails instead, every time.
"""

import json
import os
import sys
import time

STEP_SECONDS = 0.2


def main():
    path, node, steps, linger = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    log = open(path, "a", buffering=1)

    def write(event, step):
        entry = {
            "t": time.time(),
            "event": event,
            "step": step,
            "node": node,
            "pid": os.getpid(),
            "rank": int(os.environ["RANK"]),
            "world": int(os.environ["WORLD_SIZE"]),
            "restart": int(os.environ["TORCHELASTIC_RESTART_COUNT"]),
            "master_port": int(os.environ["MASTER_PORT"]),
        }
        log.write(json.dumps(entry) + "\n")

    # Before torch is imported, which takes seconds: this is the moment when the worker was started.
    write("start", 0)
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for step in range(1, steps + 1):
        ones = torch.ones(1)
        dist.all_reduce(ones)
        if int(ones.item()) != dist.get_world_size():
            raise SystemExit(f"{int(ones.item())} workers in step {step} of a world of {dist.get_world_size()}")
        write("step", step)
        if str(step) == os.environ.get("PROBE_FAILS_AT"):
            raise SystemExit("fails as it was told to")
        time.sleep(STEP_SECONDS)
    write("end", steps)
    time.sleep(linger)


main()
