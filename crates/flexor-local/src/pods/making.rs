//! From a wish of the controller to a pod that can be run: every gap filled, every address a literal.
//!
//! Programs see this machine: its `PATH`, its files, its user. What a manifest says of commands, arguments, variables and
//! folders is done as Kubernetes does it; images are not looked at.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use flexor_engine::controller::DesiredPod;
use flexor_model::{
    Checkpoints, DnsLabel, EnvValue, Job, JobUid, MOST_REPLICAS, PodIdentity, PortName, Program, Quantity, Role,
    RoleKind, RoleName, env,
};
use serde_json::Value;
use thiserror::Error;

use super::environment::{self, EnvError, Surroundings};
use super::expansion::expand;
use super::plan::{ContainerPlan, PodPlan, RestartPolicy};
use super::volumes::{self, VolumeError, VolumeSetting};
use crate::objects::ObjectKind;

/// How long a pod has to end where it does not say so, as on Kubernetes.
const USUAL_GRACE: Duration = Duration::from_secs(30);

/// What a pod is made in.
pub struct Setting<'a> {
    /// The job.
    pub job: &'a Job,
    /// Its unique id.
    pub uid: &'a JobUid,
    /// Its namespace.
    pub namespace: &'a DnsLabel,
    /// This program.
    pub flexor: &'a str,
    /// What every program finds in its environment, before anything else.
    pub base: &'a BTreeMap<String, String>,
    /// Where programs run that name no folder.
    pub folder: PathBuf,
    /// Where the job's master keeps its journal.
    pub master_state: PathBuf,
    /// Where the job's master is, by the names of its ports; nothing before it has a place.
    pub master: &'a BTreeMap<PortName, SocketAddr>,
    /// Where a pod leaves why it failed, by container.
    pub error_file: &'a dyn Fn(&str) -> PathBuf,
    /// The data of ConfigMaps and Secrets.
    pub objects: &'a Data<'a>,
    /// Where the files of a PersistentVolumeClaim are.
    pub claim: &'a dyn Fn(&str) -> PathBuf,
}

/// The data of an object, by its kind and name.
pub type Data<'a> = dyn Fn(ObjectKind, &str) -> Option<BTreeMap<String, Vec<u8>>> + 'a;

/// Why a pod cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MakeError {
    /// A container says nothing about what to run, which on Kubernetes its image would.
    #[error("container {container} has no command; images are not looked at here, so write what it runs")]
    NoCommand {
        /// Which.
        container: String,
    },
    /// A variable cannot be had.
    #[error("container {container}: {source}")]
    Environment {
        /// Which.
        container: String,
        /// Why.
        source: EnvError,
    },
    /// A volume cannot be had.
    #[error("container {container}: {source}")]
    Volume {
        /// Which.
        container: String,
        /// Why.
        source: VolumeError,
    },
}

impl MakeError {
    /// Whether it would be otherwise if an object came that is not there.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::NoCommand { .. } => false,
            Self::Environment { source, .. } => matches!(source, EnvError::Missing { .. }),
            Self::Volume { source, .. } => matches!(source, VolumeError::Missing { .. }),
        }
    }
}

/// Whether the pods of a role run a program that is not ours and meets at the master's store: then a sidecar of ours
/// stands between them, which outlives restarts of the master.
pub fn wants_sidecar(role: &Role) -> bool {
    let main = role.template.main();
    let runs_ours = main.command().iter().chain(&main.args()).take(2).any(|word| word.ends_with("flexor"));
    let meets = |value: &EnvValue| matches!(value, EnvValue::Address { port, .. } if port.as_str() == "store");
    role.program == Program::Template && !runs_ours && role.env.iter().any(|rule| meets(&rule.value))
}

/// How long the pods of a role may take to end.
pub fn grace(role: &Role) -> Duration {
    role.template.grace().unwrap_or(USUAL_GRACE)
}

/// Makes a pod. `sidecar` is where its sidecar listens, where it has one; `sockets` is how many sockets the container of
/// ours in it is given.
pub fn make(
    setting: &Setting<'_>,
    role: &Role,
    desired: &DesiredPod,
    (uid, address): (&str, Ipv4Addr),
    sidecar: Option<SocketAddr>,
    sockets: usize,
) -> Result<PodPlan, MakeError> {
    let pod = Pod { setting, role, desired, uid, address, sidecar };
    let spec = &role.template.json()["spec"];
    let mut init = Vec::new();
    if sidecar.is_some() {
        init.push(pod.sidecar(sockets));
    }
    for container in list(&spec["initContainers"]) {
        let sidecar = container["restartPolicy"] == "Always";
        init.push(ContainerPlan { sidecar, ..pod.container(container, false)? });
    }
    let mut containers = Vec::new();
    for (index, container) in list(&spec["containers"]).iter().enumerate() {
        let is_main = index == role.template.main_index();
        containers.push(match role.program {
            Program::FlexorMaster if is_main => pod.master(container, sockets)?,
            Program::FlexorMaster | Program::FlexorPs | Program::Template => pod.container(container, is_main)?,
        });
    }
    let restart = match spec["restartPolicy"].as_str() {
        Some("Always") => RestartPolicy::Always,
        Some("OnFailure") => RestartPolicy::OnFailure,
        // The controller starts pods again, not containers.
        _ => RestartPolicy::Never,
    };
    let (name, uid, grace) = (desired.name.clone(), uid.to_owned(), grace(role));
    Ok(PodPlan { name, uid, address, init, containers, restart, grace })
}

