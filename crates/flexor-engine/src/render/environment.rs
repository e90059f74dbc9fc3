//! The variables that Flexor adds to containers, in front of the template's own.
//!
//! A variable that the template sets itself is left out, so that the user's value wins. Values of `envFrom` lose
//! against all of `env`, as on every Kubernetes.

use flexor_model::{EnvValue, PodIdentity, PortName, Program, Role, RoleName, env};
use serde_json::{Value, json};

use super::{FlexorProgram, RenderContext, sidecar_address, tf_config, volumes};
use crate::controller::DesiredPod;

/// Where torch's `@record` leaves an exception.
const ERROR_FILE: &str = "TORCHELASTIC_ERROR_FILE";
/// Where torchrun keeps the errors of its processes.
const PROCESS_LOGS: &str = "PET_LOG_DIR";
const GRPC_PORT: &str = "grpc";
const STORE_PORT: &str = "store";

/// Makes the variables that every container of the job has: the pod's identity, the master's address, and the file for
/// the container's error.
pub(super) fn of_every_container<'a>(
    context: &'a RenderContext<'_>,
    role: &'a Role,
) -> impl Fn(&Value) -> Vec<Value> + 'a {
    let identity = identity(context);
    let sidecar_reads = matches!(context.flexor, FlexorProgram::Image(_)) && role.has_sidecar();
    move |container| {
        let name = container["name"].as_str().unwrap_or_default();
        let error_file = if sidecar_reads { volumes::error_file(name) } else { (context.error_file)(name) };
        let error_file = variable(ERROR_FILE, error_file);
        let logs = sidecar_reads.then(|| variable(PROCESS_LOGS, volumes::PROCESS_LOGS));
        identity.iter().cloned().chain([error_file]).chain(logs).collect()
    }
}

/// The pod's identity and the master's address.
pub(super) fn identity(context: &RenderContext<'_>) -> Vec<Value> {
    let fields = [
        ("POD_NAME", "metadata.name"),
        ("POD_NAMESPACE", "metadata.namespace"),
        ("POD_UID", "metadata.uid"),
        ("POD_IP", "status.podIP"),
        // The address at which other nodes reach the process that has rank 0.
        ("PET_LOCAL_ADDR", "status.podIP"),
    ];
    let mut variables: Vec<Value> = fields.map(|(name, path)| from_field(name, path)).into();
    variables.extend(master(context).map(|address| variable(env::MASTER.name, address)));
    let token = context.token.as_ref().map(volumes::token_file);
    variables.extend(token.map(|file| variable(env::TOKEN_FILE.name, file)));
    variables
}

/// The master's gRPC address, in jobs that have a master.
pub(super) fn master(context: &RenderContext<'_>) -> Option<String> {
    let role = context.job.roles.iter().find(|role| role.program == Program::FlexorMaster)?;
    context.addresses.of_role(role, &GRPC_PORT.parse().ok()?)
}

/// The variables that the dialect gives to the main containers of a role.
pub(super) fn of_role(context: &RenderContext<'_>, role: &Role, desired: &DesiredPod) -> Vec<Value> {
    let identity = pod_identity(context, role, desired);
    let rendered = role.env.iter().filter_map(|rule| {
        let name = rule.name.as_str();
        Some(match &rule.value {
            EnvValue::Literal(text) => variable(name, text.as_str()),
            EnvValue::Text(pattern) => variable(name, pattern.fill(&identity)),
            EnvValue::Address { role: target, port } => {
                variable(name, address(context, role, desired, (target, port))?)
            }
            EnvValue::PodField(path) => from_field(name, path),
            EnvValue::TfConfig => variable(name, tf_config::render(context, role, desired)?),
            EnvValue::SidecarHost { .. } => variable(name, sidecar_host(context, role, desired)?),
        })
    });
    rendered.collect()
}

/// What fills the gaps of the dialect's patterns.
pub(super) fn pod_identity<'a>(
    context: &'a RenderContext<'_>,
    role: &'a Role,
    desired: &'a DesiredPod,
) -> PodIdentity<'a> {
    PodIdentity {
        job: &context.job.name,
        namespace: context.namespace,
        uid: context.uid,
        role: &role.name,
        id: desired.id,
        rank: desired.rank,
        relaunches: desired.relaunches,
        replicas: &desired.replicas,
    }
}

/// The host of a pod's own sidecar, where it listens on ports that its dialect chooses.
fn sidecar_host(context: &RenderContext<'_>, role: &Role, desired: &DesiredPod) -> Option<String> {
    match context.flexor {
        FlexorProgram::Image(_) => host(&sidecar_address::of_pod(context, role, desired)?).map(str::to_owned),
        FlexorProgram::Machine(_) => None,
    }
}

/// The host in `HOST:PORT`.
pub(super) fn host(address: &str) -> Option<&str> {
    Some(address.rsplit_once(':')?.0)
}

/// Where a pod of `role` reaches a port of `target`.
fn address(
    context: &RenderContext<'_>,
    role: &Role,
    desired: &DesiredPod,
    (target, port): (&RoleName, &PortName),
) -> Option<String> {
    let target = context.job.roles.iter().find(|known| known.name == *target)?;
    if port.as_str() != STORE_PORT {
        return context.addresses.of_role(target, port);
    }
    if role.has_sidecar() {
        return sidecar_address::of_pod(context, role, desired);
    }
    // Flexor's own launcher joins the rendezvous through the master's API, not through its store.
    context.addresses.of_role(target, &GRPC_PORT.parse().ok()?)
}

/// Puts variables in front of a container's own. Of two with one name the later wins, and the container's own wins
/// over both.
pub(super) fn add(container: &mut Value, variables: Vec<Value>) {
    let own = container["env"].as_array().cloned().unwrap_or_default();
    let mut all: Vec<Value> = Vec::with_capacity(variables.len() + own.len());
    for variable in variables {
        match all.iter_mut().find(|known| known["name"] == variable["name"]) {
            Some(known) => *known = variable,
            None => all.push(variable),
        }
    }
    all.retain(|known| own.iter().all(|variable| variable["name"] != known["name"]));
    all.extend(own);
    container["env"] = all.into();
}

fn variable(name: &str, value: impl Into<String>) -> Value {
    json!({ "name": name, "value": literal(value.into()) })
}

/// A text that a kubelet leaves as it is: `$(NAME)` in values and commands would be expanded.
pub(super) fn literal(text: String) -> String {
    if text.contains("$(") || text.contains("$$") { text.replace('$', "$$") } else { text }
}

fn from_field(name: &str, path: &str) -> Value {
    json!({ "name": name, "valueFrom": { "fieldRef": { "fieldPath": path } } })
}
