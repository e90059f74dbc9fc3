"""Records what the torchrun of the torch that this Python has makes of command lines.

    torchrun_command_lines.py FILE

Each line of CORPUS is given to torchrun's own parser and launcher, up to the moment at which it would start processes.
The file is JSON, read by the tests of `launch_options`: the torch it was recorded with, and for every case the arguments,
the environment, and either what would be launched or the kind of error. Nothing is started and no folder is made.
"""

import contextlib
import io
import json
import os
import sys

import torch
import torch.distributed.run as torchrun
from torch.distributed.elastic.rendezvous.utils import parse_rendezvous_endpoint

TRAIN = ["train.py"]

# Arguments, and variables of the environment where there are any.
CORPUS = [
    # Nothing but a program.
    (TRAIN,),
    (["train.py", "--lr", "0.1", "--nnodes=9", "-m"],),
    (["--", "train.py", "--x"],),
    (["--nnodes=1", "--", "train.py", "--x"],),
    ([],),
    (["--nnodes=1"],),
    (["--"],),
    # Nodes.
    (["--nnodes=4", *TRAIN],),
    (["--nnodes", "1:4", *TRAIN],),
    (["--nnodes= 2 : 4 ", *TRAIN],),
    (["--nnodes=1_0:2_0", *TRAIN],),
    (["--nnodes=4:2", *TRAIN],),
    (["--nnodes=0:2", *TRAIN],),
    (["--nnodes=-1", *TRAIN],),
    (["--nnodes", "-1", *TRAIN],),
    (["--nnodes=1:2:3", *TRAIN],),
    (["--nnodes=two", *TRAIN],),
    (["--nnodes=", *TRAIN],),
    (["--nnodes", *TRAIN],),
    (TRAIN, {"PET_NNODES": "2:3"}),
    (["--nnodes=5", *TRAIN], {"PET_NNODES": "2:3"}),
    (TRAIN, {"PET_NNODES": ""}),
    (["--nnodes=2", "--nnodes=3", *TRAIN],),
    # Processes.
    (["--nproc-per-node=2", *TRAIN],),
    (["--nproc_per_node=2", *TRAIN],),
    (["--nproc_per_node", "2", *TRAIN],),
    (["--nproc-per-node=+3", *TRAIN],),
    (["--nproc-per-node=many", *TRAIN],),
    (["--nproc-per_node=2", *TRAIN],),
    (TRAIN, {"PET_NPROC_PER_NODE": "4"}),
    # Where to meet.
    (["--standalone", *TRAIN],),
    (["--standalone", "--rdzv-backend=c10d", "--rdzv-endpoint=h:1", "--rdzv-id=7", *TRAIN],),
    (["--standalone=1", *TRAIN],),
    (TRAIN, {"PET_STANDALONE": "1"}),
    (TRAIN, {"PET_STANDALONE": "0"}),
    (["--standalone", *TRAIN], {"PET_STANDALONE": "0"}),
    (TRAIN, {"PET_STANDALONE": "true"}),
    (["--rdzv-backend=c10d", *TRAIN],),
    (["--rdzv-backend=c10d", "--rdzv-endpoint=node0", "--rdzv-id=job", *TRAIN],),
    (["--rdzv_backend=c10d", "--rdzv_endpoint=node0:1234", "--rdzv_id=job", *TRAIN],),
    (["--rdzv-backend", "c10d", "--rdzv-endpoint", "[::1]:29400", *TRAIN],),
    (["--rdzv-backend=c10d", "--rdzv-endpoint=[::1]", *TRAIN],),
    (["--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", *TRAIN],),
    (["--rdzv-backend=c10d", "--rdzv-endpoint=node0:99999", *TRAIN],),
    (["--rdzv-backend=c10d", "--rdzv-endpoint=node0:abc", *TRAIN],),
    (["--rdzv-backend=c10d", "--rdzv-endpoint=http://node0:80", *TRAIN],),
    (TRAIN, {"PET_RDZV_BACKEND": "c10d", "PET_RDZV_ENDPOINT": "master:29400", "PET_RDZV_ID": "a-uid"}),
    (["--nnodes=2", *TRAIN],),
    (["--nnodes=2", "--node-rank=1", "--master-addr=10.0.0.1", "--master-port=1234", *TRAIN],),
    (["--nnodes=2", "--node_rank=1", "--master_addr=10.0.0.1", "--master_port=1234", *TRAIN],),
    (["--master-port=1234", *TRAIN],),
    (["--master-port=port", *TRAIN],),
    (["--nnodes=2", "--rdzv-endpoint=node0:1234", *TRAIN],),
    (["--nnodes=2", "--rdzv-endpoint=node0", *TRAIN],),
    (TRAIN, {"PET_NNODES": "2", "PET_NODE_RANK": "1", "PET_MASTER_ADDR": "node0", "PET_MASTER_PORT": "5"}),
    (TRAIN, {"PET_NODE_RANK": "one"}),
    (["--local-addr=10.0.0.7", *TRAIN],),
    (["--local_addr", "10.0.0.7", *TRAIN],),
    # How to meet.
    (["--rdzv-conf=join_timeout=60,last_call_timeout=5", *TRAIN],),
    (["--rdzv_conf", " join_timeout = 60 , is_host = False ", *TRAIN],),
    (["--rdzv-conf=unheard_of=1", *TRAIN],),
    (["--rdzv-conf=join_timeout", *TRAIN],),
    (["--rdzv-conf=join_timeout=", *TRAIN],),
    (["--rdzv-conf==60", *TRAIN],),
    (["--rdzv-conf=join_timeout=60,", *TRAIN],),
    (TRAIN, {"PET_RDZV_CONF": "is_host=false,join_timeout=604800"}),
    # Restarts.
    (["--max-restarts=5", *TRAIN],),
    (["--max_restarts", "0", *TRAIN],),
    (["--max-restarts=-1", *TRAIN],),
    (["--max-restarts", "-1", *TRAIN],),
    (["--max-restarts=three", *TRAIN],),
    (["--max-restarts=1.0", *TRAIN],),
    (TRAIN, {"PET_MAX_RESTARTS": "1000"}),
    (TRAIN, {"PET_MAX_RESTARTS": ""}),
    # What is launched.
    (["-m", "package.train", "--x"],),
    (["--module", "package.train", "--x"],),
    (["package.train"], {"PET_MODULE": "1"}),
    (["--no-python", "./train", "--x"],),
    (["--no_python", "train.py"],),
    (["./train"], {"PET_NO_PYTHON": "1"}),
    (["-m", "--no-python", "package.train"],),
    (["--run-path", "/abs/train.py", "a"],),
    (["--run_path", "--no-python", "/abs/train", "a"],),
    (TRAIN, {"PYTHON_EXEC": "/opt/python"}),
    (["-m", "package.train"], {"PYTHON_EXEC": "/opt/python"}),
    # What is printed.
    (["--log-dir=/tmp/logs", *TRAIN],),
    (["--log_dir", "/tmp/logs", *TRAIN],),
    (["-r", "3", *TRAIN],),
    (["-r3", *TRAIN],),
    (["-r=3", *TRAIN],),
    (["-mr3", "package.train"],),
    (["--redirects=0:1,1:2", "--tee", "3", *TRAIN],),
    (["-t", "0:3", *TRAIN],),
    (["-t4", *TRAIN],),
    (["-r", "0:1,", *TRAIN],),
    (TRAIN, {"PET_REDIRECTS": "1", "PET_TEE": "2"}),
    (["--log-line-prefix-template=${hostname}: ", *TRAIN],),
    (TRAIN, {"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": "[${rank}]"}),
    (["--local-ranks-filter=0,2", *TRAIN],),
    (["--local_ranks_filter=0,two", *TRAIN],),
    # The rest.
    (["--role=trainer", *TRAIN],),
    (["--monitor-interval=5", *TRAIN],),
    (["--monitor-interval=often", *TRAIN],),
    (["--start-method=fork", *TRAIN],),
    (["--start-method=thread", *TRAIN],),
    (["--event-log-handler=console", *TRAIN],),
    (["--numa-binding=node", *TRAIN],),
    (["--numa-binding=far", *TRAIN],),
    (["--duplicate-stdout-filters=a,b", *TRAIN],),
    (["--signals-to-handle=SIGTERM,SIGUSR1", *TRAIN],),
    (["--shutdown-timeout=5", *TRAIN],),
    (TRAIN, {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "7"}),
    (["--virtual-local-rank", *TRAIN],),
    (TRAIN, {"PET_VIRTUAL_LOCAL_RANK": "1"}),
    (["--unheard-of", *TRAIN],),
    (["--unheard-of=1", *TRAIN],),
    (["-x", *TRAIN],),
    # What this launcher does in another way.
    (["--rdzv-b=c10d", *TRAIN],),
    (["--max-r", "2", *TRAIN],),
    (["./train", "--x"],),
    (["train.py", "--", "a"],),
    (["train.py", "a", "--", "b"],),
]


