//! From a `TrainingJob` to the neutral job.

use flexor_model::{
    EndPolicy, EnvRule, Job, Quantity, Reason, ReplicaRange, Resources, Role, RoleKind, RoleNaming, RolePriority,
    Sizing, Strategy,
};
use serde_json::{Map, Value};

use super::{NAME, TrainingJob, TrainingJobSpec, naming};
use crate::{
    Finding,
    command_hints::Launcher,
    metadata::{self, in_range},
    pod_template::{Container, PodSpec, PodTemplate},
    wire_resources::{ResourceRequirements, read_list},
};

const IMAGE: &str = "paddlepaddle/paddlecloud-job";
const PORT: u32 = 7164;
/// Failures of the program that each node is forgiven.
const RESTARTS: u32 = 3;
/// The name accelerators had until Kubernetes 1.10, and the one they have.
const ALPHA_GPU: &str = "alpha.kubernetes.io/nvidia-gpu";
const GPU: &str = "nvidia.com/gpu";

/// The neutral job. Total for manifests that fit their schema and keep its rules.
pub(super) fn to_job(job: &TrainingJob, findings: &mut Vec<Finding>) -> Result<Job, Finding> {
    let spec = &job.spec;
    let fault_tolerant = spec.fault_tolerant.unwrap_or(false);
    let env = environment(spec, findings);
    let resources = spec.master.as_ref().and_then(|master| master.resources.as_ref());
    let naming = naming::of_master(env.clone());
    let master = role(spec, "master", resources, ReplicaRange::exactly(1), "start_master", naming, findings);
    let mut roles = vec![master];
    if let Some(pserver) = &spec.pserver {
        let program = if fault_tolerant { "start_new_pserver" } else { "start_pserver" };
        // The planner never moves servers, so the upper bound has no effect.
        let range = ReplicaRange::exactly(in_range(Some(pserver.min_instance), 1));
        let naming = naming::of_role("paddle-job-pserver", ports(spec), env.clone());
        roles.push(role(spec, "pserver", pserver.resources.as_ref(), range, program, naming, findings));
    }
    let trainer = &spec.trainer;
    let range = ReplicaRange::new(in_range(Some(trainer.min_instance), 1), in_range(Some(trainer.max_instance), 1))
        .map_err(|error| Finding::new(Reason::RuleBroken, "spec.trainer.min-instance", error.to_string()))?;
    let program = if fault_tolerant { "start_new_trainer" } else { "start_trainer v2" };
    let naming = naming::of_role("paddle-job", ports(spec), env);
    roles.push(role(spec, "trainer", trainer.resources.as_ref(), range, program, naming, findings));
    Ok(Job {
        name: metadata::job_name(&job.metadata)?,
        namespace: metadata::namespace(&job.metadata)?,
        dialect: NAME.to_owned(),
        strategy: if spec.pserver.is_some() { Strategy::ParameterServer } else { Strategy::Custom },
        roles,
        sizing: Sizing::Cluster,
        ceiling: Resources::default(),
        end: EndPolicy::default(),
        suspended: false,
    })
}

fn role(
    spec: &TrainingJobSpec,
    name: &str,
    resources: Option<&ResourceRequirements>,
    range: ReplicaRange,
    program: &str,
    naming: RoleNaming,
    findings: &mut Vec<Finding>,
) -> Role {
    let container = Container {
        name: name.to_owned(),
        image: Some(spec.image.clone().unwrap_or_else(|| IMAGE.to_owned())),
        command: Some(["paddle_k8s"].into_iter().chain(program.split(' ')).map(str::to_owned).collect()),
        rest: fields([("volumeMounts", list(spec.volume_mounts.as_ref()))]),
        ..Container::default()
    };
    let host_network = spec.host_network.or(spec.host_network_2017).filter(|on| *on).map(Value::Bool);
    let pod = PodTemplate {
        spec: PodSpec {
            containers: vec![container],
            rest: fields([
                ("volumes", list(spec.volumes.as_ref())),
                ("imagePullSecrets", list(spec.image_pull_secrets.as_ref())),
                ("hostNetwork", host_network),
            ]),
            ..PodSpec::default()
        },
        rest: Map::new(),
    };
    let path = format!("spec.{name}.resources");
    let limits = read_list(resources.and_then(|r| r.limits.as_ref()), &format!("{path}.limits"), findings);
    let asked = read_list(resources.and_then(|r| r.requests.as_ref()), &format!("{path}.requests"), findings);
    // The pod is made of the manifest's own volumes, so what is strange about it is said about the manifest.
    let mut template = pod.read("spec", name, Launcher::Any, &mut Vec::new()).template;
    let limits = todays_gpu(&limits);
    let requests: Resources = limits.iter().chain(todays_gpu(&asked).iter()).collect();
    template.json["spec"]["containers"][0]["resources"] = serde_json::json!({"limits": limits, "requests": requests});
    Role {
        name: name.parse().expect("the three roles have good names"),
        kind: match name {
            "master" => RoleKind::Master,
            "pserver" => RoleKind::ParameterServer,
            _ => RoleKind::Worker,
        },
        replicas: range.min(),
        range,
        auto_scale: range.is_elastic(),
        requests,
        limits,
        restart_limit: RESTARTS,
        priority: RolePriority::FromTemplate,
        template,
        naming,
    }
}

