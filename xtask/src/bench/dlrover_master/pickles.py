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
# As many shards as it holds at a time, of 20 records each, in another order each epoch. More epochs than are gone
# through: while this master makes the tasks of the last one it may take itself for finished, and end.
DATASET = comm.DatasetShardParams(
    batch_size=20,
    num_epochs=10,
    dataset_size=1_000_000,
    shuffle=True,
    num_minibatches_per_shard=1,
    dataset_name="records",
    task_type=1,
    storage_type="table",
)
# A placeholder: the sender of a result replaces it with its own task id.
TASK_ID = 0x12345678


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
            "dataset": pickled(DATASET),
            "task": pickled(comm.TaskRequest(DATASET.dataset_name)),
            "result": pickled(comm.TaskResult(DATASET.dataset_name, TASK_ID)),
        }
    )
)
