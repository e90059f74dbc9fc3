"""PaddlePaddle's parameter server with the described tables, at 127.0.0.1: PORT CLIENTS DESCRIPTION."""

import sys

from paddle.base import core
from paddle.static import Program

HOST = "127.0.0.1"
port, clients, description = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]

server = core.DistFleetWrapper()
# One server, and it is the first.
hosts, index = [core.PSHost(HOST, port, 0).serialize_to_string()], 0
server.init_server(description, hosts, index, clients, [Program().desc])
server.run_server(HOST, port)
