"""A worker that fails whenever it leases one bad record; all others fail with it, as in one world of DDP.

Usage: poison.py RECORDS BATCH BAD
"""

import json
import os
import sys
import urllib.request

records, batch, bad = (int(word) for word in sys.argv[1:4])
who = {"worker": os.environ["FLEXOR_WORKER"], "incarnation": int(os.environ["FLEXOR_INCARNATION"])}
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def post(path, **body):
    url = f"http://{os.environ['FLEXOR_MASTER']}/api/{path}"
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    return json.load(opener.open(request, timeout=60))


post("datasets", name="numbers", records=records, batch=batch)
os.makedirs("out", exist_ok=True)
while True:
    answer = post("datasets/numbers/lease", **who, batches=3, waitMs=5000)
    if answer.get("finished"):
        break
    for one in answer.get("batches", []):
        numbers = range(one["first"], one["first"] + one["count"])
        if bad in numbers:
            sys.exit(f"record {bad} is bad")
        with open(f"out/{os.environ['RANK']}.txt", "a") as file:
            file.writelines(f"{number}\n" for number in numbers)
        post("datasets/numbers/acknowledge", **who, lease=answer["lease"], first=one["batch"])
