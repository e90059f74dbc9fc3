"""The Python side of the tests: torchrun's two classes under their real module name, without torch.

    peer.py fixtures FOLDER   writes the recorded values
    peer.py check             reads lines of a value and, where it should be that known state, a number of nodes;
                              checks the kind of everything in the value, and its content if known;
                              answers each with a line: the value as each of Python's picklers writes it
"""

import base64
import io
import pickle
import sys
import types
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

MODULE = "torch.distributed.elastic.rendezvous.dynamic_rendezvous"
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
MICROSECOND = timedelta(microseconds=1)


class _RendezvousState:
    def __init__(self):
        self.round = 0
        self.complete = False
        self.deadline = None
        self.closed = False
        self.participants = {}
        self.wait_list = set()
        self.redundancy_list = set()
        self.last_heartbeats = {}


@dataclass(eq=True, order=True, frozen=True)
class _NodeDesc:
    addr: str
    pid: int
    local_id: int


def install_classes():
    parts = MODULE.split(".")
    for depth in range(1, len(parts) + 1):
        name = ".".join(parts[:depth])
        sys.modules[name] = types.ModuleType(name)
    for cls in (_RendezvousState, _NodeDesc):
        cls.__module__ = MODULE
        setattr(sys.modules[MODULE], cls.__name__, cls)


def known_state(nodes):
    """The same state as that of `known_state` in tests.rs."""

    def node(name, index):
        return _NodeDesc(f"{name}-{index:03}.train.svc", 17 + 4093 * index, index % 3)

    start = EPOCH + timedelta(seconds=1_700_000_000)
    state = _RendezvousState()
    state.round = nodes
    state.complete = nodes > 1
    state.deadline = start + timedelta(seconds=30) if nodes else None
    state.closed = nodes == 64
    late = [node("late", index) for index in range(nodes // 8)]
    spare = [node("spare", index) for index in range(nodes // 16)]
    state.participants = {node("worker", index): nodes - 1 - index for index in range(nodes)}
    state.wait_list.update(late)
    state.redundancy_list.update(spare)
    for index, alive in enumerate([*state.participants, *late, *spare]):
        state.last_heartbeats[alive] = start + index * timedelta(seconds=1, microseconds=1)
    return state


def dump(state, protocol, pickler=pickle.Pickler):
    out = io.BytesIO()
    pickler(out, protocol).dump(state)
    return base64.b64encode(out.getvalue()).decode()


def content(state):
    def kind(value, wanted):
        assert type(value) is wanted, (value, wanted)
        return value

    def node(value):
        kind(value, _NodeDesc)
        assert list(vars(value)) == ["addr", "pid", "local_id"], vars(value)
        return [kind(value.addr, str), kind(value.pid, int), kind(value.local_id, int)]

    def micros(value):
        assert kind(value, datetime).tzinfo in (timezone.utc, None), value
        return [str(value.tzinfo), (value.replace(tzinfo=timezone.utc) - EPOCH) // MICROSECOND]

    kind(state, _RendezvousState)
    assert list(vars(state)) == list(vars(_RendezvousState())), vars(state)
    return [
        kind(state.round, int),
        kind(state.complete, bool),
        None if state.deadline is None else micros(state.deadline),
        kind(state.closed, bool),
        [[node(key), kind(rank, int)] for key, rank in kind(state.participants, dict).items()],
        [node(key) for key in sorted(kind(state.wait_list, set))],
        [node(key) for key in sorted(kind(state.redundancy_list, set))],
        [[node(key), micros(stamp)] for key, stamp in kind(state.last_heartbeats, dict).items()],
    ]


def check(value, nodes=None):
    data = base64.b64decode(value, validate=True)
    state = pickle.loads(data)
    # pickle._Unpickler and pickle._Pickler are the same machines written in Python.
    assert content(pickle._Unpickler(io.BytesIO(data)).load()) == content(state)
    assert nodes is None or content(state) == content(known_state(int(nodes)))
    picklers = [(protocol, pickler) for protocol in (4, 5) for pickler in (pickle.Pickler, pickle._Pickler)]
    return " ".join(dump(state, protocol, pickler) for protocol, pickler in picklers)


def main():
    install_classes()
    if sys.argv[1] == "fixtures":
        for nodes in (0, 1, 2, 16, 64, 300):
            for protocol in (4, 5):
                Path(sys.argv[2], f"{nodes}.protocol{protocol}").write_text(dump(known_state(nodes), protocol) + "\n")
    elif sys.argv[1] == "check":
        for line in sys.stdin:
            print(check(*line.split()))
    else:
        sys.exit(__doc__)


main()
