//! From an `ElasticJob` to the neutral job.

use flexor_model::{
    CleanPods, EndPolicy, Job, Reason, ReplicaRange, Resources, Role, RoleKind, RolePriority, Sizing, Strategy,
};

use super::{ElasticJob, ElasticJobSpec, NAME, naming};
use crate::{
    Finding,
    command_hints::Launcher,
    metadata::{self, in_range},
    pod_template::{Container, PodTemplate},
};

/// Failures of the program that a job is forgiven, where the manifest does not say.
const FAILURES: u32 = 3;
/// The container that the original looks at.
const MAIN_CONTAINER: &str = "elasticjob-worker";

/// The neutral job. Total for manifests that fit their schema and keep its rules.
pub(super) fn to_job(job: &ElasticJob, findings: &mut Vec<Finding>) -> Result<Job, Finding> {
    let spec = &job.spec;
    let mut roles = Vec::new();
    if spec.rdzv_endpoint.is_none() {
        roles.push(master());
    }
    roles.push(worker(spec, findings)?);
    Ok(Job {
        name: metadata::job_name(&job.metadata)?,
        namespace: metadata::namespace(&job.metadata)?,
        dialect: NAME.to_owned(),
        strategy: Strategy::AllReduce,
        roles,
        sizing: Sizing::Manual,
        ceiling: Resources::default(),
        end: EndPolicy {
            clean_pods: match spec.clean_pod_policy.as_deref() {
                Some("All") => CleanPods::All,
                Some("Running") => CleanPods::Running,
                _ => CleanPods::None,
            },
            remove_after_seconds: spec.ttl_seconds_after_finished.and_then(|s| u32::try_from(s).ok()),
            deadline_seconds: spec.active_deadline_seconds.and_then(|s| u64::try_from(s).ok()),
            failure_limit: Some(in_range(spec.backoff_limit, FAILURES)),
        },
        suspended: false,
    })
}

fn worker(spec: &ElasticJobSpec, findings: &mut Vec<Finding>) -> Result<Role, Finding> {
    let worker = &spec.replica_specs.worker;
    let replicas = in_range(worker.replicas, 1);
    let range = ReplicaRange::new(in_range(spec.min_replicas, replicas), in_range(spec.max_replicas, replicas))
        .map_err(|error| Finding::new(Reason::RuleBroken, "spec.minReplicas", error.to_string()))?;
    let path = "spec.replicaSpecs.Worker.template";
    let read = worker.template.read(path, MAIN_CONTAINER, Launcher::Torchrun, findings);
    Ok(Role {
        name: "Worker".parse().expect("Worker is a name"),
        kind: RoleKind::Worker,
        replicas,
        range,
        auto_scale: false,
        requests: read.requests,
        limits: read.limits,
        restart_limit: in_range(spec.backoff_limit, FAILURES),
        priority: RolePriority::FromTemplate,
        template: read.template,
        naming: naming::of_worker(range, spec.rdzv_endpoint.as_deref()),
    })
}

fn master() -> Role {
    let container = Container { name: "master".to_owned(), ..Container::default() };
    let read = PodTemplate::of(container).read("", "master", Launcher::Any, &mut Vec::new());
    Role {
        name: "master".parse().expect("master is a name"),
        kind: RoleKind::Master,
        replicas: 1,
        range: ReplicaRange::exactly(1),
        auto_scale: false,
        requests: read.requests,
        limits: read.limits,
        restart_limit: FAILURES,
        priority: RolePriority::FromTemplate,
        template: read.template,
        naming: naming::of_master(),
    }
}
