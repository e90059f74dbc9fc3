//! The options of torchrun, with its names and defaults; where a default is another, the help says so.

use crate::launch_options::OptionSpec;

pub(in crate::launch_options) const NNODES: OptionSpec =
    OptionSpec::text("--nnodes", "MIN:MAX", "1:1", "How many nodes the world may have: MIN:MAX, or N");

pub(in crate::launch_options) const NPROC_PER_NODE: OptionSpec = OptionSpec::text(
    "--nproc-per-node",
    "N",
    "1",
    "How many processes each node runs: a number, cpu, gpu or xpu for one each, or auto for those there are",
);

pub(in crate::launch_options) const RDZV_BACKEND: OptionSpec =
    OptionSpec::text("--rdzv-backend", "NAME", "static", "How the nodes meet: c10d (elastic) or static");

pub(in crate::launch_options) const RDZV_ENDPOINT: OptionSpec = OptionSpec::text(
    "--rdzv-endpoint",
    "HOST[:PORT]",
    "",
    "Where the nodes meet: the address of the job's master, or of the node that serves; for c10d no port, or torchrun's \
     29400, is taken for 50001",
);

pub(in crate::launch_options) const RDZV_ID: OptionSpec =
    OptionSpec::text("--rdzv-id", "ID", "none", "The job to take part in, by its name or uid; another one is refused");

pub(in crate::launch_options) const RDZV_CONF: OptionSpec = OptionSpec::text(
    "--rdzv-conf",
    "K1=V1[,K2=V2…]",
    "",
    "How the nodes meet, in detail: join_timeout, last_call_timeout and change_timeout in seconds, is_host",
);

pub(in crate::launch_options) const STANDALONE: OptionSpec =
    OptionSpec::flag("--standalone", "Run on this machine alone; whatever --rdzv-* says is ignored");

pub(in crate::launch_options) const MAX_RESTARTS: OptionSpec = OptionSpec::integer(
    "--max-restarts",
    "N",
    "3",
    "How many failures of the program are forgiven (torchrun: 0); nodes that are lost or join cost nothing",
);

const MONITOR_INTERVAL: OptionSpec =
    OptionSpec::number("--monitor-interval", "SECONDS", "0.1", "How often torchrun looks after its processes")
        .no_effect("the end of a process is noticed at once, nothing is polled");

const START_METHOD: OptionSpec = OptionSpec::choice(
    "--start-method",
    &["spawn", "fork", "forkserver"],
    "spawn",
    "How torchrun starts processes that are Python functions",
)
.no_effect("a program is always started as a process of its own, by torchrun too");

const EVENT_LOG_HANDLER: OptionSpec =
    OptionSpec::text("--event-log-handler", "NAME", "null", "Which Python code torchrun tells its events")
        .no_effect("Python code of torchrun is not loaded; events are logged to standard error and kept by the master");

pub(in crate::launch_options) const ROLE: OptionSpec =
    OptionSpec::text("--role", "NAME", "default", "What the processes are called: ROLE_NAME and the lines' prefix");

pub(in crate::launch_options) const MODULE: OptionSpec =
    OptionSpec::flag("--module", "The program is a Python module, as with python -m").short('m');

pub(in crate::launch_options) const NO_PYTHON: OptionSpec =
    OptionSpec::flag("--no-python", "The program is executed itself, even if its name ends in .py");

pub(in crate::launch_options) const RUN_PATH: OptionSpec =
    OptionSpec::flag("--run-path", "The program is a Python script, whatever its name; stronger than --no-python");

pub(in crate::launch_options) const LOG_DIR: OptionSpec =
    OptionSpec::text("--log-dir", "DIR", "", "The folder for what --redirects and --tee write [default: a new one]");

pub(in crate::launch_options) const REDIRECTS: OptionSpec = OptionSpec::text(
    "--redirects",
    "STREAMS",
    "0",
    "What goes to files: 0 nothing, 1 stdout, 2 stderr, 3 both; or by local rank, such as 0:1,1:3",
)
.short('r');

pub(in crate::launch_options) const TEE: OptionSpec =
    OptionSpec::text("--tee", "STREAMS", "0", "What goes to files and to the console; written as for --redirects")
        .short('t');

pub(in crate::launch_options) const LOG_LINE_PREFIX_TEMPLATE: OptionSpec = OptionSpec::text(
    "--log-line-prefix-template",
    "TEXT",
    "",
    "What stands before each line of --tee, with ${role_name}, ${local_rank}, ${rank}, ${hostname} filled in",
);

pub(in crate::launch_options) const LOCAL_RANKS_FILTER: OptionSpec = OptionSpec::text(
    "--local-ranks-filter",
    "RANKS",
    "",
    "Show only these local ranks on the console, such as 0,1 [default: all]",
);

