"""A worker that exits with 0 when its acknowledgement is answered, not when it is durable, and also ends the master.

Usage: leaves_early.py PROTO_FOLDER MASTER_PID RECORDS BATCH
"""

import os
import queue
import signal
import sys

import grpc

folder, master, records, batch = sys.argv[1], *(int(word) for word in sys.argv[2:5])
sys.path.append(folder)
wire, services = grpc.protos_and_services("flexor/master/v1/master.proto")
me = wire.Node(name=os.environ["FLEXOR_WORKER"], incarnation=int(os.environ["FLEXOR_INCARNATION"]))
requests = queue.SimpleQueue()
channel = grpc.insecure_channel(os.environ["FLEXOR_MASTER"], [("grpc.enable_http_proxy", 0)])
replies = services.MasterStub(channel).Session(iter(requests.get, None))


def ask(**op):
    requests.put(wire.Request(id=1, node=me, **op))
    return next(reply for reply in replies if reply.id == 1)


ask(resume=wire.Resume())
ask(register=wire.Dataset(name="numbers", records=records, batch=batch, epochs=1, order=1))
lease = ask(lease=wire.LeaseBatches(dataset="numbers", batches=3)).lease
os.makedirs("out", exist_ok=True)
with open(f"out/{os.environ['RANK']}.txt", "a") as file:
    for one in lease.batches:
        file.writelines(f"{record}\n" for record in range(one.first, one.first + one.count))
# The first one also shows the master how long a batch takes, which it journals at once.
held = [wire.LeasedBatches(lease=lease.held.lease, first=one.number, count=1) for one in lease.batches]
ask(acknowledge=wire.AcknowledgeBatches(done=held[0], durable=True))
for one in held[1:]:
    reply = ask(acknowledge=wire.AcknowledgeBatches(done=one))
os.kill(master, signal.SIGKILL)
safe = reply.durable_lsn >= reply.accounted.lsn
print("left with an acknowledgement that is", "safe" if safe else "not safe", flush=True)
os._exit(0)
