"""worker.py over gRPC, which need not wait for the master's disk. worker_grpc.py FOLDER [RECORDS [BATCH [SECONDS]]]"""
import os, pathlib, queue, sys, time, grpc

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "crates/flexor-wire/proto"))
wire, services = grpc.protos_and_services("flexor/master/v1/master.proto")
folder, records, batch, seconds = (sys.argv[1:] + [None] * 3)[:4]
token = open(os.environ["FLEXOR_TOKEN_FILE"]).read().strip() if "FLEXOR_TOKEN_FILE" in os.environ else "none"
me = wire.Node(name=os.getenv("FLEXOR_WORKER", f"{os.getpid()}"), incarnation=int(os.getenv("FLEXOR_INCARNATION", 0)))
holds, unsafe = [], []  # what is leased; what is acknowledged, each with the number that has to be durable
session = None

class Session:
    def __init__(self):  # it begins with what a master that was started again may not know
        self.requests = queue.SimpleQueue()
        channel = grpc.insecure_channel(os.getenv("FLEXOR_MASTER", "127.0.0.1:50001"), [("grpc.enable_http_proxy", 0)])
        stub, headers = services.MasterStub(channel), [("authorization", f"Bearer {token}")]
        self.replies = stub.Session(iter(self.requests.get, None), metadata=headers)
        back = self.say(resume=wire.Resume(holds=holds, acknowledged=[held for held, _ in unsafe]))
        if back.refusal.reason == "JournalFull":  # it cannot write at present
            raise ConnectionError(back.refusal.detail)
        holds[:] = [held for held in holds if held not in back.void.held]
        unsafe[:] = [[held, None] for held, _ in unsafe]  # the next number that is told holds for them, too

    def say(self, **op):
        self.requests.put(wire.Request(id=1, node=me, **op))
        try:
            return next(reply for reply in self.replies if reply.id == 1)  # the others tell of the world
        except (grpc.RpcError, StopIteration) as error:
            self.requests.put(None)
            if getattr(error, "code", lambda: None)() == grpc.StatusCode.UNAUTHENTICATED:
                sys.exit(error.details())
            raise ConnectionError(error) from error

def ask(**op):
    global session
    for _ in range(300):  # while the master is away it is asked again
        try:
            session = session or Session()
            reply = session.say(**op)
            if reply.refusal.reason != "JournalFull":
                unsafe[:] = [[held, lsn or reply.accounted.lsn] for held, lsn in unsafe]
                unsafe[:] = [[held, lsn] for held, lsn in unsafe if not lsn or lsn > reply.durable_lsn]
                return reply
        except ConnectionError:
            session = None
        time.sleep(0.2)
    sys.exit("the master does not answer")

def acknowledge(held, durable=False):
    reply = ask(acknowledge=wire.AcknowledgeBatches(done=held, durable=durable))
    if reply.refusal.reason:  # others do it
        unsafe[:] = [one for one in unsafe if one[0] != held]

os.makedirs(folder, exist_ok=True)
dataset = wire.Dataset(name="numbers", records=int(records or 1000), batch=int(batch or 10), epochs=1, order=1)
reply = ask(register=dataset)
while not (reply.refusal.reason or reply.lease.finished):
    reply = ask(lease=wire.LeaseBatches(dataset="numbers", batches=3, wait_ms=5000))
    leased = [(one, wire.LeasedBatches(lease=reply.lease.held.lease, first=one.number, count=1)) for one in reply.lease.batches]
    holds.extend(held for _, held in leased)  # none while others hold the rest
    for one, held in leased:
        if held in holds:  # or others have it, while the master was away
            time.sleep(float(seconds or 0))  # the work
            with open(f"{folder}/{os.getenv('RANK', 0)}.txt", "a") as file:
                file.writelines(f"{record}\n" for record in range(one.first, one.first + one.count))
            holds.remove(held)
            unsafe.append([held, None])
            acknowledge(held)
while unsafe:  # who ends cannot say it again
    acknowledge(unsafe[-1][0], durable=True)
sys.exit(reply.refusal.detail or 0)