class Fixed:
    """Stands for what is chosen at random."""

    @staticmethod
    def uuid4():
        return "random"


def record(args, env):
    before = dict(os.environ)
    for name in [name for name in before if name.startswith(("PET_", "TORCHELASTIC_", "TORCH_ELASTIC_"))]:
        del os.environ[name]
    os.environ.pop("PYTHON_EXEC", None)
    os.environ.update(env)
    launched = {}

    def logs_specs(**given):
        launched["output"] = given
        return None

    def elastic_launch(config, entrypoint):
        def launch(*words):
            launched["config"] = config
            launched["argv"] = [word(entrypoint), *words]

        return launch

    def word(entrypoint):
        if callable(entrypoint):
            return "run_path"
        return "python3" if entrypoint == sys.executable else entrypoint

    torchrun.uuid = Fixed
    torchrun.elastic_launch = elastic_launch
    torchrun._get_logs_specs_class = lambda name: logs_specs
    case = {"args": args, "env": env}
    try:
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            torchrun.run(torchrun.parse_args(args))
            case["launch"] = shown(launched)
    except (Exception, SystemExit) as error:
        case["refused"] = type(error).__name__
    finally:
        os.environ.clear()
        os.environ.update(before)
    return case


def shown(launched):
    config, output = launched["config"], launched["output"]
    usual_port = -1 if config.rdzv_backend == "static" else 29400
    host, port = parse_rendezvous_endpoint(config.rdzv_endpoint, usual_port)
    if port == -1:
        raise ValueError("torchrun asks for a port as soon as it meets")

    def streams(value):
        return {str(rank): int(std) for rank, std in value.items()} if isinstance(value, dict) else int(value)

    ranks = output["local_ranks_filter"]
    return {
        "min_nodes": config.min_nodes,
        "max_nodes": config.max_nodes,
        "nproc_per_node": config.nproc_per_node,
        "backend": config.rdzv_backend,
        "host": host,
        "port": port,
        "id": config.run_id,
        "conf": {key: str(value) for key, value in config.rdzv_configs.items() if key != "timeout"},
        "max_restarts": config.max_restarts,
        "role": config.role,
        "local_addr": config.local_addr,
        "prefix": config.log_line_prefix_template,
        "signals": config.signals_to_handle,
        "shutdown_timeout": config.shutdown_timeout,
        "virtual_local_rank": config.virtual_local_rank,
        "log_dir": output["log_dir"],
        "redirects": streams(output["redirects"]),
        "tee": streams(output["tee"]),
        "console_ranks": sorted(ranks) if ranks is not None else None,
        "argv": launched["argv"],
    }


def main():
    cases = [record(args, *(env or [{}])) for args, *env in CORPUS]
    lines = ",\n".join(json.dumps(case) for case in cases)
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write(f'{{"torch": "{torch.__version__.split("+")[0]}", "cases": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
