"""A program with its own checkpoint: the trained records and the data position in one file.

Twelve batches of ten records. It writes its checkpoint after every fourth acknowledgement. In its first life it stands
still with the seventh batch, gone through and not acknowledged, until it is killed.
"""

import json
import os
import time
import urllib.request

CHECKPOINT = "checkpoint.json"
WHO = {"worker": os.environ["FLEXOR_WORKER"], "incarnation": int(os.environ["FLEXOR_INCARNATION"])}


def call(path, body=None):
    url = f"http://{os.environ['FLEXOR_MASTER']}/api/{path}"
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request, timeout=60))


learnt = []
is_first_life = not os.path.exists(CHECKPOINT)
call("datasets", {"name": "numbers", "records": 120, "batch": 10})
if not is_first_life:
    with open(CHECKPOINT) as file:
        checkpoint = json.load(file)
    learnt = checkpoint["learnt"]
    with open("rewound", "w") as file:
        print(call("restore", {"position": checkpoint["position"]})["rewound"], file=file)

acknowledged = 0
while not (lease := call("datasets/numbers/lease", {**WHO, "holds": [], "waitMs": 5000})).get("finished"):
    for batch in lease.get("batches", []):
        learnt.extend(range(batch["first"], batch["first"] + batch["count"]))
        if is_first_life and acknowledged == 6:
            print("stands still", flush=True)
            time.sleep(150)
        call("datasets/numbers/acknowledge", {**WHO, "lease": lease["lease"], "first": batch["batch"]})
        acknowledged += 1
        if acknowledged % 4 == 0:
            with open(CHECKPOINT + ".new", "w") as file:
                json.dump({"learnt": learnt, "position": call("position")["position"]}, file)
            os.rename(CHECKPOINT + ".new", CHECKPOINT)

with open("learnt", "w") as file:
    print(*learnt, sep="\n", file=file)
