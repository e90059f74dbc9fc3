//! A test cluster as a guard: tests use it through a client or kubectl, break it on purpose, and it ends with its
//! owner.
//!
//! `start` starts it, `connector` reaches its API server, `listener` lets a test answer its programs, `namespace` makes one
//! namespace per test, and `shared` holds the cluster that all tests of a process share. [`crate::control_plane`] owns the
//! processes; [`crate::keeper`] ends them.

mod connector;
mod listener;
mod namespace;
mod program;
mod real_nodes;
mod shared;
mod start;

use std::{
    ffi::OsStr,
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::net::TcpStream;

pub use self::namespace::TestNamespace;
pub use self::program::ClusterProgram;
use crate::{
    control_plane::{Audit, Component, ControlPlane},
    keeper::{Isolation, Keeper, Sandbox},
    nodes::{self, NodeGroup},
    real_nodes::{NodeMount, RealNodes},
    stages::PodTimes,
    tools::Tools,
};

/// The configuration of a new cluster.
#[derive(Debug, Clone)]
pub struct ClusterConfig {
    nodes: Vec<NodeGroup>,
    real_nodes: usize,
    node_mounts: Vec<NodeMount>,
    isolation: Isolation,
    audit: Audit,
    pod_times: PodTimes,
}

impl Default for ClusterConfig {
    /// Eight nodes of the usual size.
    fn default() -> Self {
        Self::with_nodes([NodeGroup::new("node", 8)])
    }
}

impl ClusterConfig {
    /// A cluster with these nodes; more can be added later.
    pub fn with_nodes(nodes: impl IntoIterator<Item = NodeGroup>) -> Self {
        Self {
            nodes: nodes.into_iter().collect(),
            real_nodes: 0,
            node_mounts: Vec::new(),
            isolation: Isolation::WherePossible,
            audit: Audit::Off,
            pod_times: PodTimes::default(),
        }
    }

    /// Adds `count` nodes with kubelets and containers, named `node-1`, `node-2`, …. Fake nodes beside them must have
    /// other names; they are tainted with [`FAKE_NODE_TAINT`](crate::FAKE_NODE_TAINT). Needs root.
    pub fn and_real_nodes(self, count: usize) -> Self {
        let nodes = self.nodes.into_iter().map(|group| group.taint(nodes::FAKE_NODE_TAINT, "", "NoSchedule"));
        Self { nodes: nodes.collect(), real_nodes: count, isolation: Isolation::Required, ..self }
    }

    /// Shows a folder of this machine, read-only, in every container of the real nodes. Pods need no volume for it.
    pub fn with_node_mount(mut self, host: impl Into<PathBuf>, container: impl Into<PathBuf>) -> Self {
        self.node_mounts.push(NodeMount { host: host.into(), container: container.into() });
        self
    }

    /// Runs on the host's loopback also as root, for programs that cannot be started inside a namespace.
    pub fn on_loopback(self) -> Self {
        Self { isolation: Isolation::None, ..self }
    }

    /// Gives these times to pods on fake nodes that have no annotations for them.
    pub fn with_pod_times(self, pod_times: PodTimes) -> Self {
        Self { pod_times, ..self }
    }

    /// Has the API server write down every request of a service account: see [`Cluster::audit_log`].
    pub fn auditing_service_accounts(self) -> Self {
        Self { audit: Audit::ServiceAccounts, ..self }
    }
}

/// A running cluster; dropping it ends it.
#[derive(Debug)]
pub struct Cluster {
    // Fields drop in this order: the control plane, then the sandbox, which ends all other processes.
    plane: Mutex<ControlPlane>,
    keeper: Keeper,
    real_nodes: Option<RealNodes>,
    tools: Tools,
    kubeconfig: PathBuf,
}

impl Cluster {
    /// Starts a cluster and waits until its nodes are Ready and a pod could be created.
    pub async fn start(config: ClusterConfig) -> anyhow::Result<Self> {
        start::start(config).await
    }

    /// The cluster that all tests of this process share; the first caller starts it. It has the default nodes.
    pub async fn shared() -> Result<&'static Self, &'static anyhow::Error> {
        shared::get().await
    }

    /// The cluster with two real nodes and two fake ones that all tests of this process share.
    pub async fn shared_with_real_nodes() -> Result<&'static Self, &'static anyhow::Error> {
        shared::get_with_real_nodes().await
    }

    /// A client with the administrator's rights. Each call makes a new one, because its connections belong to the
    /// caller's tokio runtime and every test has its own.
    pub async fn client(&self) -> anyhow::Result<kube::Client> {
        self.client_of(&self.kubeconfig).await
    }

    /// A client with the identity of a kubeconfig, such as one of [`Cluster::kubeconfig_of`].
    pub async fn client_of(&self, kubeconfig: &Path) -> anyhow::Result<kube::Client> {
        let api_server = self.plane().api_server();
        connector::client(kubeconfig, api_server, self.keeper.sandbox()).await
    }

    /// Connects to a port in the cluster's network, for a test that talks to a program of [`Cluster::command_in`].
    pub async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream> {
        connector::Connector::new(self.keeper.sandbox(), address).connect().await
    }

    /// The kubectl of this cluster's version, set up to talk to it.
    pub fn kubectl<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        let mut command = self.command_in(self.tools.kubectl());
        command.args(args);
        command
    }

    /// A command in the cluster's network, with `KUBECONFIG` set: for the programs under test.
    pub fn command_in(&self, program: impl AsRef<Path>) -> Command {
        let mut command = self.keeper.sandbox().network_command(program.as_ref());
        command.env("KUBECONFIG", &self.kubeconfig);
        // Clusters in namespaces share one address, so kubectl would mix up their caches.
        command.env("KUBECACHEDIR", self.folder().join("kubectl-cache"));
        command
    }

    /// The administrator's kubeconfig. Its address is valid in the cluster's network (see [`Cluster::command_in`]).
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The built programs.
    pub fn tools(&self) -> &Tools {
        &self.tools
    }

    /// The cluster's folder; it is removed at the end.
    pub fn folder(&self) -> &Path {
        self.keeper.folder()
    }

    /// As root, the process whose namespaces hold the cluster, for `nsenter --target`; otherwise `None`.
    pub fn namespace_pid(&self) -> Option<u32> {
        match self.keeper.sandbox() {
            Sandbox::Namespaces { init, .. } => Some(*init),
            Sandbox::Loopback { .. } => None,
        }
    }

    /// Makes a namespace for one test, named after `hint`, and waits until pods can be created in it.
    pub async fn namespace(&self, hint: &str) -> anyhow::Result<TestNamespace<'_>> {
        TestNamespace::create(self, hint).await
    }

    /// Adds nodes and waits until they are Ready.
    pub async fn add_nodes(&self, group: NodeGroup) -> anyhow::Result<()> {
        nodes::add(&self.client().await?, &[group]).await
    }

    /// Deletes a Node object, as a cloud provider does for a lost machine. kwok stops playing its pods; the pod garbage
    /// collector removes them about a minute later.
    pub async fn remove_node(&self, name: &str) -> anyhow::Result<()> {
        nodes::remove(&self.client().await?, name).await
    }

    /// Makes a node unreachable at once: it stops reporting and is tainted. Its pods are evicted when their tolerations
    /// end, but no kubelet reports their end.
    pub async fn lose_node(&self, name: &str) -> anyhow::Result<()> {
        nodes::lose(&self.client().await?, name).await
    }

    /// The log file of a component.
    pub fn logs(&self, component: Component) -> PathBuf {
        self.plane().log(component)
    }

    /// The requests of service accounts, one JSON object of `audit.k8s.io/v1` per line, if they are audited
    /// ([`ClusterConfig::auditing_service_accounts`]). A request is in it before its answer is sent.
    pub fn audit_log(&self) -> PathBuf {
        self.plane().audit_log()
    }

    /// The process id of a running component, as the host counts.
    pub fn pid(&self, component: Component) -> Option<u32> {
        self.plane().pid(component)
    }

    /// Ends a component with SIGKILL. For tests that own their cluster.
    pub fn kill(&self, component: Component) -> anyhow::Result<()> {
        self.plane().kill(component)
    }

    /// Ends a component if it runs, starts it again and waits until the API server answers.
    pub async fn restart(&self, component: Component) -> anyhow::Result<()> {
        {
            let mut plane = self.plane();
            plane.kill(component)?;
            plane.start(component)?;
        }
        start::await_api_server(self).await
    }

    fn plane(&self) -> MutexGuard<'_, ControlPlane> {
        // A panic with the lock held does not change which processes run.
        self.plane.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
