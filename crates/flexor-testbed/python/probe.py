"""A worker that only makes steps together with the others and records their times.

Usage: probe.py EVENTS NODE LINGER STEPS   After STEPS steps it waits LINGER seconds and ends.
"""

import sys
import time

from probe_events import Log

STEP_SECONDS = 0.2


def main():
    path, node, linger, steps = sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
    log = Log(path, node)
    # Before torch is imported, which takes seconds: this is the moment when the worker was started.
    log.write("start", 0)
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for step in range(1, steps + 1):
        ones = torch.ones(1)
        dist.all_reduce(ones)
        if int(ones.item()) != dist.get_world_size():
            raise SystemExit(f"{int(ones.item())} workers in step {step} of a world of {dist.get_world_size()}")
        log.write("step", step)
        time.sleep(STEP_SECONDS)
    log.write("end", steps)
    time.sleep(linger)


main()
