//! From a rendered Pod to what its supervisor runs: every variable resolved, every volume a path of this machine.
//!
//! The renderer of `flexor-engine` makes the Pod; this module reads it as a kubelet reads one. Commands, arguments,
//! variables, volumes, memory limits and the grace period mean what they mean on Kubernetes. Programs see this machine:
//! its `PATH`, its files, its user. Images are ignored.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use flexor_model::expansion::{TooLong, expand};
use flexor_model::{LONGEST_SECONDS, Quantity};
use serde_json::Value;
use thiserror::Error;

use super::environment::{self, EnvError, ValueSources};
use super::plan::{ContainerPlan, PodPlan, RestartPolicy};
use super::volumes::{self, VolumeContext, VolumeError};
use crate::objects::ObjectKind;

/// How long a pod has to end where it does not say so, as on Kubernetes.
const DEFAULT_GRACE: Duration = Duration::from_secs(30);
/// The name of the only node.
pub const NODE: &str = "laptop";
/// Pods have addresses of the loopback interface, so collectives must use it.
const LOOPBACK: [(&str, &str); 3] =
    [("GLOO_SOCKET_IFNAME", "lo"), ("TP_SOCKET_IFNAME", "lo"), ("NCCL_SOCKET_IFNAME", "lo")];

/// What this machine gives to a pod that runs on it.
pub struct NodeContext<'a> {
    pub uid: &'a str,
    pub address: Ipv4Addr,
    /// The path of this program, which containers reach as `flexor`.
    pub flexor: &'a str,
    /// Variables that every container starts with, as an image would bring them.
    pub base: &'a BTreeMap<String, String>,
    /// The working directory of containers that name none.
    pub folder: PathBuf,
    pub objects: &'a ObjectData<'a>,
    /// The folder behind a PersistentVolumeClaim.
    pub claim: &'a dyn Fn(&str) -> PathBuf,
    /// The container that inherits listening sockets, and how many.
    pub sockets: Option<(&'a str, usize)>,
}

/// The data of a ConfigMap or Secret, by its kind and name.
pub type ObjectData<'a> = dyn Fn(ObjectKind, &str) -> Option<BTreeMap<String, Vec<u8>>> + 'a;

/// Why a pod cannot run here.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InterpretError {
    /// On Kubernetes the image would say what to run.
    #[error("container {container} has no command; images are not looked at here, so write what it runs")]
    NoCommand { container: String },
    #[error("container {container}: an argument {}", TooLong)]
    LongArgument { container: String },
    #[error("container {container}: {source}")]
    Environment { container: String, source: EnvError },
    #[error("container {container}: {source}")]
    Volume { container: String, source: VolumeError },
}

impl InterpretError {
    /// Whether a missing object causes it, so that the pod may run once that object exists.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::NoCommand { .. } | Self::LongArgument { .. } => false,
            Self::Environment { source, .. } => matches!(source, EnvError::Missing { .. }),
            Self::Volume { source, .. } => matches!(source, VolumeError::Missing { .. }),
        }
    }
}

/// How long a rendered Pod may take to end.
pub fn grace(pod: &Value) -> Duration {
    let seconds = pod["spec"]["terminationGracePeriodSeconds"].as_u64();
    seconds.map_or(DEFAULT_GRACE, |seconds| Duration::from_secs(seconds.min(LONGEST_SECONDS)))
}

/// The plan of a rendered Pod for its supervisor.
///
/// # Errors
///
/// A container has no command, or refers to something that does not exist here.
pub fn interpret(node: &NodeContext<'_>, pod: &Value) -> Result<PodPlan, InterpretError> {
    let interpreter = Interpreter { node, pod };
    let spec = &pod["spec"];
    let containers = |field: &str| -> Result<Vec<ContainerPlan>, InterpretError> {
        list(&spec[field]).iter().map(|container| interpreter.container(container)).collect()
    };
    let restart = match spec["restartPolicy"].as_str() {
        Some("Never") => RestartPolicy::Never,
        Some("OnFailure") => RestartPolicy::OnFailure,
        // As on Kubernetes.
        _ => RestartPolicy::Always,
    };
    Ok(PodPlan {
        name: text(&pod["metadata"]["name"]).to_owned(),
        uid: node.uid.to_owned(),
        address: node.address,
        init: containers("initContainers")?,
        containers: containers("containers")?,
        restart,
        grace: grace(pod),
    })
}

