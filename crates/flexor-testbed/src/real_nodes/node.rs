//! One real node: its programs, its images, and the faults that a test can inject.

use std::{
    fs,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
};

use anyhow::{Context as _, ensure};

use super::{
    NodeMount, NodeTools, await_step, config, create_cgroup, images, log_tail, mounts, namespaces,
    network::{self, NodeAddresses},
    packages, spawn_logged,
};
use crate::keeper::{RunningProgram, Sandbox};

/// A client of the API server notices after these seconds that its connection leads nowhere.
const CONNECTION_CHECK: [(&str, &str); 2] =
    [("HTTP2_READ_IDLE_TIMEOUT_SECONDS", "4"), ("HTTP2_PING_TIMEOUT_SECONDS", "3")];

/// A program of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Agent {
    Containerd,
    Kubelet,
    KubeProxy,
}

/// A node with a kubelet and containers.
#[derive(Debug)]
pub struct RealNode {
    name: String,
    tools: NodeTools,
    addresses: NodeAddresses,
    folder: PathBuf,
    kubeconfig: PathBuf,
    cluster: Sandbox,
    sandbox: Sandbox,
    /// Lives as long as the cluster; here so that its end is noticed.
    _holder: RunningProgram,
    running: Mutex<Vec<(Agent, RunningProgram)>>,
}

impl RealNode {
    /// Makes a node and starts its container runtime. `number` counts from 1.
    pub(super) fn create(
        tools: &NodeTools,
        cluster: &Sandbox,
        cluster_folder: &Path,
        number: usize,
        mounts: &[NodeMount],
        kubeconfig: &Path,
    ) -> anyhow::Result<Self> {
        let addresses = NodeAddresses::of(number)?;
        let name = format!("node-{number}");
        let folder = cluster_folder.join(&name);
        fs::create_dir_all(folder.join("networks"))?;
        fs::create_dir_all(folder.join("log"))?;
        let (holder, sandbox) = namespaces::create(cluster, &folder)?;
        network::connect(cluster, &sandbox, &name, addresses)?;
        let cgroup = create_cgroup(cluster_folder, &name)?;
        let node = Self {
            name,
            tools: tools.clone(),
            addresses,
            folder,
            kubeconfig: kubeconfig.to_owned(),
            cluster: cluster.clone(),
            sandbox,
            _holder: holder,
            running: Mutex::default(),
        };
        node.write_configuration(&cgroup, &cluster_folder.join("pki/ca.crt"), mounts)?;
        node.start(Agent::Containerd)?;
        Ok(node)
    }

    /// The node's name in Kubernetes.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its InternalIP.
    pub fn address(&self) -> Ipv4Addr {
        self.addresses.node()
    }

    /// A process, as the host counts, whose network and mount namespaces are the node's: for `nsenter --target`.
    pub fn namespace_pid(&self) -> Option<u32> {
        match &self.sandbox {
            Sandbox::Namespaces { init, .. } => Some(*init),
            Sandbox::Loopback { .. } => None,
        }
    }