fn list(items: Option<&Vec<Value>>) -> Option<Value> {
    items.map(|items| Value::Array(items.clone()))
}

fn fields<const N: usize>(fields: [(&str, Option<Value>); N]) -> Map<String, Value> {
    fields.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
}

fn todays_gpu(resources: &Resources) -> Resources {
    resources.iter().map(|(name, quantity)| (if name == ALPHA_GPU { GPU } else { name }, quantity)).collect()
}

fn ports(spec: &TrainingJobSpec) -> Vec<u16> {
    let first = in_range(spec.port, PORT);
    let count = in_range(spec.ports_num, 1) + in_range(spec.ports_num_for_sparse, 1);
    (first..first + count).filter_map(|port| u16::try_from(port).ok()).collect()
}

/// The variables that programs written for EDL read.
fn environment(spec: &TrainingJobSpec, findings: &mut Vec<Finding>) -> Vec<EnvRule> {
    let trainer = &spec.trainer;
    let entry = trainer.entrypoint.clone().unwrap_or_default();
    let resources = trainer.resources.clone().unwrap_or_default();
    // What is strange about them is said where the role is read.
    let mut unsaid = Vec::new();
    let limits = read_list(resources.limits.as_ref(), "", &mut unsaid);
    let requests = read_list(resources.requests.as_ref(), "", &mut unsaid);
    let gpus = limits.gpu().map_or(0, |(_, count)| count.ceil());
    let cores = requests.cpu().or(limits.cpu()).map_or(1, Quantity::ceil);
    if limits.get(ALPHA_GPU).is_some() || requests.get(ALPHA_GPU).is_some() {
        let part = if limits.get(ALPHA_GPU).is_some() { "limits" } else { "requests" };
        findings.push(
            Finding::new(
                Reason::ValueReplaced,
                format!("spec.trainer.resources.{part}[\"{ALPHA_GPU}\"]"),
                format!("Kubernetes has no {ALPHA_GPU} any more; {GPU} is asked for instead"),
            )
            .help(format!("write {GPU}")),
        );
    }
    vec![
        naming::pattern("PADDLE_JOB_NAME", "{job}"),
        naming::value("TRAINERS", trainer.min_instance),
        naming::value("PSERVERS", spec.pserver.as_ref().map_or(0, |pserver| pserver.min_instance)),
        naming::value("ENTRY", &entry),
        naming::value("TOPOLOGY", &entry),
        naming::value("TRAINER_PACKAGE", trainer.workspace.as_deref().unwrap_or_default()),
        naming::value("PADDLE_INIT_PORT", in_range(spec.port, PORT)),
        naming::value("PADDLE_INIT_TRAINER_COUNT", if gpus > 0 { gpus } else { cores }),
        naming::value("PADDLE_INIT_PORTS_NUM", in_range(spec.ports_num, 1)),
        naming::value("PADDLE_INIT_PORTS_NUM_FOR_SPARSE", in_range(spec.ports_num_for_sparse, 1)),
        naming::value("PADDLE_INIT_NUM_GRADIENT_SERVERS", trainer.min_instance),
        naming::value("PADDLE_INIT_NUM_PASSES", in_range(spec.passes.or(trainer.passes), 1)),
        naming::value("PADDLE_INIT_USE_GPU", i32::from(gpus > 0)),
        naming::value("LD_LIBRARY_PATH", "/usr/local/cuda/lib64"),
        naming::pod_field("NAMESPACE", "metadata.namespace"),
        naming::pod_field("POD_IP", "status.podIP"),
    ]
}
