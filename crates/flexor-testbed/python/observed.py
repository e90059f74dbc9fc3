"""Runs an unchanged training script and records its start, each step of its optimizer, and its end.

Usage: observed.py EVENTS NODE LINGER SCRIPT ...   After the script's end it waits LINGER seconds.
"""

import runpy
import sys
import time

from probe_events import Log


def main():
    path, node, linger = sys.argv[1], sys.argv[2], float(sys.argv[3])
    log = Log(path, node)
    # Before torch is imported, which takes seconds: this is the moment when the worker was started.
    log.write("start", 0)
    from torch.optim.optimizer import register_optimizer_step_post_hook

    steps = 0

    def stepped(*_):
        nonlocal steps
        steps += 1
        log.write("step", steps)

    register_optimizer_step_post_hook(stepped)
    del sys.argv[:4]
    runpy.run_path(sys.argv[0], run_name="__main__")
    log.write("end", steps)
    time.sleep(linger)


main()
