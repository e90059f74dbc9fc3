//! The operator: the controller of jobs on a Kubernetes cluster.
//!
//! ```text
//! API server ─ watches ─▶ caches ─▶ reconcile ─ JobDriver (flexor-control) ─▶ JobExecutor ─▶ API server
//! ```
//!
//! It asks the cluster which kinds it serves and may watch ([`kinds`]), fills its caches ([`watches`]), and reconciles a
//! job whenever the job, one of its pods or services, or a plan for it changes ([`reconcile`]). Decisions, rendering and
//! wording are the engine's and the dialects'; what is here moves objects between them and the API server.
//!
//! Nothing is decided before all caches are complete, and nothing that matters is kept in memory only: a restarted
//! operator goes on from the statuses of the jobs.

mod executor;
mod job_memory;
mod kinds;
mod metrics;
mod operator;
mod owned_objects;
mod plans;
mod probes;
mod reconcile;
mod recorder;
mod slim_pod;
mod status_patch;
mod watches;

use std::net::SocketAddr;

use thiserror::Error;

pub use operator::run;

/// How an operator is started.
#[derive(Debug, Clone)]
pub struct Options {
    /// The image of Flexor's own containers: masters, parameter servers, sidecars.
    pub image: String,
    /// Where probes and metrics are served.
    pub http: SocketAddr,
}

/// Why the operator cannot start or go on.
#[derive(Debug, Error)]
pub enum OperatorError {
    #[error("no cluster is configured: {0}; run it in a pod, or set KUBECONFIG")]
    NoCluster(#[from] kube::config::InferConfigError),
    #[error("the API server refuses: {0}")]
    Api(#[from] kube::Error),
    #[error("{address} cannot be listened on: {error}")]
    Listen { address: SocketAddr, error: std::io::Error },
}
