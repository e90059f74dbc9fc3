"""A worker in plain Python: leases batches, writes a line per record. worker.py FOLDER [RECORDS [BATCH [SECONDS]]]"""
import http.client, json, os, sys, time, urllib.request

folder, records, batch, seconds = (sys.argv[1:] + [None] * 3)[:4]
token = open(os.environ["FLEXOR_TOKEN_FILE"]).read().strip() if "FLEXOR_TOKEN_FILE" in os.environ else "none"
headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
who = {"worker": os.getenv("FLEXOR_WORKER", f"{os.getpid()}"), "incarnation": int(os.getenv("FLEXOR_INCARNATION", 0))}

def post(path, **body):
    url = f"http://{os.getenv('FLEXOR_MASTER', '127.0.0.1:50001')}/api/{path}"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    for _ in range(600):  # while the master is away it is asked again
        try:
            return json.load(urllib.request.urlopen(request, timeout=60))
        except (OSError, http.client.HTTPException) as error:
            if getattr(error, "code", 503) != 503:
                return json.load(error)
            time.sleep(0.1)
    sys.exit(f"{url} does not answer")

os.makedirs(folder, exist_ok=True)
answer = post("datasets", name="numbers", records=int(records or 1000), batch=int(batch or 10), shuffle="batches")
while not (answer.get("error") or answer.get("finished")):
    answer = post("datasets/numbers/lease", **who, holds=[], waitMs=5000)
    for one in answer.get("batches", []):  # none while others hold the rest
        time.sleep(float(seconds or 0))  # the work
        with open(f"{folder}/{os.getenv('RANK', 0)}.txt", "a") as file:
            file.writelines(f"{record}\n" for record in range(one["first"], one["first"] + one["count"]))
        post("datasets/numbers/acknowledge", **who, lease=answer["lease"], first=one["batch"])  # refused: others do it
sys.exit(answer.get("error"))
