//! Flexor's own environment variables, each named and explained once.
//!
//! Code uses the constants. `docs/reference/environment.md` is generated from [`ALL`]. Only the edges read variables:
//! the binary, the testbed and xtask.

/// One environment variable that Flexor or its test tools read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EnvVar {
    /// The name, `FLEXOR_…`.
    pub name: &'static str,
    /// The programs that read it.
    pub read_by: &'static str,
    /// What holds where it is not set.
    pub default: &'static str,
    pub meaning: &'static str,
}

/// Where built tools and other reusable things are kept.
pub const CACHE: EnvVar = EnvVar {
    name: "FLEXOR_CACHE",
    read_by: "cargo xtask, tests",
    default: "`$XDG_CACHE_HOME/flexor`, else `~/.cache/flexor`",
    meaning: "Folder outside the checkout for what is built once and used again: the Kubernetes control plane, etcd, \
              kwok, cargo-fuzz, and Python environments with torch and DLRover.",
};

/// The `flexor` program that tests run.
pub const BIN: EnvVar = EnvVar {
    name: "FLEXOR_BIN",
    read_by: "tests",
    default: "the `flexor` of the same build",
    meaning: "Path of the `flexor` program that tests start. `cargo xtask test` builds it once and sets this.",
};

/// The seed of random tests.
pub const SEED: EnvVar = EnvVar {
    name: "FLEXOR_SEED",
    read_by: "tests",
    default: "the seeds that each test names, or another one each time",
    meaning: "The one seed that random tests play. A test that fails prints the line with its seed. `cargo xtask test` \
              sets `PROPTEST_RNG_SEED` to the same number, for tests with proptest.",
};

/// The file with the faults that are injected into a master.
pub const FAULTS: EnvVar = EnvVar {
    name: "FLEXOR_FAULTS",
    read_by: "flexor master",
    default: "no faults",
    meaning: "For tests and benches: path of a JSON file with faults that are injected into the master, `fsync_delay_ms`, \
              `clock_offset_ms`, `write_error` and `fsync_error` (`ENOSPC`, `EDQUOT` or `EIO`). The file may be \
              rewritten at any time.",
};

/// The file with the job's token.
pub const TOKEN_FILE: EnvVar = EnvVar {
    name: "FLEXOR_TOKEN_FILE",
    read_by: "flexor master, flexor ps, flexor worker, flexor sidecar, flexor launch, programs under it",
    default: "no token",
    meaning: "File with the token that the parts of one job show each other, as with `--token-file`, which `flexor \
              launch` does not have.",
};

/// Where a master keeps its journal.
pub const STATE: EnvVar = EnvVar {
    name: "FLEXOR_STATE",
    read_by: "flexor master",
    default: "no journal",
    meaning: "Folder of the master's journal, as with `--state`.",
};

/// Whether a master starts with a journal that has lost facts.
pub const ACCEPT_JOURNAL_LOSS: EnvVar = EnvVar {
    name: "FLEXOR_ACCEPT_JOURNAL_LOSS",
    read_by: "flexor master",
    default: "`false`",
    meaning: "`true` lets the master start with a damaged journal, as with `--accept-journal-loss`.",
};

/// What servers log.
pub const LOG: EnvVar = EnvVar {
    name: "FLEXOR_LOG",
    read_by: "flexor master, flexor sidecar, flexor launch",
    default: "`info`; in `flexor launch` what the launcher does, and warnings of others",
    meaning: "What is logged to standard error: a level (`error`, `warn`, `info`, `debug`, `trace`), or one for each \
              part, such as `info,flexor_store=debug`.",
};

/// The address of the job's master.
pub const MASTER: EnvVar = EnvVar {
    name: "FLEXOR_MASTER",
    read_by: "programs under `flexor launch`",
    default: "no master",
    meaning: "`HOST:PORT` of the job's master, its gRPC services and its `/api`. Set by `flexor launch`, and in the pods of `flexor run`.",
};

/// How often a worker goes through its data.
pub const EPOCHS: EnvVar = EnvVar {
    name: "FLEXOR_EPOCHS",
    read_by: "flexor worker",
    default: "1",
    meaning: "Number of epochs, as with `--epochs`. Set in the trainers of a `TrainingJob` with `passes`.",
};

/// The name of a worker's process.
pub const WORKER: EnvVar = EnvVar {
    name: "FLEXOR_WORKER",
    read_by: "programs under `flexor launch`",
    default: "no worker",
    meaning: "The name under which the process leases batches: its node and its local rank. Set by `flexor launch`.",
};

/// The incarnation of a worker's process.
pub const INCARNATION: EnvVar = EnvVar {
    name: "FLEXOR_INCARNATION",
    read_by: "programs under `flexor launch`",
    default: "0",
    meaning: "The incarnation of the worker's process; a later one has a higher number. Set by `flexor launch`.",
};

/// The socket for changes of a program's world.
pub const WORLD_SOCKET: EnvVar = EnvVar {
    name: "FLEXOR_WORLD_SOCKET",
    read_by: "programs under `flexor launch`",
    default: "no socket",
    meaning: "Path of the Unix socket over which `flexor launch` announces changes of the world to a program that \
              outlives them. Set by `flexor launch`.",
};

/// The shell that completes a line.
pub const COMPLETE: EnvVar = EnvVar {
    name: "FLEXOR_COMPLETE",
    read_by: "flexor",
    default: "nothing is completed",
    meaning: "Set by the scripts of `flexor completions`, to the name of the shell that asks what may stand where the \
              cursor is.",
};

/// Every variable, in the order of the reference page.
pub const ALL: &[EnvVar] = &[
    CACHE,
    BIN,
    SEED,
    TOKEN_FILE,
    STATE,
    ACCEPT_JOURNAL_LOSS,
    LOG,
    FAULTS,
    MASTER,
    EPOCHS,
    WORKER,
    INCARNATION,
    WORLD_SOCKET,
    COMPLETE,
];
