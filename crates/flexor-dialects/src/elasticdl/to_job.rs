//! From options to the neutral job.
//!
//! ElasticDL has no autoscaler: the user says how many workers there are at most, and the scheduler takes some away
//! while something more important needs their place. So workers are elastic from one upwards, and nothing moves their
//! number by itself.

use flexor_model::{
    EndPolicy, Job, ReplicaRange, Resources, Role, RoleKind, RoleNaming, RolePriority, Sizing, Strategy,
};

use super::{
    choice::DistributionStrategy,
    cluster_spec::PodAdditions,
    job_options::JobOptions,
    naming::{self, WorkerAddress},
    resource_string::ResourceString,
    template::RoleTemplate,
};

/// A worker has nothing to save when it is told to stop: its data is handed out again.
const WORKER_GRACE_SECONDS: u32 = 1;

impl JobOptions {
    /// The job that these options describe. The same options always give the same job.
    pub fn to_job(&self) -> Job {
        let strategy = self.training.distribution_strategy;
        let roles = match strategy {
            DistributionStrategy::ParameterServer | DistributionStrategy::Custom if self.pods.num_ps_pods > 0 => {
                vec![self.master(), self.servers(), self.workers()]
            }
            DistributionStrategy::ParameterServer | DistributionStrategy::Custom | DistributionStrategy::AllReduce => {
                vec![self.master(), self.workers()]
            }
            DistributionStrategy::Local => vec![self.workers()],
        };
        Job {
            name: self.pods.job_name.clone(),
            namespace: Some(self.pods.namespace.clone()),
            dialect: super::DIALECT.to_owned(),
            strategy: match strategy {
                DistributionStrategy::ParameterServer => Strategy::ParameterServer,
                DistributionStrategy::AllReduce => Strategy::AllReduce,
                DistributionStrategy::Local => Strategy::Local,
                DistributionStrategy::Custom => Strategy::Custom,
            },
            roles,
            sizing: Sizing::Manual,
            ceiling: Resources::default(),
            end: EndPolicy::default(),
            suspended: false,
        }
    }

    fn master(&self) -> Role {
        let pods = &self.pods;
        self.role(RoleParts {
            name: "master",
            kind: RoleKind::Master,
            range: ReplicaRange::exactly(1),
            image: &pods.image_name,
            request: &pods.master_resource_request,
            limit: &pods.master_resource_limit,
            restart_limit: 0,
            grace_seconds: None,
            priority: pods.master_pod_priority.to_role(),
            additions: &pods.cluster_spec_json.master_pod_spec,
            naming: naming::master(),
        })
    }

    fn servers(&self) -> Role {
        let pods = &self.pods;
        self.role(RoleParts {
            name: "ps",
            kind: RoleKind::ParameterServer,
            range: ReplicaRange::exactly(pods.num_ps_pods),
            image: image(&pods.ps_image, &pods.image_name),
            request: &pods.ps_resource_request,
            limit: &pods.ps_resource_limit,
            restart_limit: pods.ps_relaunch_max_num,
            grace_seconds: None,
            priority: pods.ps_pod_priority.to_role(),
            additions: &pods.cluster_spec_json.ps_pod_spec,
            naming: naming::servers(self.worker_address()),
        })
    }

    fn workers(&self) -> Role {
        let pods = &self.pods;
        let most = pods.num_workers.get();
        self.role(RoleParts {
            name: "worker",
            kind: RoleKind::Worker,
            range: ReplicaRange::new(1, most).expect("there is at least one worker"),
            image: image(&pods.worker_image, &pods.image_name),
            request: &pods.worker_resource_request,
            limit: &pods.worker_resource_limit,
            restart_limit: pods.relaunch_on_worker_failure,
            grace_seconds: Some(WORKER_GRACE_SECONDS),
            priority: pods.worker_pod_priority.to_role(most),
            additions: &pods.cluster_spec_json.worker_pod_spec,
            naming: naming::workers(self.worker_address()),
        })
    }

    fn role(&self, parts: RoleParts<'_>) -> Role {
        let requests = &parts.request.0;
        let limits = if parts.limit.0.is_empty() { requests } else { &parts.limit.0 };
        let template = RoleTemplate {
            role: parts.name,
            image: parts.image,
            requests,
            limits,
            grace_seconds: parts.grace_seconds,
            additions: &self.pods.cluster_spec_json.pod_spec.overlaid(parts.additions),
        }
        .build(&self.pods);
        Role {
            name: parts.name.parse().expect("roles have names of lower-case letters"),
            kind: parts.kind,
            replicas: parts.range.max(),
            range: parts.range,
            auto_scale: false,
            requests: requests.clone(),
            limits: limits.clone(),
            restart_limit: if self.pods.aux_params.disable_relaunch { 0 } else { parts.restart_limit },
            priority: parts.priority,
            template,
            naming: parts.naming,
        }
    }

    fn worker_address(&self) -> WorkerAddress {
        if self.pods.need_tf_config { WorkerAddress::Inherited } else { WorkerAddress::PerPod }
    }
}

/// What distinguishes one role from another.
struct RoleParts<'a> {
    name: &'static str,
    kind: RoleKind,
    range: ReplicaRange,
    image: &'a str,
    request: &'a ResourceString,
    limit: &'a ResourceString,
    restart_limit: u32,
    grace_seconds: Option<u32>,
    priority: RolePriority,
    additions: &'a PodAdditions,
    naming: RoleNaming,
}

/// A role's own image, or the one of the job.
fn image<'a>(own: &'a str, of_the_job: &'a str) -> &'a str {
    if own.is_empty() { of_the_job } else { own }
}
