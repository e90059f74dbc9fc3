"""torch's own TCPStore server, the libuv one: prints its port, serves, ends when its standard input does."""

import resource
import sys

import torch.distributed as dist

hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, use_libuv=True)
assert store.libuvBackend
print(store.port, flush=True)
sys.stdin.read()
