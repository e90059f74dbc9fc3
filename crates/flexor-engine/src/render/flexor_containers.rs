//! Containers that run Flexor itself: the job's master, its own parameter servers, and the sidecar.

use flexor_model::{Checkpoints, EnvValue, Job, MOST_REPLICAS, Program, Role, RoleKind};
use serde_json::{Map, Value, json};

use super::{FlexorProgram, RenderContext, environment, sidecar_address, volumes};
use crate::controller::DesiredPod;

/// The name of the container that stands between a foreign program and the job's master.
pub const SIDECAR: &str = "flexor-sidecar";

/// Processor and memory, as a container names them.
type Amounts = (&'static str, &'static str);
/// What a master requests, and what it may use: the largest jobs need the most.
const MASTER_RESOURCES: (Amounts, Amounts) = (("100m", "128Mi"), ("1", "1Gi"));
/// What a sidecar requests and may use.
const SIDECAR_RESOURCES: (Amounts, Amounts) = (("100m", "64Mi"), ("100m", "64Mi"));
/// The name of the master's port for probes.
const HTTP_PORT: &str = "http";
/// How long a parameter server that is removed may take to hand over what it keeps.
const DRAIN_SECONDS: u32 = 300;
/// The user of Flexor's image.
const FLEXOR_USER: u64 = 65532;
/// Where a kubelet reads a container's termination message.
const TERMINATION_LOG: &str = "/dev/termination-log";

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
        run_image(&mut container, image, MASTER_RESOURCES);
        let probe = |path: &str| json!({ "httpGet": { "path": path, "port": HTTP_PORT } });
        container["readinessProbe"] = probe("/ready");
        container["readinessProbe"]["periodSeconds"] = 2.into();
        container["livenessProbe"] = probe("/live");
    }
    let words = master_command(context, role).into_iter();
    container["command"] = words.map(environment::literal).collect();
    container
}

/// What only pods on a cluster have, by what they run.
pub(super) fn prepare_pod(role: &Role, spec: &mut Value) {
    if spec["hostNetwork"] == true {
        // With its node's resolver it would not find the master's service.
        set_default(spec, "dnsPolicy", json!("ClusterFirstWithHostNet"));
    }
    match role.program {
        // Nothing of Flexor's in a job's pods asks the API server for anything.
        Program::FlexorMaster => set_default(spec, "automountServiceAccountToken", json!(false)),
        Program::FlexorPs => {
            set_default(spec, "automountServiceAccountToken", json!(false));
            set_default(spec, "terminationGracePeriodSeconds", json!(DRAIN_SECONDS));
        }
        Program::Foreign | Program::FlexorWorker | Program::FlexorLaunch | Program::FlexorOther => {}
    }
}

/// Has the kubelet keep the end of the log of a container that fails without leaving a message.
pub(super) fn report_last_output(container: &mut Value) {
    set_default(container, "terminationMessagePolicy", json!("FallbackToLogsOnError"));
}

/// Makes a container run Flexor's image, with resources and a security context unless it has its own.
fn run_image(container: &mut Value, image: &str, (requests, limits): (Amounts, Amounts)) {
    container["image"] = image.into();
    set_default(container, "imagePullPolicy", json!("IfNotPresent"));
    let [requests, limits] = [requests, limits].map(|(cpu, memory)| json!({ "cpu": cpu, "memory": memory }));
    set_default(container, "resources", json!({ "requests": requests, "limits": limits }));
    // As the Pod Security Standard "restricted" asks.
    set_default(
        container,
        "securityContext",
        json!({
            "runAsNonRoot": true,
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": { "drop": ["ALL"] },
            "seccompProfile": { "type": "RuntimeDefault" },
        }),
    );
}

fn set_default(object: &mut Value, field: &str, value: Value) {
    if object[field].is_null() {
        object[field] = value;
    }
}

/// Has a container whose template names no command run `flexor ps`.
pub(super) fn run_parameter_server(context: &RenderContext<'_>, container: &mut Value) {
    if let FlexorProgram::Image(image) = context.flexor {
        container["image"] = image.into();
        set_default(container, "imagePullPolicy", json!("IfNotPresent"));
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
        command.extend(address.as_deref().and_then(environment::host).map(|host| format!("--allowed-host={host}")));
    }
    command
}

/// How many nodes a world of the job may have.
fn nodes(job: &Job) -> (u32, u32) {
    job.role(RoleKind::Worker).map_or((1, 1), |role| {
        let allowed = role.size.allowed();
        (allowed.min().max(1), allowed.max().unwrap_or(MOST_REPLICAS).max(1))
    })
}

/// The user of a sidecar, where the template names the program's: what torchrun's processes leave is readable for their
/// own user only. A sidecar never runs as root.
fn sidecar_user(role: &Role) -> Option<u64> {
    let pod = &role.template.json()["spec"];
    let main = &pod["containers"][role.template.main_index()];
    let named = [main, pod].into_iter().find_map(|of| of["securityContext"]["runAsUser"].as_u64())?;
    Some(if named == 0 { FLEXOR_USER } else { named })
}

/// The sidecar. It restarts in place, runs beside all containers, and ends after them.
pub(super) fn sidecar(context: &RenderContext<'_>, role: &Role, desired: &DesiredPod) -> Value {
    let upstream = environment::master(context).unwrap_or_default();
    let mut container = json!({ "name": SIDECAR });
    let mut command = [context.flexor.path(), "sidecar", "--upstream", &upstream].map(str::to_owned).to_vec();
    if let FlexorProgram::Image(image) = context.flexor {
        run_image(&mut container, image, SIDECAR_RESOURCES);
        if let Some(user) = sidecar_user(role) {
            container["securityContext"]["runAsUser"] = user.into();
        }
        let error_file = volumes::error_file(role.template.main().name());
        command.extend([
            "--error-file".to_owned(),
            error_file,
            "--message-file".to_owned(),
            TERMINATION_LOG.to_owned(),
        ]);
        let address = sidecar_address::of_pod(context, role, desired).unwrap_or_default();
        let host = environment::host(&address).unwrap_or_default();
        let more = role.env.iter().filter_map(|rule| match rule.value {
            EnvValue::SidecarHost { port } => Some(format!("{host}:{port}")),
            EnvValue::Literal(_)
            | EnvValue::Text(_)
            | EnvValue::Address { .. }
            | EnvValue::PodField(_)
            | EnvValue::TfConfig => None,
        });
        command.extend([address.clone()].into_iter().chain(more).map(|address| format!("--listen={address}")));
    }
    container["command"] = command.into();
    container["restartPolicy"] = "Always".into();
    environment::add(&mut container, environment::identity(context));
    container
}