struct Interpreter<'a> {
    node: &'a NodeContext<'a>,
    pod: &'a Value,
}

impl Interpreter<'_> {
    fn container(&self, container: &Value) -> Result<ContainerPlan, InterpretError> {
        let name = text(&container["name"]).to_owned();
        let env = self.env(&name, container)?;
        let words = list(&container["command"]).iter().chain(list(&container["args"])).filter_map(Value::as_str);
        let expanded = words.map(|word| expand(word, |name| env.get(name).map(String::as_str)));
        let expanded: Result<Vec<String>, TooLong> = expanded.collect();
        let mut command = expanded.map_err(|_| InterpretError::LongArgument { container: name.clone() })?;
        if list(&container["command"]).is_empty() {
            return Err(InterpretError::NoCommand { container: name });
        }
        // An image of Flexor has this program in its PATH; this machine may not.
        if let Some(program) = command.first_mut().filter(|program| *program == "flexor") {
            self.node.flexor.clone_into(program);
        }
        let folder = container["workingDir"].as_str().map_or_else(|| self.node.folder.clone(), PathBuf::from);
        let context = VolumeContext { spec: &self.pod["spec"], sources: self, claim: self.node.claim };
        let volume = |source| InterpretError::Volume { container: name.clone(), source };
        let mounts = volumes::of_container(container, &env, &context).map_err(volume)?;
        let sockets = self.node.sockets.filter(|(heir, _)| *heir == name).map_or(0, |(_, count)| count);
        let (memory, sidecar) = (memory_limit(container), container["restartPolicy"] == "Always");
        Ok(ContainerPlan { name, command, env, folder, mounts, memory, sidecar, sockets })
    }

    fn env(&self, name: &str, container: &Value) -> Result<BTreeMap<String, String>, InterpretError> {
        let mut base = self.node.base.clone();
        base.extend(LOOPBACK.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let source = |source| InterpretError::Environment { container: name.to_owned(), source };
        environment::of_container(container, base, self).map_err(source)
    }
}

fn memory_limit(container: &Value) -> Option<u64> {
    let limit = quantity(&container["resources"]["limits"]["memory"])?;
    u64::try_from(limit.ceil()).ok()
}

impl ValueSources for Interpreter<'_> {
    fn pod_field(&self, path: &str) -> Option<String> {
        let metadata = &self.pod["metadata"];
        let key = |prefix: &str| path.strip_prefix(prefix)?.strip_suffix("']");
        let lines = |map: &Value| -> String {
            let pairs = map.as_object().into_iter().flatten();
            pairs.map(|(name, value)| format!("{name}={:?}\n", text(value))).collect()
        };
        match path {
            "metadata.name" | "metadata.namespace" => {
                metadata[path.trim_start_matches("metadata.")].as_str().map(str::to_owned)
            }
            "metadata.uid" => Some(self.node.uid.to_owned()),
            "status.podIP" | "status.hostIP" => Some(self.node.address.to_string()),
            "spec.nodeName" => Some(NODE.to_owned()),
            "spec.serviceAccountName" => {
                Some(self.pod["spec"]["serviceAccountName"].as_str().unwrap_or("default").to_owned())
            }
            "metadata.labels" => Some(lines(&metadata["labels"])),
            "metadata.annotations" => Some(lines(&metadata["annotations"])),
            _ => match (key("metadata.labels['"), key("metadata.annotations['")) {
                (Some(label), _) => Some(text(&metadata["labels"][label]).to_owned()),
                (None, Some(annotation)) => Some(text(&metadata["annotations"][annotation]).to_owned()),
                (None, None) => None,
            },
        }
    }

    fn resource_field(&self, container: &Value, resource: &str) -> Option<String> {
        let (part, name) = resource.split_once('.')?;
        Some(quantity(&container["resources"][part][name])?.ceil().to_string())
    }

    fn data(&self, kind: ObjectKind, name: &str) -> Option<BTreeMap<String, Vec<u8>>> {
        (self.node.objects)(kind, name)
    }
}

