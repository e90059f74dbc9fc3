//! The renderer: from a [`DesiredPod`] to a complete Kubernetes Pod, as JSON.
//!
//! The controller says which pod it wants; [`pod`] writes it down in full: labels and owner, the template's spec, the
//! variables of role and identity, Flexor's sidecar and master, resources as planned and grown, the priority class. An
//! operator sends the result to the API server; the laptop cluster interprets the same JSON as a kubelet would.
//!
//! What depends on where the job runs comes in through [`RenderContext`]. [`service`] does the same for a
//! [`DesiredService`](crate::controller::DesiredService). The renderer writes no status.

mod addresses;
mod arguments;
mod environment;
mod flexor_containers;
mod placement;
mod resources;
mod service;
mod sidecar_address;
#[cfg(test)]
mod tests;
mod tf_config;
mod tolerations;
mod volumes;

use flexor_model::{DnsLabel, Job, JobUid, Program, Role, RolePriority};
use serde_json::{Map, Value, json};

pub use addresses::{Addresses, ServiceAddresses};
pub use flexor_containers::SIDECAR;
pub use placement::{BASE_CLASS, NODE_ANNOTATION, SURPLUS_CLASS};
pub use service::service;

use crate::controller::DesiredPod;

/// Labels of Flexor's own, from which a controller reads back which slot a pod fills.
pub const JOB_UID_LABEL: &str = "flexor.dev/job-uid";
pub const ROLE_LABEL: &str = "flexor.dev/role";
pub const ID_LABEL: &str = "flexor.dev/id";
pub const RANK_LABEL: &str = "flexor.dev/rank";
pub const RELAUNCHES_LABEL: &str = "flexor.dev/relaunches";

/// The annotation with the number of pods that filled the slot before this one. Containers of a replacement count
/// their restarts from 0, as on Kubernetes: it is another pod.
pub const REPLACED_ANNOTATION: &str = "flexor.dev/replaced";

/// The container that kubectl means where none is named.
const DEFAULT_CONTAINER_ANNOTATION: &str = "kubectl.kubernetes.io/default-container";

/// What a pod is rendered with besides the role and the desired pod.
pub struct RenderContext<'a> {
    pub job: &'a Job,
    pub uid: &'a JobUid,
    pub namespace: &'a DnsLabel,
    pub owner: Owner<'a>,
    pub flexor: FlexorProgram<'a>,
    pub addresses: &'a dyn Addresses,
    /// The master's state directory.
    pub master_state: &'a str,
    /// The file in which a container leaves why it failed, by the container's name. A sidecar on a cluster reads other
    /// files.
    pub error_file: &'a dyn Fn(&str) -> String,
    /// Where containers find the job's token, if it has one.
    pub token: Option<TokenPlace>,
}

/// Where containers find the job's token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenPlace {
    /// A file of this machine.
    File(String),
    /// A Secret in the job's namespace, which is mounted.
    Secret(String),
}

/// The object that owns the pods: they are removed with it.
#[derive(Debug, Clone, Copy)]
pub struct Owner<'a> {
    pub api_version: &'a str,
    pub kind: &'a str,
    pub name: &'a str,
    pub uid: &'a str,
}

/// How containers of Flexor's own are started.
#[derive(Debug, Clone, Copy)]
pub enum FlexorProgram<'a> {
    /// `flexor` of this image. It listens on the ports that its containers declare.
    Image(&'a str),
    /// A program of this machine, by its path. It inherits listening sockets, whose ports the kernel chose.
    Machine(&'a str),
}

impl<'a> FlexorProgram<'a> {
    fn path(self) -> &'a str {
        match self {
            Self::Image(_) => "flexor",
            Self::Machine(path) => path,
        }
    }
}

/// The complete `v1` Pod for a desired pod, without a status.
pub fn pod(context: &RenderContext<'_>, role: &Role, desired: &DesiredPod) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata(context, role, desired),
        "spec": spec(context, role, desired),
    })
}

fn metadata(context: &RenderContext<'_>, role: &Role, desired: &DesiredPod) -> Value {
    let mut metadata = json!({
        "name": desired.name,
        "namespace": context.namespace,
        "labels": labels(context, role, desired),
    });
    let annotations = annotations(context, role, desired);
    if !annotations.is_empty() {
        metadata["annotations"] = annotations.into();
    }
    metadata["ownerReferences"] = json!([owner_reference(context.owner)]);
    metadata
}

fn owner_reference(Owner { api_version, kind, name, uid }: Owner<'_>) -> Value {
    json!({
        "apiVersion": api_version, "kind": kind, "name": name, "uid": uid,
        "controller": true, "blockOwnerDeletion": true,
    })
}

/// Labels of the job, of the template, of the dialect and of Flexor. The later ones win: services and controllers
/// select by them.
fn labels(context: &RenderContext<'_>, role: &Role, desired: &DesiredPod) -> Map<String, Value> {
    let own = [
        (JOB_UID_LABEL, context.uid.to_string()),
        (ROLE_LABEL, role.name.to_string()),
        (ID_LABEL, desired.id.to_string()),
        (RANK_LABEL, desired.rank.to_string()),
        (RELAUNCHES_LABEL, desired.relaunches.to_string()),
    ];
    let of_job = context.job.labels.iter().map(|(key, value)| (key.clone(), value.clone().into()));
    let of_dialect = desired.labels.iter().map(|(key, value)| (key.clone(), value.clone().into()));
    let own = own.map(|(key, value)| (key.to_owned(), value.into()));
    of_job.chain(of_template(role, "labels")).chain(of_dialect).chain(own).collect()
}

