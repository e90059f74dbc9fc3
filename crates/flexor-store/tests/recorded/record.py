"""Records what the TCPStore clients and servers of the torch that this Python has say to each other.

    record.py calls FILE        every call of a client, with each of torch's own servers
    record.py rendezvous FILE   two agents that meet, one that comes too late, and the end

A recording is text, read by `transcript.rs`:

    # for the reader
    [libuv]                     a fresh server, and who recorded with it
    ; set('k', 'v1')            what happens next
    1> 01 02..                  bytes of the first connection to the server
    1< 00                       bytes of the server to the first connection
"""

import multiprocessing
import os
import selectors
import socket
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

# Within this time a server answers what it does not keep waiting.
ANSWER = 0.03


class Proxy:
    """Has a recorder, in a process of its own because some calls of torch keep all of this one waiting."""

    def __init__(self, server_port):
        listener = socket.create_server(("127.0.0.1", 0))
        self.port = listener.getsockname()[1]
        self.recorder, orders = multiprocessing.Pipe()
        fork = multiprocessing.get_context("fork")
        fork.Process(target=lambda: Recorder(listener, server_port, orders).run(), daemon=True).start()

    def say(self, text):
        """Names what comes next, when all that came before is written down."""
        self.ask(f"; {text}")

    def lines(self):
        return self.ask(None)

    def ask(self, order):
        time.sleep(5 * ANSWER)
        self.recorder.send(order)
        return self.recorder.recv()


class Recorder:
    """Stands between clients and a server, passes on one piece at a time and writes it down."""

    def __init__(self, listener, server_port, orders):
        self.listener, self.server_port, self.orders = listener, server_port, orders
        self.clients, self.servers = selectors.DefaultSelector(), selectors.DefaultSelector()
        self.clients.register(listener, selectors.EVENT_READ)
        self.clients.register(orders, selectors.EVENT_READ)
        self.connections = 0
        self.lines, self.last = [], 0

    def run(self):
        while True:
            for key, _ in self.clients.select(timeout=ANSWER):
                if key.fileobj is self.listener:
                    self.accept()
                elif key.fileobj is self.orders:
                    self.obey()
                else:
                    self.pass_on(key, self.clients, ">")
                    self.take_answers(ANSWER)
            self.take_answers(0)

    def obey(self):
        order = self.orders.recv()
        if order is not None:
            self.lines.append(order)
        self.orders.send(None if order else self.lines)

    def accept(self):
        client, _ = self.listener.accept()
        server = socket.create_connection(("127.0.0.1", self.server_port))
        for one in (client, server):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connections += 1
        self.clients.register(client, selectors.EVENT_READ, (self.connections, server))
        self.servers.register(server, selectors.EVENT_READ, (self.connections, client))

    def take_answers(self, patience):
        while ready := self.servers.select(timeout=patience):
            for key, _ in ready:
                self.pass_on(key, self.servers, "<")
            patience = 0.001

    def pass_on(self, key, side, arrow):
        number, other = key.data
        try:
            data = key.fileobj.recv(1 << 20)
        except ConnectionError:
            data = b""
        if not data:
            side.unregister(key.fileobj)
            return
        begin = f"{number}{arrow} "
        same_breath = time.monotonic() - self.last < 2 * ANSWER
        self.last = time.monotonic()
        if same_breath and self.lines[-1].startswith(begin):
            self.lines[-1] += data.hex()
        else:
            self.lines.append(begin + data.hex())
        other.sendall(data)


def server(libuv):
    return dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, use_libuv=libuv)