fn quantity(value: &Value) -> Option<Quantity> {
    let text = value.as_str().map(str::to_owned).or_else(|| value.as_u64().map(|number| number.to_string()))?;
    text.parse().ok()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn interpreted(pod: &Value) -> Result<PodPlan, InterpretError> {
        let base = [("PATH".to_owned(), "/bin".to_owned()), ("A".to_owned(), "machine".to_owned())].into();
        let node = NodeContext {
            uid: "u",
            address: Ipv4Addr::new(127, 100, 100, 101),
            flexor: "/opt/flexor",
            base: &base,
            folder: "/work".into(),
            objects: &|_, _| None,
            claim: &|_| PathBuf::new(),
            sockets: Some(("side", 1)),
        };
        interpret(&node, pod)
    }

    fn pod(container: Value) -> Value {
        json!({
            "metadata": { "name": "p", "namespace": "n", "labels": { "l": "1" }, "annotations": { "a": "2" } },
            "spec": { "restartPolicy": "Never", "containers": [container] },
        })
    }

    #[test]
    fn fields_of_the_pod_are_resolved_as_a_kubelet_does() {
        let fields = [
            ("NAME", "metadata.name"),
            ("NAMESPACE", "metadata.namespace"),
            ("UID", "metadata.uid"),
            ("IP", "status.podIP"),
            ("LABEL", "metadata.labels['l']"),
            ("ANNOTATION", "metadata.annotations['a']"),
            ("ALL", "metadata.labels"),
            ("NODE", "spec.nodeName"),
        ];
        let env: Vec<Value> = fields
            .iter()
            .map(|(name, path)| json!({ "name": name, "valueFrom": { "fieldRef": { "fieldPath": path } } }))
            .collect();
        let plan = interpreted(&pod(json!({ "name": "main", "command": ["x"], "env": env }))).unwrap();
        let env = &plan.containers[0].env;
        let values: Vec<&str> = fields.iter().map(|(name, _)| env[*name].as_str()).collect();
        assert_eq!(values, ["p", "n", "u", "127.100.100.101", "1", "2", "l=\"1\"\n", "laptop"]);
        assert_eq!((env["PATH"].as_str(), env["GLOO_SOCKET_IFNAME"].as_str()), ("/bin", "lo"));
    }

    #[test]
    fn commands_are_expanded_and_flexor_is_this_program() {
        let env = json!([{ "name": "A", "value": "pod" }]);
        let container = json!({ "name": "main", "command": ["flexor", "ps"], "args": ["$(A)", "$$(A)"], "env": env });
        let plan = interpreted(&pod(container)).unwrap();
        assert_eq!(plan.containers[0].command, ["/opt/flexor", "ps", "pod", "$(A)"]);
        assert_eq!((plan.containers[0].sockets, plan.grace), (0, DEFAULT_GRACE));
    }

    #[test]
    fn a_sidecar_is_kept_running_and_inherits_the_sockets() {
        let limits = json!({ "limits": { "memory": "1Ki" } });
        let mut pod = pod(json!({ "name": "main", "command": ["x"], "workingDir": "/w", "resources": limits }));
        pod["spec"]["initContainers"] = json!([{ "name": "side", "command": ["y"], "restartPolicy": "Always" }]);
        pod["spec"]["terminationGracePeriodSeconds"] = 5.into();
        let plan = interpreted(&pod).unwrap();
        assert_eq!((plan.init[0].sidecar, plan.init[0].sockets), (true, 1));
        assert_eq!((plan.init[0].memory, plan.containers[0].memory), (None, Some(1024)));
        assert_eq!((plan.containers[0].folder.clone(), plan.grace), ("/w".into(), Duration::from_secs(5)));
        assert_eq!(plan.restart, RestartPolicy::Never);
    }

    #[test]
    fn a_container_without_a_command_cannot_run() {
        let error = interpreted(&pod(json!({ "name": "main", "args": ["x"] }))).unwrap_err();
        assert_eq!(error, InterpretError::NoCommand { container: "main".to_owned() });
        assert!(!error.may_pass());
    }
}