struct Pod<'a> {
    setting: &'a Setting<'a>,
    role: &'a Role,
    desired: &'a DesiredPod,
    uid: &'a str,
    address: Ipv4Addr,
    sidecar: Option<SocketAddr>,
}

impl Pod<'_> {
    /// A container of the template.
    fn container(&self, container: &Value, is_main: bool) -> Result<ContainerPlan, MakeError> {
        let name = container["name"].as_str().unwrap_or_default().to_owned();
        let env = self.env(&name, container, is_main)?;
        let words = list(&container["command"]).iter().chain(list(&container["args"])).filter_map(Value::as_str);
        let mut command: Vec<String> = words.map(|word| expand(word, |name| env.get(name).cloned())).collect();
        if list(&container["command"]).is_empty() {
            return Err(MakeError::NoCommand { container: name });
        }
        // What an image of ours has is this program, whether a folder of PATH has it or not.
        if let Some(program) = command.first_mut().filter(|program| *program == "flexor") {
            self.setting.flexor.clone_into(program);
        }
        let folder = container["workingDir"].as_str().map_or_else(|| self.setting.folder.clone(), PathBuf::from);
        let memory = self.memory_limit(container, is_main);
        let spec = &self.role.template.json()["spec"];
        let setting = VolumeSetting { spec, surroundings: self, claim: self.setting.claim };
        let volume = |source| MakeError::Volume { container: name.clone(), source };
        let mounts = volumes::of_container(container, &env, &setting).map_err(volume)?;
        Ok(ContainerPlan { name, command, env, folder, mounts, memory, sidecar: false, sockets: 0 })
    }

    /// The job's master, which is ours whatever its template says.
    fn master(&self, container: &Value, sockets: usize) -> Result<ContainerPlan, MakeError> {
        let name = container["name"].as_str().unwrap_or("master").to_owned();
        let env = self.env(&name, container, true)?;
        let job = self.setting.job;
        let workers = job.roles.iter().find(|role| matches!(role.kind, RoleKind::Worker));
        let (min, max) = workers.map_or((1, 1), |role| {
            let allowed = role.size.allowed();
            (allowed.min().max(1), allowed.max().unwrap_or(MOST_REPLICAS).max(1))
        });
        let state = self.setting.master_state.display().to_string();
        let (world, uid) = (format!("{min}:{max}"), self.setting.uid.to_string());
        let copies = job.ps_replication_factor.to_string();
        let words = [
            self.setting.flexor,
            "master",
            "--job",
            job.name.as_str(),
            "--uid",
            &uid,
            "--nnodes",
            &world,
            "--state",
            &state,
            "--ps-replication-factor",
            &copies,
        ];
        let mut command = words.map(str::to_owned).to_vec();
        if let Some(Checkpoints { folder, every_seconds, keep }) = &job.checkpoints {
            command.push(format!("--checkpoint-folder={folder}"));
            command.push(format!("--checkpoint-every={every_seconds}"));
            command.push(format!("--checkpoint-keep={keep}"));
        }
        let folder = self.setting.folder.clone();
        Ok(ContainerPlan { name, command, env, folder, mounts: Vec::new(), memory: None, sidecar: false, sockets })
    }

    /// What stands between a foreign program and the job's master.
    fn sidecar(&self, sockets: usize) -> ContainerPlan {
        let master = self.address_of_master("grpc").map(|at| at.to_string()).unwrap_or_default();
        let words = [self.setting.flexor, "sidecar", "--upstream", &master];
        let mut env = self.setting.base.clone();
        env.extend(self.identity());
        ContainerPlan {
            name: "flexor-sidecar".to_owned(),
            command: words.map(str::to_owned).to_vec(),
            env,
            folder: self.setting.folder.clone(),
            mounts: Vec::new(),
            memory: None,
            sidecar: true,
            sockets,
        }
    }

    fn env(&self, name: &str, container: &Value, is_main: bool) -> Result<BTreeMap<String, String>, MakeError> {
        let mut injected: Vec<(String, String)> = self.setting.base.clone().into_iter().collect();
        injected.extend(self.identity());
        let error_file = (self.setting.error_file)(name).display().to_string();
        injected.push(("TORCHELASTIC_ERROR_FILE".to_owned(), error_file));
        if is_main {
            injected.extend(self.of_role());
        }
        let source = |source| MakeError::Environment { container: name.to_owned(), source };
        environment::of_container(container, injected, self).map_err(source)
    }

    /// Who the pod is, and that the network is this machine.
    fn identity(&self) -> Vec<(String, String)> {
        let address = self.address.to_string();
        let pairs = [
            ("POD_NAME", self.desired.name.as_str()),
            ("POD_NAMESPACE", self.setting.namespace.as_str()),
            ("POD_UID", self.uid),
            ("POD_IP", &address),
            ("GLOO_SOCKET_IFNAME", "lo"),
            ("TP_SOCKET_IFNAME", "lo"),
            ("NCCL_SOCKET_IFNAME", "lo"),
            ("PET_LOCAL_ADDR", &address),
        ];
        let mut identity: Vec<(String, String)> = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let master = self.address_of_master("grpc").map(|at| (env::MASTER.name.to_owned(), at.to_string()));
        identity.extend(master);
        identity
    }

    /// What the dialect has its pods find.
    fn of_role(&self) -> Vec<(String, String)> {
        let identity = PodIdentity {
            job: &self.setting.job.name,
            namespace: self.setting.namespace,
            uid: self.setting.uid,
            role: &self.role.name,
            id: self.desired.id,
            rank: self.desired.rank,
            relaunches: self.desired.relaunches,
            replicas: &self.desired.replicas,
        };
        let value = |value: &EnvValue| match value {
            EnvValue::Literal(text) => Some(text.clone()),
            EnvValue::Text(pattern) => Some(pattern.fill(&identity)),
            EnvValue::Address { role, port } => self.address_for(role, port).map(|at| at.to_string()),
            EnvValue::PodField(path) => self.pod_field(path),
            EnvValue::TfConfig => None,
        };
        self.role.env.iter().filter_map(|rule| Some((rule.name.clone(), value(&rule.value)?))).collect()
    }

    fn address_for(&self, _: &RoleName, port: &PortName) -> Option<SocketAddr> {
        match (port.as_str(), self.sidecar) {
            ("store", Some(sidecar)) => Some(sidecar),
            // A launcher of ours asks the master itself.
            ("store", None) => self.address_of_master("grpc"),
            (other, _) => self.address_of_master(other),
        }
    }

    fn address_of_master(&self, port: &str) -> Option<SocketAddr> {
        self.setting.master.iter().find(|(name, _)| name.as_str() == port).map(|(_, at)| *at)
    }

    fn memory_limit(&self, container: &Value, is_main: bool) -> Option<u64> {
        let limit = &container["resources"]["limits"]["memory"];
        let text = limit.as_str().map(str::to_owned).or_else(|| limit.as_u64().map(|bytes| bytes.to_string()));
        let of_template = text.and_then(|text| text.parse::<Quantity>().ok());
        // A plan's resources, and what an end for want of memory made of them, count for the container that trains.
        let grown = self.desired.memory.max(self.desired.resources.memory()).filter(|_| is_main);
        let limit = of_template?;
        u64::try_from(grown.map_or(limit, |grown| grown.max(limit)).ceil()).ok()
    }
}

