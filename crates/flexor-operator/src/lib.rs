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

mod automatic_plans;
mod claim;
mod cluster_pods;
mod executor;
mod job_events;
mod job_memory;
mod job_tokens;
mod kinds;
mod master_link;
mod metrics;
mod nodes;
mod operator;
mod own_image;
mod owned_objects;
mod planning;
mod plans;
mod probes;
mod reconcile;
mod recorder;
mod refusal;
mod slim_pod;
mod status_patch;
mod watch_backoff;
mod watches;

use std::net::SocketAddr;

use thiserror::Error;

pub use operator::run;

/// How an operator is started.
#[derive(Debug, Clone)]
pub struct Options {
    /// The image of Flexor's own containers: masters, parameter servers, sidecars. None: the image of this process.
    pub image: Option<String>,
    /// Where probes and metrics are served.
    pub http: SocketAddr,
    /// For tests with fake nodes: no master is dialled.
    pub feeds_masters: bool,
    /// For tests: the process aborts after so many actions.
    pub abort_after: Option<u64>,
}

/// Why the operator cannot start or go on.
#[derive(Debug, Error)]
pub enum OperatorError {
    #[error("no cluster is configured: {0}; run it in a pod, or set KUBECONFIG")]
    NoCluster(#[from] kube::config::InferConfigError),
    #[error("the API server refuses: {0}")]
    Api(#[from] kube::Error),
    #[error(
        "{} is not the definition that Flexor installs, so fields that Flexor needs would be dropped; replace it: flexor crd | \
         kubectl apply --server-side --force-conflicts -f -", .0.join(", ")
    )]
    ForeignKinds(Vec<String>),
    #[error(
        "Secret {secret} in namespace {namespace} has no entry `key` of at least 32 bytes; delete it, and a new one is created \
         (running jobs keep tokens of the old key; docs/operations/security.md says how they get new ones)"
    )]
    Key { namespace: String, secret: &'static str },
    #[error("no random numbers: {0}")]
    Random(std::io::Error),
    #[error("{0}, which is a fault of Flexor: the operator has to be started again")]
    TaskEnded(String),
    #[error("{address} cannot be listened on: {error}")]
    Listen { address: SocketAddr, error: std::io::Error },
}
