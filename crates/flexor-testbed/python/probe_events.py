"""The events of a worker for its observer: one JSON object per line, with the names of events.rs."""

import json
import os
import time


class Log:
    def __init__(self, path, node):
        self.file, self.node = open(path, "a", buffering=1), node

    def write(self, event, step):
        """PROBE_FAILS_AT names a step at which the program fails, every time."""
        entry = {
            "t": time.time(),
            "event": event,
            "step": step,
            "node": self.node,
            "pid": os.getpid(),
            "rank": int(os.environ["RANK"]),
            "world": int(os.environ["WORLD_SIZE"]),
            "restart": int(os.environ["TORCHELASTIC_RESTART_COUNT"]),
            "master_port": int(os.environ["MASTER_PORT"]),
        }
        self.file.write(json.dumps(entry) + "\n")
        if event == "step" and str(step) == os.environ.get("PROBE_FAILS_AT"):
            raise SystemExit("fails as it was told to")
