//! From TorchElastic's `ElasticJob` to the neutral job.

use std::collections::BTreeMap;

use flexor_model::{
    CleanPods, CriticalNodes, EndPolicy, FailureBudget, Job, LONGEST_SECONDS, Program, Reason, ReplicaRange, Resources,
    Role, RoleKind, RolePriority, RoleSize, Sizing, Strategy,
};

use super::{CleanPodPolicy, ElasticJob, ElasticJobSpec, NAME, RestartPolicy, naming, warnings};
use crate::{
    Finding, Reading,
    command_hints::Launcher,
    master,
    object_meta::{self, count},
    pod_template::of_flexor,
    program,
    torchrun_env::{self, Rendezvous},
};

/// Failures of the program that a job is forgiven where the manifest does not say.
const FAILURES: u32 = 3;
/// The container that the original controller reads.
const MAIN_CONTAINER: &str = "elasticjob-worker";

/// The neutral job that an `ElasticJob` describes.
pub fn to_job(job: &ElasticJob) -> Result<Reading<Job>, Finding> {
    let spec = &job.spec;
    let mut findings = warnings::of_job(spec);
    let mut roles = Vec::new();
    if own_endpoint(spec).is_none() {
        roles.push(master_role());
    }
    roles.push(worker(spec, &mut findings)?);
    let seconds = |n: i32, field| count(Some(n), 0, field);
    let subject = Job {
        name: object_meta::job_name(&job.metadata)?,
        namespace: object_meta::namespace(&job.metadata)?,
        dialect: NAME.to_owned(),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        strategy: Strategy::AllReduce,
        roles,
        sizing: Sizing::Manual,
        ceiling: Resources::default(),
        end: EndPolicy {
            clean_pods: match spec.clean_pod_policy {
                Some(CleanPodPolicy::All) => CleanPods::All,
                Some(CleanPodPolicy::Running) => CleanPods::Running,
                None | Some(CleanPodPolicy::None) => CleanPods::None,
            },
            remove_after_seconds: spec
                .ttl_seconds_after_finished
                .map(|n| seconds(n, "spec.ttlSecondsAfterFinished"))
                .transpose()?,
            deadline_seconds: spec
                .active_deadline_seconds
                .and_then(|n| u64::try_from(n).ok())
                .map(deadline)
                .transpose()?,
            shortage_seconds: None,
        },
        suspended: false,
        ps_replication_factor: 1,
        checkpoints: None,
    };
    Ok(Reading { subject, findings })
}

/// The etcd of the user's own, if there is one.
fn own_endpoint(spec: &ElasticJobSpec) -> Option<&str> {
    spec.rdzv_endpoint.as_deref().filter(|endpoint| !endpoint.is_empty())
}

fn deadline(seconds: u64) -> Result<u64, Finding> {
    if seconds > LONGEST_SECONDS {
        let message =
            format!("{seconds} seconds are more than {LONGEST_SECONDS}, the longest time that a job can have");
        return Err(Finding::new(Reason::InvalidValue, "spec.activeDeadlineSeconds", message)
            .help("leave it out to let the job take as long as it takes"));
    }
    Ok(seconds)
}

fn worker(spec: &ElasticJobSpec, findings: &mut Vec<Finding>) -> Result<Role, Finding> {
    let worker = &spec.replica_specs.worker;
    let replicas = count(worker.replicas, 1, "spec.replicaSpecs.Worker.replicas")?;
    let min = count(spec.min_replicas, replicas, "spec.minReplicas")?;
    let max = count(spec.max_replicas, replicas, "spec.maxReplicas")?;
    let broken = |error: String| Finding::new(Reason::RuleBroken, "spec.minReplicas", error);
    let range = ReplicaRange::new(min, max).map_err(|error| broken(error.to_string()))?;
    let failures = match worker.restart_policy {
        Some(RestartPolicy::Never) => 0,
        None | Some(RestartPolicy::Always | RestartPolicy::OnFailure | RestartPolicy::ExitCode) => {
            count(spec.backoff_limit, FAILURES, "spec.backoffLimit")?
        }
    };
    let rendezvous = match own_endpoint(spec) {
        Some(endpoint) => Rendezvous::Etcd(endpoint),
        None => Rendezvous::Master(naming::MASTER.parse().expect("master is the name of a role")),
    };
    let path = "spec.replicaSpecs.Worker.template";
    let template = worker.template.read(path, MAIN_CONTAINER, Launcher::Torchrun, findings)?;
    let program = program::of(&template);
    let leading_args = match own_endpoint(spec) {
        // Flexor's own launcher reads PET_*.
        Some(endpoint) if program == Program::Foreign => {
            findings.extend(warnings::of_leading_args(template.main(), path, template.main_index()));
            torchrun_env::etcd_args(range, endpoint)
        }
        Some(_) | None => Vec::new(),
    };
    Ok(Role {
        name: "Worker".parse().expect("Worker is the name of a role"),
        kind: RoleKind::Worker,
        size: RoleSize::manual(replicas, range).map_err(|error| broken(error.to_string()))?,
        program,
        template,
        priority: RolePriority::FromTemplate,
        failures: FailureBudget::PerRole(failures),
        critical: CriticalNodes::Usual,
        naming: naming::of_worker(),
        service: Some(naming::worker_service()),
        ports: Vec::new(),
        env: torchrun_env::of(range, rendezvous),
        leading_args,
    })
}

fn master_role() -> Role {
    Role {
        name: naming::MASTER.parse().expect("master is the name of a role"),
        kind: RoleKind::Master,
        size: RoleSize::fixed(1),
        program: Program::FlexorMaster,
        template: of_flexor("master"),
        priority: RolePriority::FromTemplate,
        failures: FailureBudget::PerNode(FAILURES),
        critical: CriticalNodes::Usual,
        naming: naming::of_master(),
        service: Some(naming::master_service()),
        ports: master::ports(),
        env: Vec::new(),
        leading_args: Vec::new(),
    }
}
