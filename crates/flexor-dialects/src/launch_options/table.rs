//! Every option: `torchrun`'s of torch 2.15 first, then those that only `dlrover-run` has.

mod dlrover_run;
mod torchrun;

pub(super) use dlrover_run::{AUTO_CONFIG, NODE_UNIT};
pub(super) use torchrun::{
    LOCAL_ADDR, LOCAL_RANKS_FILTER, LOG_DIR, LOG_LINE_PREFIX_TEMPLATE, MASTER_ADDR, MASTER_PORT, MAX_RESTARTS, MODULE,
    NNODES, NO_PYTHON, NODE_RANK, NPROC_PER_NODE, RDZV_BACKEND, RDZV_CONF, RDZV_ENDPOINT, RDZV_ID, REDIRECTS, ROLE,
    RUN_PATH, SHUTDOWN_TIMEOUT, SIGNALS_TO_HANDLE, STANDALONE, TEE, VIRTUAL_LOCAL_RANK,
};

use super::OptionSpec;

/// Every option, in the order of help and reference pages.
pub fn all() -> impl Iterator<Item = &'static OptionSpec> {
    torchrun::ALL.iter().chain(dlrover_run::ALL).copied()
}
