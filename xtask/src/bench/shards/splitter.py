"""Shuffles a dataset with DLRover's own splitter and prints what that cost, as JSON.

Usage: splitter.py RECORDS SHARD
"""

import json
import resource
import sys
import time

from dlrover.python.master.shard.dataset_splitter import TextDatasetSplitter

PAGE = resource.getpagesize()


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * PAGE


splitter = TextDatasetSplitter("records", int(sys.argv[1]), int(sys.argv[2]), 1, shuffle=True)
before, started = resident(), time.process_time()
shards = splitter.create_shards()
seconds, grown = time.process_time() - started, resident() - before
assert sum(len(shard.record_indices) for shard in shards) == int(sys.argv[1])
print(json.dumps({"cpu_seconds": seconds, "growth_mib": grown / 2**20}))
