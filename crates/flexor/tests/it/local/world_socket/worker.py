"""A worker that speaks the world socket's protocol by hand and records every world that it receives in `told`.

Usage: worker.py [odd | hangs-up | loses-peers | dies | dies-when-told | stays | never-joins | quits]

- `odd` first sends invalid messages on other connections, and records the refusals in `refused`.
- `hangs-up` closes its connection once it is in its first world, and works on.
- `loses-peers` leaves its first world by itself once there is a file `lost`.
- `dies` exits when it is asked for a rendezvous, `dies-when-told` when it receives a world.
- `stays` does not leave its world when it is asked to.
- `never-joins` does not confirm that it is in a second world.
- `quits` leaves its world when it is asked to and then exits with the code in the file `quit`.
"""

import json
import os
import select
import signal
import socket
import sys
import time

# After this time no test waits for it.
LIFETIME = 150


def connect():
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(os.environ["FLEXOR_WORLD_SOCKET"])
    return connection


def say(connection, message):
    connection.sendall(json.dumps(message).encode() + b"\n")


def write_down(name, entry):
    """With one write, so that the lines of several workers do not mix."""
    with open(name, "ab", buffering=0) as file:
        file.write(json.dumps(entry).encode() + b"\n")


def speak_oddly(name):
    """Gives the connections that stay open."""
    odd = {
        "garbage": b"\x00\xff{]\n",
        "no message": b'{"wishes": "a larger world"}\n',
        "a line too long": b"[" * 5000,
        "no name": b'{"ready": true}\n',
        "no worker": b'{"worker": "nobody"}\n',
    }
    for what, said in odd.items():
        connection = connect()
        connection.settimeout(30)
        try:
            connection.sendall(said)
            answer = connection.recv(1)
        except ConnectionError:
            answer = b""
        if answer == b"":
            write_down("refused", what)
    half = connect()
    half.sendall(b'{"work')
    earlier = connect()
    say(earlier, {"worker": name})
    return [connect(), half, earlier]


def main():
    behaviour = sys.argv[1] if len(sys.argv) > 1 else ""
    name = os.environ["FLEXOR_WORKER"]
    others = speak_oddly(name) if behaviour == "odd" else []
    connection = connect()
    say(connection, {"worker": name})
    # Only the later one counts.
    for other in others:
        other.close()
    say(connection, {"ready": True})
    lines = connection.makefile("rb")
    end = time.monotonic() + LIFETIME
    worlds = 0
    waits = False
    has_peers = behaviour == "loses-peers"
    while not os.path.exists("go") and time.monotonic() < end:
        if has_peers and os.path.exists("lost"):
            has_peers = False
            say(connection, {"ready": True})
        if waits and behaviour == "quits" and os.path.exists("quit"):
            sys.exit(int(open("quit").read()))
        # A worker that has closed its connection only waits for its end.
        heard = [] if connection is None else [connection]
        if not select.select(heard, [], [], 0.05)[0]:
            continue
        message = json.loads(lines.readline())
        if "rendezvous" in message and behaviour == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        elif "rendezvous" in message and behaviour == "stays":
            write_down("asked", os.getpid())
        elif "rendezvous" in message:
            say(connection, {"ready": True})
            waits = True
        elif behaviour == "dies-when-told":
            os.kill(os.getpid(), signal.SIGKILL)
        else:
            write_down("told", {"pid": os.getpid(), "world": message["world"]})
            worlds += 1
            if behaviour != "never-joins" or worlds == 1:
                say(connection, {"joined": message["world"]["round"]})
            if behaviour == "hangs-up":
                lines.close()
                connection.close()
                connection = None


main()
