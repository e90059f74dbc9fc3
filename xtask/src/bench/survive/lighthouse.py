"""A lighthouse of torchft for three replica groups that continue when two are left. Prints its port and waits to be killed.

Usage: lighthouse.py JOIN_TIMEOUT_MS   The other times are the defaults of `torchft_lighthouse`.
"""

import signal
import sys

from torchft.coordination import LighthouseServer

lighthouse = LighthouseServer(
    bind="127.0.0.1:0",
    min_replicas=2,
    join_timeout_ms=int(sys.argv[1]),
    quorum_tick_ms=100,
    heartbeat_timeout_ms=5000,
)
print(lighthouse.address().rsplit(":", 1)[1], flush=True)
signal.pause()
