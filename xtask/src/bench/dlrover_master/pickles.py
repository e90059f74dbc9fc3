"""The requests of DLRover's agents, pickled by its own classes: prints one JSON object with base64 texts.

Usage: pickles.py NODES
"""

import base64
import json
import sys

from dlrover.python.common import comm
from dlrover.python.common.constants import KeyValueOps, RendezvousName

NODES = int(sys.argv[1])
TRAINING = RendezvousName.TRAINING
VALUE = b"10.0.0.1:29500"


def pickled(message):
    return base64.b64encode(message.serialize()).decode()


def pair(node, value, op):
    message = comm.KeyValuePair(f"key-{node}", value)
    message.op = op
    return pickled(message)


def join(node):
    return comm.JoinRendezvousRequest(
        node_id=node, node_rank=node, local_world_size=8, rdzv_name=TRAINING, node_ip="10.0.0.1"
    )


nodes = range(NODES)
print(
    json.dumps(
        {
            "params": pickled(comm.RendezvousParams(NODES, NODES, 600, 1, 600)),
            "beat": pickled(comm.HeartBeat(timestamp=1_700_000_000)),
            "joins": [pickled(join(node)) for node in nodes],
            "worlds": [pickled(comm.CommWorldRequest(node_id=node, rdzv_name=TRAINING)) for node in nodes],
            "sets": [pair(node, VALUE, KeyValueOps.SET) for node in nodes],
            "gets": [pair(node, b"", KeyValueOps.GET) for node in nodes],
        }
    )
)
