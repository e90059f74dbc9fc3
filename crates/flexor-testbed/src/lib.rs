//! Real Kubernetes control planes with fake or real nodes, and real PyTorch and DLRover, as guards for tests.
//!
//! A [`Cluster`] is a kube-apiserver, controller manager, scheduler and etcd of its own, with kwok playing any number
//! of nodes. All its processes and files are gone when its owner ends, in whatever way. Tests normally take
//! [`cluster_or_skip!`], one cluster for the whole test process, and a [`TestNamespace`] each. Only a test that breaks
//! the control plane starts its own. As root, [`nodes_or_skip!`] is a cluster with kubelets and containers as well.
//!
//! The annotations of [`stages`] control what pods do on the fake nodes; [`Cluster::serve_metrics`] gives autoscalers
//! their figures. Tests wait with [`await_condition`] and
//! [`await_list`].
//!
//! The programs that Flexor replaces are the released ones: [`torch_or_skip!`] and [`dlrover_or_skip!`] give an
//! environment with one of them, [`torchrun`] plays the nodes of a job with it, and [`flexor_processes`] puts Flexor's
//! own processes around them. The crate is for tests and `cargo xtask`; nothing that users run depends on it.

mod cluster;
mod condition;
mod control_plane;
mod dlrover;
pub mod flexor_processes;
mod grpc;
pub mod images;
mod keeper;
mod log_tail;
mod metrics;
mod nodes;
mod pki;
mod python;
mod real_nodes;
mod skip;
pub mod stages;
mod tools;
mod torch;
mod torchft;
pub mod torchrun;

pub use self::{
    cluster::{Cluster, ClusterConfig, ClusterProgram, TestNamespace},
    condition::{await_condition, await_list},
    control_plane::Component,
    dlrover::Dlrover,
    grpc::Grpc,
    metrics::{MetricsServer, QPS},
    nodes::{FAKE_NODE_TAINT, NodeGroup, is_ready},
    python::{PythonEnv, PythonError},
    real_nodes::{BUSYBOX_IMAGE, NodeTools, NodeToolsError, RealNode, import_into_node},
    tools::{Tools, ToolsError, cache_dir},
    torch::Torch,
    torchft::Torchft,
};
