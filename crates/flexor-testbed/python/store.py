"""A stock TCPStore server without an agent around it: prints its port and serves until its standard input ends.

Usage: store.py PORT   0 lets the kernel choose.
"""

import sys

from torch.distributed import TCPStore

store = TCPStore("127.0.0.1", int(sys.argv[1]), is_master=True, wait_for_workers=False)
print(store.port, flush=True)
sys.stdin.read()