impl Surroundings for Pod<'_> {
    fn pod_field(&self, path: &str) -> Option<String> {
        let of_map = |map: &Value, key: &str| map[key].as_str().map(str::to_owned);
        let key = |prefix: &str| path.strip_prefix(prefix)?.strip_suffix("']");
        match path {
            "metadata.name" => Some(self.desired.name.clone()),
            "metadata.namespace" => Some(self.setting.namespace.to_string()),
            "metadata.uid" => Some(self.uid.to_owned()),
            "status.podIP" | "status.hostIP" => Some(self.address.to_string()),
            "spec.nodeName" => Some("laptop".to_owned()),
            "spec.serviceAccountName" => Some("default".to_owned()),
            "metadata.labels" => {
                Some(self.desired.labels.iter().map(|(name, value)| format!("{name}={value:?}\n")).collect())
            }
            "metadata.annotations" => {
                let annotations = self.role.template.json()["metadata"]["annotations"].as_object();
                Some(annotations.into_iter().flatten().map(|(name, value)| format!("{name}={value}\n")).collect())
            }
            _ => match (key("metadata.labels['"), key("metadata.annotations['")) {
                (Some(label), _) => Some(self.desired.labels.get(label).cloned().unwrap_or_default()),
                (None, Some(annotation)) => {
                    Some(of_map(&self.role.template.json()["metadata"]["annotations"], annotation).unwrap_or_default())
                }
                (None, None) => None,
            },
        }
    }

    fn resource_field(&self, container: &Value, resource: &str) -> Option<String> {
        let (part, name) = resource.split_once('.')?;
        let quantity = &container["resources"][part][name];
        let text = quantity.as_str().map(str::to_owned).or_else(|| quantity.as_u64().map(|n| n.to_string()))?;
        let quantity: Quantity = text.parse().ok()?;
        Some(quantity.ceil().to_string())
    }

    fn data(&self, kind: ObjectKind, name: &str) -> Option<BTreeMap<String, Vec<u8>>> {
        (self.setting.objects)(kind, name)
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}