    /// A command in the node's namespaces, such as `ctr`.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = self.sandbox.owned_command(program.as_ref());
        command.env("PATH", packages::search_path());
        command
    }

    /// Imports the images of an archive (`docker save` or OCI layout, as a tar file).
    pub fn import_image(&self, archive: &Path) -> anyhow::Result<()> {
        images::import(&self.sandbox, &self.name, archive).map(drop)
    }

    /// Cuts the node off from the control plane and all other nodes. Packets are lost; no connection is closed.
    pub fn cut_network(&self) -> anyhow::Result<()> {
        network::cut(&self.cluster, &self.name)
    }

    /// Ends [`RealNode::cut_network`].
    pub fn mend_network(&self) -> anyhow::Result<()> {
        network::mend(&self.cluster, &self.name)
    }

    /// Ends the kubelet with SIGKILL. Containers go on.
    pub fn kill_kubelet(&self) -> anyhow::Result<()> {
        let mut running = self.running();
        let index = running.iter().position(|(agent, _)| *agent == Agent::Kubelet);
        let index = index.with_context(|| format!("no kubelet runs on {}", self.name))?;
        let (_, kubelet) = running.swap_remove(index);
        kubelet.kill().with_context(|| format!("kill the kubelet of {}", self.name))
    }

    /// Starts the kubelet again.
    pub fn start_kubelet(&self) -> anyhow::Result<()> {
        self.start(Agent::Kubelet)
    }

    /// The kubelet's log.
    pub fn kubelet_log(&self) -> PathBuf {
        self.log(Agent::Kubelet)
    }

    pub(super) fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    pub(super) fn addresses(&self) -> NodeAddresses {
        self.addresses
    }

    /// Starts kubelet and kube-proxy.
    pub(super) fn start_agents(&self) -> anyhow::Result<()> {
        [Agent::Kubelet, Agent::KubeProxy].into_iter().try_for_each(|agent| self.start(agent))
    }

    /// Waits until containerd answers.
    pub(super) fn await_container_runtime(&self) -> anyhow::Result<()> {
        let answers = || {
            let version =
                images::ctr(&self.sandbox).arg("version").stdout(Stdio::null()).stderr(Stdio::null()).status();
            version.is_ok_and(|status| status.success())
        };
        await_step(&format!("containerd of {}", self.name), &self.log(Agent::Containerd), answers)
    }

    pub(super) fn check_alive(&self) -> anyhow::Result<()> {
        let mut running = self.running();
        let ended = running.iter_mut().find_map(|(agent, program)| Some((*agent, program.ended()?)));
        let Some((agent, status)) = ended else {
            return Ok(());
        };
        let log = log_tail(&self.log(agent));
        anyhow::bail!("{} of {} ended ({status}); its log ends with\n{log}", agent.name(), self.name)
    }

    pub(super) fn log_tails(&self) -> String {
        let tail = |agent: Agent| {
            let log = log_tail(&self.log(agent));
            format!("the log of {} of {} ends with\n{log}\n", agent.name(), self.name)
        };
        [Agent::Containerd, Agent::Kubelet, Agent::KubeProxy].map(tail).concat()
    }

    fn write_configuration(&self, cgroup: &Path, authority: &Path, mounts: &[NodeMount]) -> anyhow::Result<()> {
        let networks = self.folder.join("networks");
        let resolv_conf = self.folder.join("resolv.conf");
        let containers = self.folder.join("containers.json");
        let containerd =
            config::containerd(&self.folder.join("containerd"), self.tools.plugins(), &networks, &containers);
        let files = [
            (self.configuration(Agent::Containerd), containerd),
            (containers, mounts::base_of_containers(mounts)?),
            (networks.join("10-testbed.conflist"), config::pod_network(&self.addresses.pods())),
            (self.configuration(Agent::Kubelet), config::kubelet(cgroup, authority, &resolv_conf)),
            (self.configuration(Agent::KubeProxy), config::kube_proxy(&self.name, &self.kubeconfig)),
            (resolv_conf, config::resolv_conf()),
        ];
        for (path, text) in files {
            fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
        }
        Ok(())
    }

    fn start(&self, agent: Agent) -> anyhow::Result<()> {
        let programs = self.tools.programs();
        let program = match agent {
            Agent::Containerd => self.tools.containerd().to_owned(),
            Agent::Kubelet => programs.kubelet(),
            Agent::KubeProxy => programs.kube_proxy(),
        };
        let mut command = self.sandbox.owned_command(&program);
        command.arg("--config").arg(self.configuration(agent)).envs(CONNECTION_CHECK);
        if agent == Agent::Kubelet {
            command
                .arg("--kubeconfig")
                .arg(&self.kubeconfig)
                .arg("--root-dir")
                .arg(self.folder.join("kubelet"))
                .arg("--cert-dir")
                .arg(self.folder.join("kubelet-pki"))
                .args(["--hostname-override", &self.name, "--node-ip", &self.address().to_string()]);
        }
        let mut running = self.running();
        ensure!(running.iter().all(|(other, _)| *other != agent), "{} runs already on {}", agent.name(), self.name);
        running.push((agent, spawn_logged(&self.sandbox, &mut command, &self.log(agent))?));
        Ok(())
    }

    fn configuration(&self, agent: Agent) -> PathBuf {
        self.folder.join(format!("{}.conf", agent.name()))
    }

    fn log(&self, agent: Agent) -> PathBuf {
        self.folder.join("log").join(format!("{}.log", agent.name()))
    }

    fn running(&self) -> MutexGuard<'_, Vec<(Agent, RunningProgram)>> {
        // A panic with the lock held does not change which programs run.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Agent {
    fn name(self) -> &'static str {
        match self {
            Self::Containerd => "containerd",
            Self::Kubelet => "kubelet",
            Self::KubeProxy => "kube-proxy",
        }
    }
}