def calls(libuv):
    """Every call that this torch's client has."""
    master = server(libuv)
    proxy = Proxy(master.port)

    def connect(**options):
        return dist.TCPStore("127.0.0.1", proxy.port, is_master=False, use_libuv=libuv, **options)

    def call(name, *args, on=None, who="", **options):
        store = on or first
        if not hasattr(store, name):
            return None
        shown = [*map(repr, args), *(f"{key}={value!r}" for key, value in options.items())]
        proxy.say(f"{who}{name}({', '.join(shown)})")
        try:
            return getattr(store, name)(*args, **options)
        except (RuntimeError, IndexError) as error:
            proxy.say(f"raises {type(error).__name__}")
            return None

    proxy.say("connects")
    first = connect()
    proxy.say("another connects")
    second = connect()
    call("set", "k", "v1")
    call("get", "k")
    # While there is one key only, because servers list keys in no order.
    call("list_keys")
    call("set", "empty", "")
    call("get", "empty")
    call("add", "n", 5)
    call("add", "n", -2)
    call("get", "n")
    call("check", ["k", "zz"])
    call("check", ["k"])
    call("wait", ["k", "n"])
    call("wait", ["zz"], timedelta(milliseconds=300))
    proxy.say("wait(['late']), and the other: set('late', 'x')")
    waiter = threading.Thread(target=first.wait, args=(["late"], timedelta(seconds=20)))
    waiter.start()
    time.sleep(10 * ANSWER)
    second.set("late", "x")
    waiter.join()
    for expected, desired in [("", "A"), ("A", "B"), ("A", "C"), ("", "C")]:
        call("compare_set", "cs", expected, desired)
    call("compare_set", "nope", "A", "C")
    call("delete_key", "k")
    call("delete_key", "k")
    call("num_keys")
    call("append", "ap", "ab")
    call("append", "ap", "cd")
    call("multi_set", ["m1", "m2"], ["x", "yy"])
    call("multi_get", ["m1", "m2", "ap"])
    if libuv and hasattr(first, "queue_push"):
        call("queue_push", "qq", "one")
        call("queue_push", "qq", "two")
        call("queue_len", "qq")
        call("queue_pop", "qq")
        call("queue_pop", "qq", block=False)
        call("queue_pop", "qq", block=False)
    if hasattr(first, "barrier"):
        proxy.say("barrier('bar', 2), and the other too")
        waiter = threading.Thread(target=first.barrier, args=("bar", 2))
        waiter.start()
        time.sleep(10 * ANSWER)
        second.barrier("bar", 2)
        waiter.join()
        call("barrier", "alone", 2, timedelta(milliseconds=300))
    inner = dist.PrefixStore("b", first)
    nested = dist.PrefixStore("a", inner)
    call("set", "q", "1", on=nested, who="in b/a: ")
    call("get", "q", on=nested, who="in b/a: ")
    call("compare_set", "q", "1", "2", on=inner, who="in b: ")
    call("add", "n", 1, on=inner, who="in b: ")
    call("num_keys")
    proxy.say("connects as one of a world of 1")
    connect(world_size=1)
    proxy.say("ends")
    return proxy.lines()


def rendezvous():
    """Agents a and b form a world, c is late, a closes."""
    os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    from torch.distributed.elastic.rendezvous import RendezvousParameters
    from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import create_backend
    from torch.distributed.elastic.rendezvous.dynamic_rendezvous import DynamicRendezvousHandler

    master = server(True)
    proxy = Proxy(master.port)

    def handler(addr):
        parameters = RendezvousParameters(
            "c10d", f"127.0.0.1:{proxy.port}", "job", min_nodes=1, max_nodes=2, is_host=False
        )
        backend, store = create_backend(parameters)
        return DynamicRendezvousHandler.from_backend("job", store, backend, 1, 2, local_addr=addr)

    def join(handler):
        try:
            handler.next_rendezvous()
        except Exception as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)

    proxy.say("a connects and joins")
    a = handler("a")
    joining_a = threading.Thread(target=join, args=(a,))
    joining_a.start()
    time.sleep(2.5)
    proxy.say("b connects and joins, which completes the round; both agree on MASTER_ADDR and MASTER_PORT")
    b = handler("b")
    join(b)
    joining_a.join()
    proxy.say("c connects and finds no place")
    c = handler("c")
    joining_c = threading.Thread(target=join, args=(c,))
    joining_c.start()
    time.sleep(2.5)
    proxy.say("a closes the run")
    a.set_closed()
    joining_c.join()
    proxy.say("ends")
    return proxy.lines()


def main():
    what, file = sys.argv[1:]
    lines = [f"# Recorded by record.py with torch {torch.__version__.split('+')[0]} and Python {sys.version.split()[0]}."]
    if what == "calls":
        lines += ["[libuv]", *calls(True), "[legacy]", *calls(False)]
    elif what == "rendezvous":
        lines += ["[libuv]", *rendezvous()]
    else:
        sys.exit(__doc__)
    Path(file).write_text("\n".join(lines) + "\n")
    # The threads of torch are of no use any more.
    for recorder in multiprocessing.active_children():
        recorder.terminate()
    os._exit(0)


main()
