//! From EDL's `TrainingJob` to the neutral job.

use std::collections::BTreeMap;

use flexor_model::{
    CriticalNodes, EndPolicy, EnvRule, FailureBudget, Job, PodTemplate, Program, Reason, ReplicaRange, Resources, Role,
    RoleKind, RolePriority, RoleSize, Sizing, Strategy,
};
use serde_json::{Map, Value, json};

use super::{NAME, TrainingJob, TrainingJobSpec, entrypoint, environment, image, naming, warnings};
use crate::{
    Finding, Reading, master,
    object_meta::{self, count},
    pod_fields, program, resource_hints,
    wire_resources::{ResourceList, ResourceRequirements},
};

/// Failures of the program that each node is forgiven.
const RESTARTS: u32 = 3;
/// The names of roles and of their containers.
const TRAINER: &str = "trainer";
const PSERVER: &str = "pserver";
const MASTER: &str = "master";
/// The resource name of accelerators until Kubernetes 1.10, and today's.
pub(super) const ALPHA_GPU: &str = "alpha.kubernetes.io/nvidia-gpu";
const GPU: &str = "nvidia.com/gpu";

/// The neutral job that a `TrainingJob` describes.
pub fn to_job(job: &TrainingJob) -> Result<Reading<Job>, Finding> {
    let spec = &job.spec;
    let mut findings = warnings::of_job(spec);
    let trainer = template(spec, TRAINER, spec.trainer.resources.as_ref(), &mut findings)?;
    let env = environment::of(spec, trainer.main());
    let mut roles = vec![master_role(spec, env.clone(), &mut findings)?];
    if let Some(pserver) = &spec.pserver {
        let pod = template(spec, PSERVER, pserver.resources.as_ref(), &mut findings)?;
        // The planner never moves servers, so the upper bound has no effect.
        let size = RoleSize::fixed(count(Some(pserver.min_instance), 1, "spec.pserver.min-instance")?);
        let servers = role(spec, RoleKind::ParameterServer, size, pod, env.clone());
        roles.push(if image::has_paddle_k8s(spec) {
            servers
        } else {
            // Their clients learn their ports from the master.
            Role { program: Program::FlexorPs, ports: Vec::new(), ..servers }
        });
    }
    let trainers = role(spec, RoleKind::Worker, trainer_size(spec)?, trainer, env);
    let epochs = environment::epochs(spec);
    roles.push(Role {
        program: program::of(&trainers.template),
        env: trainers.env.iter().cloned().chain(epochs).collect(),
        ..trainers
    });
    let subject = Job {
        name: object_meta::job_name(&job.metadata)?,
        namespace: object_meta::namespace(&job.metadata)?,
        dialect: NAME.to_owned(),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        strategy: if spec.pserver.is_some() { Strategy::ParameterServer } else { Strategy::Custom },
        roles,
        // A job of a fixed size starts whole or not at all, which only the planner can see to.
        sizing: Sizing::Cluster,
        ceiling: Resources::default(),
        end: EndPolicy::default(),
        suspended: false,
        ps_replication_factor: 1,
        checkpoints: None,
    };
    Ok(Reading { subject, findings })
}

fn trainer_size(spec: &TrainingJobSpec) -> Result<RoleSize, Finding> {
    let field = "spec.trainer.min-instance";
    let broken = |error: String| Finding::new(Reason::RuleBroken, field, error);
    let (min, max) =
        (count(Some(spec.trainer.min_instance), 1, field)?, count(Some(spec.trainer.max_instance), 1, field)?);
    let range = ReplicaRange::new(min, max).map_err(|error| broken(error.to_string()))?;
    if !range.is_elastic() {
        return Ok(RoleSize::fixed(min));
    }
    RoleSize::automatic(min, range, range).map_err(|error| broken(error.to_string()))
}

fn role(spec: &TrainingJobSpec, kind: RoleKind, size: RoleSize, template: PodTemplate, env: Vec<EnvRule>) -> Role {
    let (name, selector) = match kind {
        RoleKind::ParameterServer => (PSERVER, "paddle-job-pserver"),
        RoleKind::Master => (MASTER, "paddle-job-master"),
        RoleKind::Worker | RoleKind::Chief | RoleKind::Evaluator | RoleKind::Other => (TRAINER, "paddle-job"),
    };
    Role {
        name: name.parse().expect("the three roles have good names"),
        kind,
        size,
        program: Program::Foreign,
        template,
        priority: RolePriority::FromTemplate,
        failures: FailureBudget::PerNode(RESTARTS),
        critical: CriticalNodes::Usual,
        naming: naming::of(selector),
        service: None,
        ports: naming::ports(spec),
        env,
        leading_args: Vec::new(),
    }
}