const DUPLICATE_STDOUT_FILTERS: OptionSpec = OptionSpec::text(
    "--duplicate-stdout-filters",
    "WORDS",
    "",
    "Words whose lines torchrun writes to another file too, of standard output",
)
.no_effect("no second file is written; search the files of --tee instead");

const DUPLICATE_STDERR_FILTERS: OptionSpec = OptionSpec::text(
    "--duplicate-stderr-filters",
    "WORDS",
    "",
    "Words whose lines torchrun writes to another file too, of standard error",
)
.no_effect("no second file is written; search the files of --tee instead");

pub(in crate::launch_options) const NODE_RANK: OptionSpec =
    OptionSpec::integer("--node-rank", "N", "0", "The rank of this node; only for the static rendezvous");

pub(in crate::launch_options) const MASTER_ADDR: OptionSpec =
    OptionSpec::text("--master-addr", "HOST", "127.0.0.1", "The node of rank 0; only for the static rendezvous");

pub(in crate::launch_options) const MASTER_PORT: OptionSpec = OptionSpec::integer(
    "--master-port",
    "PORT",
    "",
    "The port of the node of rank 0; only for the static rendezvous [default: 29500]",
);

pub(in crate::launch_options) const LOCAL_ADDR: OptionSpec =
    OptionSpec::text("--local-addr", "HOST", "", "The address of this node for the others [default: its name]");

const LOGS_SPECS: OptionSpec =
    OptionSpec::text("--logs-specs", "NAME", "", "Which Python class torchrun lets write its logs")
        .without_env()
        .refused("it names a Python class that only torchrun can load", "use --log-dir, --redirects and --tee");

const NUMA_BINDING: OptionSpec = OptionSpec::choice(
    "--numa-binding",
    &["node", "socket", "exclusive", "core-complex"],
    "",
    "Binds processes to the CPUs near their GPU",
)
.without_env()
.no_effect("processes are not bound to CPUs; start the program under numactl where that matters");

pub(in crate::launch_options) const SIGNALS_TO_HANDLE: OptionSpec = OptionSpec::text(
    "--signals-to-handle",
    "SIGNALS",
    "SIGTERM,SIGINT,SIGHUP,SIGQUIT",
    "The signals that end the launcher and are passed on to its processes",
);

pub(in crate::launch_options) const SHUTDOWN_TIMEOUT: OptionSpec = OptionSpec::integer(
    "--shutdown-timeout",
    "SECONDS",
    "",
    "How long processes have to end by themselves [default: TORCH_ELASTIC_SHUTDOWN_TIMEOUT, else 30]",
);

pub(in crate::launch_options) const VIRTUAL_LOCAL_RANK: OptionSpec =
    OptionSpec::flag("--virtual-local-rank", "Every process sees one GPU, its own, and LOCAL_RANK 0");

/// Of `torch.distributed.launch`, torchrun's predecessor.
const USE_ENV: OptionSpec =
    OptionSpec::flag("--use-env", "Pass the local rank in LOCAL_RANK and not as an argument, as is always done here")
        .without_env();

const PRINT_COMPLETION: OptionSpec =
    OptionSpec::choice("--print-completion", &["bash", "zsh", "tcsh"], "", "Prints a completion script")
        .without_env()
        .refused("the script would be torchrun's", "run `flexor completions SHELL`");

/// All of them.
pub(super) const ALL: &[&OptionSpec] = &[
    &NNODES,
    &NPROC_PER_NODE,
    &RDZV_BACKEND,
    &RDZV_ENDPOINT,
    &RDZV_ID,
    &RDZV_CONF,
    &STANDALONE,
    &MAX_RESTARTS,
    &MONITOR_INTERVAL,
    &START_METHOD,
    &EVENT_LOG_HANDLER,
    &ROLE,
    &MODULE,
    &NO_PYTHON,
    &RUN_PATH,
    &LOG_DIR,
    &REDIRECTS,
    &TEE,
    &LOG_LINE_PREFIX_TEMPLATE,
    &LOCAL_RANKS_FILTER,
    &DUPLICATE_STDOUT_FILTERS,
    &DUPLICATE_STDERR_FILTERS,
    &NODE_RANK,
    &MASTER_ADDR,
    &MASTER_PORT,
    &LOCAL_ADDR,
    &LOGS_SPECS,
    &NUMA_BINDING,
    &SIGNALS_TO_HANDLE,
    &SHUTDOWN_TIMEOUT,
    &VIRTUAL_LOCAL_RANK,
    &USE_ENV,
    &PRINT_COMPLETION,
];
