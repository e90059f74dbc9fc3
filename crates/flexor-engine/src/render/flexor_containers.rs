//! Containers that run Flexor itself: the job's master, its own parameter servers, and the sidecar.

use flexor_model::{Checkpoints, Job, MOST_REPLICAS, Role, RoleKind};
use serde_json::{Map, Value, json};

use super::{FlexorProgram, RenderContext, environment};

/// The name of the container that stands between a foreign program and the job's master.
pub const SIDECAR: &str = "flexor-sidecar";

/// What the master's container keeps of its template. The template's command, image, probes and mounts were written for
/// another program.
const KEPT_OF_TEMPLATE: [&str; 5] = ["name", "env", "envFrom", "resources", "securityContext"];

/// The job's master, whatever program the template was written for.
pub(super) fn master(context: &RenderContext<'_>, role: &Role, template: &Value) -> Value {
    let fields = template.as_object().into_iter().flatten();
    let kept = fields.filter(|(field, _)| KEPT_OF_TEMPLATE.contains(&field.as_str()));
    let kept: Map<String, Value> = kept.map(|(field, value)| (field.clone(), value.clone())).collect();
    let mut container = Value::Object(kept);
    if let FlexorProgram::Image(image) = context.flexor {
        container["image"] = image.into();
    }
    let words = master_command(context, role).into_iter();
    container["command"] = words.map(environment::literal).collect();
    container
}

/// Has a container whose template names no command run `flexor ps`.
pub(super) fn run_parameter_server(context: &RenderContext<'_>, container: &mut Value) {
    if let FlexorProgram::Image(image) = context.flexor {
        container["image"] = image.into();
    }
    container["command"] = json!([context.flexor.path(), "ps"]);
}

fn master_command(context: &RenderContext<'_>, role: &Role) -> Vec<String> {
    let job = context.job;
    let (min, max) = nodes(job);
    let words = [
        context.flexor.path(),
        "master",
        "--job",
        job.name.as_str(),
        "--uid",
        &context.uid.to_string(),
        "--nnodes",
        &format!("{min}:{max}"),
        "--state",
        context.master_state,
        "--ps-replication-factor",
        &job.ps_replication_factor.to_string(),
    ];
    let mut command = words.map(str::to_owned).to_vec();
    if let Some(Checkpoints { folder, every_seconds, keep }) = &job.checkpoints {
        command.push(format!("--checkpoint-folder={folder}"));
        command.push(format!("--checkpoint-every={every_seconds}"));
        command.push(format!("--checkpoint-keep={keep}"));
    }
    if let FlexorProgram::Image(_) = context.flexor {
        // The names of the master's ports are the names of its options.
        command.extend(role.ports.iter().map(|port| format!("--{}=0.0.0.0:{}", port.name, port.port)));
        let address = environment::master(context);
        command.extend(address.as_deref().and_then(host).map(|host| format!("--allowed-host={host}")));
    }
    command
}

/// The host in `HOST:PORT`.
fn host(address: &str) -> Option<&str> {
    Some(address.rsplit_once(':')?.0)
}

/// How many nodes a world of the job may have.
fn nodes(job: &Job) -> (u32, u32) {
    job.role(RoleKind::Worker).map_or((1, 1), |role| {
        let allowed = role.size.allowed();
        (allowed.min().max(1), allowed.max().unwrap_or(MOST_REPLICAS).max(1))
    })
}

/// The sidecar. It restarts in place, runs beside all containers, and ends after them.
pub(super) fn sidecar(context: &RenderContext<'_>) -> Value {
    let upstream = environment::master(context).unwrap_or_default();
    let mut container = json!({ "name": SIDECAR });
    let mut command = [context.flexor.path(), "sidecar", "--upstream", &upstream].map(str::to_owned).to_vec();
    if let FlexorProgram::Image(image) = context.flexor {
        container["image"] = image.into();
        command.extend(context.addresses.of_sidecar().map(|address| format!("--listen={address}")));
    }
    container["command"] = command.into();
    container["restartPolicy"] = "Always".into();
    environment::add(&mut container, environment::identity(context));
    container
}