/// Every job has a master. The original's ran an etcd beside it, which Flexor's does not need.
fn master_role(spec: &TrainingJobSpec, env: Vec<EnvRule>, findings: &mut Vec<Finding>) -> Result<Role, Finding> {
    let resources = spec.master.as_ref().and_then(|master| master.resources.as_ref());
    let pod = template(spec, MASTER, resources, findings)?;
    Ok(Role {
        program: Program::FlexorMaster,
        service: Some(naming::master_service()),
        ports: master::ports(),
        ..role(spec, RoleKind::Master, RoleSize::fixed(1), pod, env)
    })
}

/// The template of a role: the job's image and volumes with the role's resources and command.
fn template(
    spec: &TrainingJobSpec,
    name: &str,
    resources: Option<&ResourceRequirements>,
    findings: &mut Vec<Finding>,
) -> Result<PodTemplate, Finding> {
    let resources = resources.cloned().unwrap_or_default();
    resource_hints::look_at(&resources, &format!("spec.{name}.resources"), findings)?;
    let volumes = spec.volumes.as_ref().or(spec.volumes_2017.as_ref());
    let mut asked = resources.rest;
    asked.insert("limits".to_owned(), todays_gpu(resources.limits).into());
    asked.insert("requests".to_owned(), todays_gpu(resources.requests).into());
    let mut container = json!({"name": name, "image": image::of(spec), "resources": asked});
    let command = command(spec, name);
    if !command.is_empty() {
        container["command"] = command.into();
    }
    if name == TRAINER {
        // Any other image may have been brought to the nodes without a registry.
        container["imagePullPolicy"] = if image::has_paddle_k8s(spec) { "Always" } else { "IfNotPresent" }.into();
        let workspace = spec.trainer.workspace.as_deref().filter(|workspace| !workspace.is_empty());
        if let Some(workspace) = workspace.filter(|_| !image::has_paddle_k8s(spec)) {
            container["workingDir"] = workspace.into();
        }
    }
    set(&mut container, "volumeMounts", spec.volume_mounts.as_ref());
    let mut pod = json!({ "containers": [container] });
    set(&mut pod, "volumes", volumes);
    set(&mut pod, "imagePullSecrets", spec.image_pull_secrets.as_ref());
    if spec.host_network.or(spec.host_network_2017) == Some(true) {
        pod["hostNetwork"] = true.into();
    }
    let json = json!({ "spec": pod });
    let noticed = pod_fields::look_at(&json, "pod").map_err(|finding| about_job(finding, spec, name))?;
    // Volumes and secrets are the same for all pods, so findings about them are reported once.
    let own = |finding: &Finding| name == TRAINER || finding.field.contains(".resources");
    findings.extend(noticed.into_iter().filter(own).map(|finding| about_job(finding, spec, name)));
    PodTemplate::new(json, name).map_err(|error| Finding::new(Reason::UnreadablePod, "spec", error.to_string()))
}

/// What the template of a role runs. Masters are always Flexor's, and so are the servers of an image without `paddle_k8s`:
/// the renderer writes their commands.
fn command(spec: &TrainingJobSpec, name: &str) -> Vec<String> {
    let fault_tolerant = spec.fault_tolerant.unwrap_or(false);
    let words: &[&str] = match (name, image::has_paddle_k8s(spec), fault_tolerant) {
        (TRAINER, false, _) => {
            return entrypoint::command(spec.trainer.entrypoint.as_deref().unwrap_or_default());
        }
        (TRAINER, true, true) => &["paddle_k8s", "start_new_trainer"],
        (TRAINER, true, false) => &["paddle_k8s", "start_trainer", "v2"],
        (PSERVER, true, true) => &["paddle_k8s", "start_new_pserver"],
        (PSERVER, true, false) => &["paddle_k8s", "start_pserver"],
        _ => &[],
    };
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Moves a finding about a pod to the field of the job that the pod was made from.
fn about_job(finding: Finding, spec: &TrainingJobSpec, name: &str) -> Finding {
    let volumes = if spec.volumes.is_some() { "spec.volumes" } else { "spec.Volumes" };
    let field = finding
        .field
        .replacen("pod.spec.containers[0].volumeMounts", "spec.VolumeMounts", 1)
        .replacen("pod.spec.containers[0].resources", &format!("spec.{name}.resources"), 1)
        .replacen("pod.spec.volumes", volumes, 1)
        .replacen("pod.spec", "spec", 1);
    Finding { field, ..finding }
}

fn set(object: &mut Value, key: &str, list: Option<&Vec<Value>>) {
    if let Some(list) = list {
        object[key] = Value::Array(list.clone());
    }
}

/// The quantities as written, with today's name for accelerators.
fn todays_gpu(list: Option<ResourceList>) -> Map<String, Value> {
    let pairs = list.into_iter().flatten();
    pairs.map(|(name, quantity)| (if name == ALPHA_GPU { GPU.to_owned() } else { name }, quantity.0)).collect()
}
