//! The programs of a control plane: their flags, start order, and logs.
//!
//! One [`ControlPlane`] owns the five processes of one cluster and starts and ends single components.
//! [`crate::cluster`] decides whether the cluster is ready.

mod flags;

use std::{
    collections::BTreeMap,
    fmt,
    fs::{self, File},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::PathBuf,
};

use anyhow::Context as _;

use crate::{
    keeper::{Keeper, RunningProgram, Sandbox},
    log_tail::last_lines,
    pki::Pki,
    real_nodes::CONTROL_PLANE,
    stages::{self, PodTimes},
    tools::Tools,
};

/// How much of a log an error carries.
const LOG_LINES_IN_ERRORS: usize = 20;

/// A part of the control plane that a test can end and start again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Component {
    /// The store behind the API server.
    Etcd,
    /// kube-apiserver.
    ApiServer,
    /// kube-controller-manager.
    ControllerManager,
    /// kube-scheduler.
    Scheduler,
    /// kwok, which plays all fake nodes and their pods.
    Kwok,
}

impl Component {
    /// All, in the order of starting.
    pub const ALL: [Self; 5] = [Self::Etcd, Self::ApiServer, Self::ControllerManager, Self::Scheduler, Self::Kwok];

    /// The program's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Kwok => "kwok",
        }
    }

    fn program(self, tools: &Tools) -> PathBuf {
        match self {
            Self::Etcd => tools.etcd(),
            Self::Kwok => tools.kwok(),
            Self::ApiServer | Self::ControllerManager | Self::Scheduler => tools.kubernetes(self.name()),
        }
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Which nodes the control plane has to reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeKind {
    /// Only nodes that kwok plays; all is on loopback.
    Fake,
    /// Real nodes too, on a network of their own.
    Real,
}

/// Whose requests the API server writes down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Audit {
    Off,
    ServiceAccounts,
}

/// Without the bodies of requests and answers. A request is written down once, when it is answered; a watch when it
/// begins, too.
const AUDIT_POLICY: &str = r#"
{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": [
    {"level": "Metadata", "userGroups": ["system:serviceaccounts"]},
    {"level": "None"}
]}
"#;

/// Where the servers listen.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ports {
    etcd_client: u16,
    etcd_peer: u16,
    api_server: u16,
}

impl Ports {
    /// The default ports in namespaces, where no other process listens; free ones from the kernel on loopback.
    fn choose(sandbox: &Sandbox) -> anyhow::Result<Self> {
        match sandbox {
            Sandbox::Namespaces { .. } => Ok(Self { etcd_client: 2379, etcd_peer: 2380, api_server: 6443 }),
            Sandbox::Loopback { .. } => {
                // All three are bound before any is released, so that they differ.
                let listen = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("get a free port on loopback");
                let (client, peer, api_server) = (listen()?, listen()?, listen()?);
                Ok(Self {
                    etcd_client: client.local_addr()?.port(),
                    etcd_peer: peer.local_addr()?.port(),
                    api_server: api_server.local_addr()?.port(),
                })
            }
        }
    }
}

/// The processes of one cluster.
#[derive(Debug)]
pub(crate) struct ControlPlane {
    tools: Tools,
    folder: PathBuf,
    sandbox: Sandbox,
    pki: Pki,
    ports: Ports,
    audit: Audit,
    node_kind: NodeKind,
    running: BTreeMap<Component, RunningProgram>,
}

impl ControlPlane {
    /// Writes the files that the components read; starts nothing.
    pub(crate) fn prepare(
        tools: Tools,
        keeper: &Keeper,
        audit: Audit,
        node_kind: NodeKind,
        times: PodTimes,
    ) -> anyhow::Result<Self> {
        let folder = keeper.folder();
        let pki = Pki::create(&folder.join("pki"))?;
        fs::create_dir_all(folder.join("log"))?;
        fs::write(folder.join("stages.yaml"), stages::manifest(times)).context("write the stages of kwok")?;
        let plane = Self {
            tools,
            folder: folder.to_owned(),
            sandbox: keeper.sandbox().clone(),
            pki,
            ports: Ports::choose(keeper.sandbox())?,
            audit,
            node_kind,
            running: BTreeMap::new(),
        };
        fs::write(plane.audit_policy(), AUDIT_POLICY).context("write the audit policy")?;
        fs::write(plane.kubeconfig(), plane.pki.kubeconfig(plane.api_server())).context("write the kubeconfig")?;
        let from_nodes = (CONTROL_PLANE, plane.ports.api_server).into();
        fs::write(plane.kubeconfig_of_nodes(), plane.pki.kubeconfig(from_nodes)).context("write a kubeconfig")?;
        Ok(plane)
    }

    /// Address of the API server, valid inside the cluster's network.
    pub(crate) fn api_server(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.ports.api_server).into()
    }

    /// The administrator's kubeconfig.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    /// A kubeconfig with the API server's address in the network of real nodes.
    pub(crate) fn kubeconfig_of_nodes(&self) -> PathBuf {
        self.folder.join("kubeconfig-nodes")
    }

    fn audit_policy(&self) -> PathBuf {
        self.folder.join("audit-policy.json")
    }

    /// The audited requests; the file exists after the first one.
    pub(crate) fn audit_log(&self) -> PathBuf {
        self.folder.join("log").join("audit.log")
    }

    /// The log of a component; restarts append to it.
    pub(crate) fn log(&self, component: Component) -> PathBuf {
        self.folder.join("log").join(format!("{component}.log"))
    }

    /// Starts a component that is not running.
    pub(crate) fn start(&mut self, component: Component) -> anyhow::Result<()> {
        let log = self.log(component);
        let log_file = File::options().create(true).append(true).open(&log).context("open the log")?;
        let mut command = self.sandbox.owned_command(&component.program(&self.tools));
        command
            .args(flags::of(component, self))
            .current_dir(&self.folder)
            .stdout(log_file.try_clone()?)
            .stderr(log_file);
        let program =
            RunningProgram::spawn(&self.sandbox, &mut command).with_context(|| format!("start {component}"))?;
        self.running.insert(component, program);
        Ok(())
    }

    /// Ends a component with SIGKILL; nothing happens if it is not running.
    pub(crate) fn kill(&mut self, component: Component) -> anyhow::Result<()> {
        match self.running.remove(&component) {
            Some(program) => program.kill().with_context(|| format!("end {component}")),
            None => Ok(()),
        }
    }

    /// Process id of a running component, as the host counts.
    pub(crate) fn pid(&self, component: Component) -> Option<u32> {
        self.running.get(&component)?.pid()
    }

    /// An error with the end of the log of the first component that has exited, if one has.
    pub(crate) fn check_alive(&mut self) -> anyhow::Result<()> {
        let ended = self.running.iter_mut().find_map(|(component, program)| Some((*component, program.ended()?)));
        match ended {
            Some((component, status)) => {
                anyhow::bail!("{component} ended ({status}); its log ends with\n{}", self.log_tail(component))
            }
            None => Ok(()),
        }
    }

    /// The last lines of a component's log.
    pub(crate) fn log_tail(&self, component: Component) -> String {
        let log = fs::read(self.log(component)).unwrap_or_default();
        last_lines(&String::from_utf8_lossy(&log), LOG_LINES_IN_ERRORS)
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        for component in Component::ALL.into_iter().rev() {
            if let Err(error) = self.kill(component) {
                eprintln!("{error:#}; it ends with the cluster's keeper");
            }
        }
    }
}