/// The Secret with a job's token.
pub fn token_secret(context: &RenderContext<'_>, name: &str, token: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": context.namespace,
            "labels": { JOB_UID_LABEL: context.uid.to_string() },
            "ownerReferences": [owner_reference(context.owner)],
        },
        "immutable": true,
        "stringData": { volumes::TOKEN_KEY: token },
    })
}

/// Annotations of the job and of the template, whose own win.
fn annotations(context: &RenderContext<'_>, role: &Role, desired: &DesiredPod) -> Map<String, Value> {
    let of_job = context.job.annotations.iter().map(|(key, value)| (key.clone(), value.clone().into()));
    let replaced =
        (desired.relaunches > 0).then(|| (REPLACED_ANNOTATION.to_owned(), Value::from(desired.relaunches.to_string())));
    let is_on_cluster = matches!(context.flexor, FlexorProgram::Image(_));
    // kubectl names the containers that it might have meant, unless it is said which one people mean.
    let containers =
        ["initContainers", "containers"].map(|list| role.template.json()["spec"][list].as_array().map_or(0, Vec::len));
    let default = (is_on_cluster && (role.has_sidecar() || containers.iter().sum::<usize>() > 1))
        .then(|| (DEFAULT_CONTAINER_ANNOTATION.to_owned(), Value::from(role.template.main().name())));
    let node = desired
        .place
        .as_ref()
        .filter(|_| is_on_cluster)
        .map(|place| (NODE_ANNOTATION.to_owned(), Value::from(place.node.clone())));
    default.into_iter().chain(of_job).chain(of_template(role, "annotations")).chain(replaced).chain(node).collect()
}

fn of_template(role: &Role, field: &str) -> impl Iterator<Item = (String, Value)> {
    let map = role.template.json()["metadata"][field].as_object();
    map.into_iter().flatten().map(|(key, value)| (key.clone(), value.clone()))
}

fn spec(context: &RenderContext<'_>, role: &Role, desired: &DesiredPod) -> Value {
    let mut spec = role.template.json()["spec"].clone();
    // The controller replaces pods; it never has containers restarted in place.
    spec["restartPolicy"] = "Never".into();
    if let Some(class) = priority_class(role, desired) {
        spec["priorityClassName"] = class.into();
    }
    if let FlexorProgram::Image(_) = context.flexor {
        tolerations::add(&mut spec);
        flexor_containers::prepare_pod(role, &mut spec);
        placement::add(desired.place.as_ref(), &mut spec);
    }
    let of_every_container = environment::of_every_container(context, role);
    for container in list_mut(&mut spec, "initContainers") {
        environment::add(container, of_every_container(container));
    }
    let main = role.template.main_index();
    for (index, container) in list_mut(&mut spec, "containers").iter_mut().enumerate() {
        let mut variables = of_every_container(container);
        if index == main {
            match role.program {
                Program::FlexorMaster => *container = flexor_containers::master(context, role, container),
                Program::FlexorPs if role.has_rendered_command() => {
                    flexor_containers::run_parameter_server(context, container);
                }
                Program::FlexorPs
                | Program::Foreign
                | Program::FlexorWorker
                | Program::FlexorLaunch
                | Program::FlexorOther => {}
            }
            variables.extend(environment::of_role(context, role, desired));
            arguments::prepend(container, arguments::of_role(context, role, desired));
            resources::plan(container, desired);
            declare_ports(context, role, container);
            if let FlexorProgram::Image(_) = context.flexor {
                flexor_containers::report_last_output(container);
            }
        }
        environment::add(container, variables);
    }
    if role.has_sidecar() {
        let sidecar = flexor_containers::sidecar(context, role, desired);
        match &mut spec["initContainers"] {
            Value::Array(others) => others.insert(0, sidecar),
            nothing => *nothing = json!([sidecar]),
        }
    }
    volumes::add(context, role, &mut spec);
    spec
}

/// The priority class of a pod; none where the template's own stays.
fn priority_class(role: &Role, desired: &DesiredPod) -> Option<String> {
    match &role.priority {
        RolePriority::FromTemplate => None,
        RolePriority::Class(class) => Some(class.clone()),
        RolePriority::Split(split) => {
            let replicas = desired.replicas.get(&role.name).copied().unwrap_or(1);
            Some(if split.is_high(desired.rank, replicas) { "high" } else { "low" }.to_owned())
        }
    }
}

/// Adds the role's ports that the template does not declare.
fn declare_ports(context: &RenderContext<'_>, role: &Role, container: &mut Value) {
    let inherits_sockets = matches!((context.flexor, role.program), (FlexorProgram::Machine(_), Program::FlexorMaster));
    if inherits_sockets {
        return;
    }
    for port in &role.ports {
        let is_same = |known: &Value| known["containerPort"] == port.port || known["name"] == port.name.as_str();
        if list_mut(container, "ports").iter().any(is_same) {
            continue;
        }
        let port = json!({ "name": port.name, "containerPort": port.port });
        match &mut container["ports"] {
            Value::Array(declared) => declared.push(port),
            nothing => *nothing = json!([port]),
        }
    }
}

fn list_mut<'a>(object: &'a mut Value, field: &str) -> &'a mut [Value] {
    object.get_mut(field).and_then(Value::as_array_mut).map(Vec::as_mut_slice).unwrap_or_default()
}
