//! Real nodes: kubelet, kube-proxy, containerd and containers, inside the namespaces of one cluster. Needs root.
//!
//! Every node has network and mount namespaces of its own (`namespaces`) on a bridge of the cluster (`network`), so a
//! test can cut off any of them. The control plane and CoreDNS are on the cluster's side of that bridge. All processes
//! are in the cluster's process-id namespace and end with it. Only cgroups are outside; [`crate::keeper`] removes them.
//!
//! [`NodeTools::ensure`] provides the programs. Images come from archives ([`RealNode::import_image`]); no registry is
//! reachable. [`BUSYBOX_IMAGE`] is on every node.

mod busybox;
mod config;
mod images;
mod mounts;
mod namespaces;
mod network;
mod node;
pub(crate) mod packages;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::Context as _;

pub use self::{
    busybox::BUSYBOX_IMAGE,
    images::import_into_node,
    node::RealNode,
    packages::{NodeTools, NodeToolsError},
};
pub(crate) use self::{mounts::NodeMount, network::CONTROL_PLANE};
use crate::{
    keeper::{Keeper, RunningProgram, Sandbox, cgroups, wait_until},
    log_tail::last_lines,
};

/// How long one step of a node's start may take; an idle machine needs a second.
const STEP_DEADLINE: Duration = Duration::from_secs(60);

/// How much of a log an error carries.
const LOG_LINES_IN_ERRORS: usize = 15;

/// The real nodes of one cluster, and the name server of their pods.
#[derive(Debug)]
pub(crate) struct RealNodes {
    tools: NodeTools,
    sandbox: Sandbox,
    folder: PathBuf,
    kubeconfig: PathBuf,
    coredns: Mutex<Option<RunningProgram>>,
    nodes: Vec<RealNode>,
}

impl RealNodes {
    /// Makes the network and `count` nodes with a container runtime and [`BUSYBOX_IMAGE`]. Every container gets the
    /// `mounts`. The kubelets are started later, when `kubeconfig` leads to an API server.
    pub(crate) fn prepare(
        tools: NodeTools,
        keeper: &Keeper,
        count: usize,
        mounts: &[NodeMount],
        kubeconfig: PathBuf,
    ) -> anyhow::Result<Self> {
        let (sandbox, folder) = (keeper.sandbox().clone(), keeper.folder().to_owned());
        network::create_bridge(&sandbox)?;
        let mut nodes = Vec::new();
        for number in 1..=count {
            let node = RealNode::create(&tools, &sandbox, &folder, number, mounts, &kubeconfig)
                .with_context(|| format!("make node-{number}"))?;
            nodes.push(node);
        }
        network::connect_pods(&sandbox, &nodes)?;
        let image = busybox::archive(&folder)?;
        for node in &nodes {
            node.await_container_runtime()?;
            node.import_image(&image)?;
        }
        Ok(Self { tools, sandbox, folder, kubeconfig, coredns: Mutex::new(None), nodes })
    }

    /// Starts the kubelets, proxies and the name server. The nodes become Ready some seconds later.
    pub(crate) fn start(&self) -> anyhow::Result<()> {
        let corefile = self.folder.join("Corefile");
        fs::write(&corefile, config::corefile(&self.kubeconfig)).context("write the Corefile")?;
        let mut command = self.sandbox.owned_command(&self.tools.programs().coredns());
        command.arg("-conf").arg(&corefile);
        *self.coredns() = Some(spawn_logged(&self.sandbox, &mut command, &self.log())?);
        self.nodes.iter().try_for_each(RealNode::start_agents)
    }

    pub(crate) fn all(&self) -> &[RealNode] {
        &self.nodes
    }

    /// An error with the end of a log if a program has exited by itself.
    pub(crate) fn check_alive(&self) -> anyhow::Result<()> {
        if let Some(status) = self.coredns().as_mut().and_then(RunningProgram::ended) {
            anyhow::bail!("coredns ended ({status}); its log ends with\n{}", log_tail(&self.log()));
        }
        self.nodes.iter().try_for_each(RealNode::check_alive)
    }

    /// The last lines of all logs.
    pub(crate) fn log_tails(&self) -> String {
        self.nodes.iter().map(RealNode::log_tails).collect()
    }

    fn coredns(&self) -> MutexGuard<'_, Option<RunningProgram>> {
        // A panic with the lock held does not change whether it runs.
        self.coredns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log(&self) -> PathBuf {
        self.folder.join("log/coredns.log")
    }
}

/// Starts a command of `sandbox` with its output appended to a log.
fn spawn_logged(sandbox: &Sandbox, command: &mut std::process::Command, log: &Path) -> anyhow::Result<RunningProgram> {
    let file = fs::File::options().create(true).append(true).open(log);
    let file = file.with_context(|| format!("open {}", log.display()))?;
    command.env("PATH", packages::search_path()).stdout(file.try_clone()?).stderr(file);
    RunningProgram::spawn(sandbox, command).with_context(|| format!("start {command:?}"))
}

/// Makes the cgroup of a node and gives its path below every hierarchy.
fn create_cgroup(cluster_folder: &Path, node: &str) -> anyhow::Result<PathBuf> {
    let cluster = cluster_folder.file_name().context("the cluster's folder has a name")?;
    let group = Path::new(cluster).join(node);
    cgroups::create(&group)?;
    Ok(group)
}

/// Waits for a step of the start that can only be polled.
fn await_step(what: &str, log: &Path, done: impl FnMut() -> bool) -> anyhow::Result<()> {
    anyhow::ensure!(
        wait_until(STEP_DEADLINE, done),
        "waited {STEP_DEADLINE:?} for {what}; its log ends with\n{}",
        log_tail(log)
    );
    Ok(())
}

fn log_tail(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    last_lines(&String::from_utf8_lossy(&text), LOG_LINES_IN_ERRORS)
}
