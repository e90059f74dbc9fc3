"""Makes every public call of torch's own TCPStore client, and prints one line per call: the call and its result.

Usage: store_calls.py HOST PORT   The same lines are expected whatever the server is.
"""

import datetime
import sys
import threading

import torch.distributed as dist

SHORT = datetime.timedelta(milliseconds=300)
LONG = datetime.timedelta(seconds=60)
THREADS = 20


def connect():
    return dist.TCPStore(sys.argv[1], int(sys.argv[2]), is_master=False, timeout=LONG)


def show(name, call):
    """Errors are printed by kind: their texts contain addresses."""
    try:
        result = call()
    except Exception as error:
        result = type(error).__name__
    print(f"{name}: {result!r}", flush=True)


def every_call(store, title):
    def call(name, *args, **kwargs):
        show(f"{title} {name}{args}", lambda: getattr(store, name)(*args, **kwargs))

    keys = store.num_keys()

    def key_count(when):
        show(f"{title} keys {when}", lambda: store.num_keys() - keys)

    call("has_extended_api")
    call("set", "key", "value")
    call("set", "empty", "")
    call("set", "long", "x" * 100_000)
    call("get", "key")
    call("get", "empty")
    show(f"{title} long", lambda: len(store.get("long")))
    call("add", "counter", 5)
    call("add", "counter", -7)
    call("add", "counter", 0)
    call("get", "counter")
    call("set", "number", "41")
    call("add", "number", 1)
    call("check", ["key"])
    call("check", ["key", "counter"])
    call("check", ["key", "missing"])
    call("check", [])
    call("compare_set", "fresh", "", "first")
    call("compare_set", "fresh", "other", "second")
    call("compare_set", "fresh", "first", "second")
    call("compare_set", "nowhere", "expected", "desired")
    call("get", "fresh")
    not_rendezvous_state(call)
    call("append", "list", "a")
    call("append", "list", "bc")
    call("append", "list", "")
    call("get", "list")
    call("append", "key", "+")
    call("multi_set", ["m1", "m2", "m3"], ["1", "", "3"])
    call("multi_get", ["m3", "m1", "m2"])
    call("multi_get", ["key"])
    key_count("after setting")
    show(f"{title} list_keys", lambda: sorted(key for key in store.list_keys() if "init" not in key))
    call("delete_key", "m1")
    call("delete_key", "m1")
    call("delete_key", "missing")
    key_count("after deleting")
    call("queue_push", "queue", "one")
    call("queue_push", "queue", "two")
    call("queue_len", "queue")
    call("queue_pop", "queue")
    call("queue_pop", "queue", block=False)
    call("queue_len", "queue")
    call("queue_pop", "queue", block=False)
    call("queue_len", "never used")
    call("wait", ["key", "counter"])
    call("wait", ["missing"], SHORT)
    call("get", "key")
    store.set_timeout(SHORT)
    call("get", "missing")
    call("multi_get", ["key", "missing"])
    call("queue_pop", "queue")
    call("barrier", "alone", 2, SHORT)
    store.set_timeout(LONG)
    call("get", "key")
    call("barrier", "single", 1, LONG)


def not_rendezvous_state(call):
    """Makes calls about keys and values that look like those of torchrun's rendezvous, and are a program's own."""
    for key in ["torch.rendezvous.mine", "torch.rendezvous.mine.0/key", "torch.rendezvous.", "torch.rendezvous"]:
        call("compare_set", key, "other", "no pickle")
        call("compare_set", key, "", "no pickle")
        call("compare_set", key, "", "gASVHAAAAAAAAACMBXBvc2l4lIwGc3lzdGVtlJOUjAJpZJSFlFKULg==")
        call("compare_set", key, "no pickle", "\x00\n\u00e9")
        call("get", key)
        call("set", key, "set")
        call("append", key, "+")
        call("multi_set", [key, "m0"], ["several", "x"])
        call("multi_get", [key, "m0"])
        call("check", [key])
        call("wait", [key])
        call("delete_key", key)
        call("add", key, 3)
        call("delete_key", key)
        call("queue_push", key, "item")
        call("queue_pop", key)


def side_by_side(stores, title, work):
    """Runs `work` in many threads, each with its own connection, and prints their results."""
    results = [None] * THREADS

    def run(number):
        results[number] = work(stores[number], number)

    threads = [threading.Thread(target=run, args=[number]) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    show(title, lambda: sorted(results, key=repr))


def woken_by_the_last(store, number):
    """All wait for one key, and the last client sets it."""
    if store.add("came", 1) == THREADS:
        store.set("go", "now")
    return store.get("go")


def swapped(store, number):
    """Each client retries compare-and-set until it succeeds; no entry is lost."""
    seen = b""
    while True:
        wanted = seen + bytes([65 + number])
        found = store.compare_set("swapped", seen.decode(), wanted.decode())
        if found == wanted:
            return True
        seen = found


def main():
    store = connect()
    show("keys at first", store.num_keys)
    show("listed at first", store.list_keys)
    every_call(store, "plain")
    every_call(dist.PrefixStore("outer", store), "prefix")
    every_call(dist.PrefixStore("inner", dist.PrefixStore("outer", store)), "prefixes")
    show("what stands there", lambda: store.get("outer/inner/key"))
    every_call(dist.PrefixStore("clone", store.clone()), "clone")
    stores = [connect() for _ in range(THREADS)]
    side_by_side(stores, "added", lambda own, number: own.add("together", number) >= 0)
    show("sum", lambda: store.get("together"))
    side_by_side(stores, "woken", woken_by_the_last)
    side_by_side(stores, "swapped", swapped)
    show("everyone", lambda: sorted(store.get("swapped")))
    side_by_side(stores, "appended", lambda own, number: own.append("appended", chr(65 + number)))
    show("everyone", lambda: sorted(store.get("appended")))
    side_by_side(stores, "barrier", lambda own, number: own.barrier("together at once", THREADS, LONG))
    side_by_side(stores, "pushed", lambda own, number: own.queue_push("shared", chr(65 + number)))
    side_by_side(stores, "popped", lambda own, number: own.queue_pop("shared"))


main()
