//! From ElasticDL's options to the neutral job.
//!
//! ElasticDL has no autoscaler. The user gives the maximum number of workers, and the scheduler preempts some of them.
//! So workers are elastic from one upwards, and nothing scales them automatically.

use std::collections::BTreeMap;

use flexor_model::{
    CriticalNodes, EndPolicy, FailureBudget, Job, Program, ReplicaRange, Resources, Role, RoleKind, RolePriority,
    RoleSize, Sizing, Strategy,
};

use super::{
    job_options::JobOptions,
    naming::{self, Names, WorkerAddress},
    template::RoleTemplate,
};
use crate::elasticdl::{
    NAME,
    values::{DistributionStrategy, PodAdditions, ResourceString},
};

/// A worker has nothing to save when it stops: its data is leased again.
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
            dialect: NAME.to_owned(),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
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
            ps_replication_factor: 1,
            checkpoints: None,
        }
    }

    fn master(&self) -> Role {
        let pods = &self.pods;
        self.role(RoleParts {
            name: "master",
            kind: RoleKind::Master,
            program: Program::FlexorMaster,
            size: RoleSize::fixed(1),
            image: &pods.image_name,
            request: &pods.master_resource_request,
            limit: &pods.master_resource_limit,
            failures: 0,
            critical: CriticalNodes::Usual,
            grace_seconds: None,
            priority: pods.master_pod_priority.to_role(),
            additions: &pods.cluster_spec_json.master_pod_spec,
            names: naming::master(),
        })
    }

    fn servers(&self) -> Role {
        let pods = &self.pods;
        self.role(RoleParts {
            name: "ps",
            kind: RoleKind::ParameterServer,
            program: Program::FlexorPs,
            size: RoleSize::fixed(pods.num_ps_pods),
            image: image(&pods.ps_image, &pods.image_name),
            request: &pods.ps_resource_request,
            limit: &pods.ps_resource_limit,
            failures: pods.ps_relaunch_max_num,
            critical: if pods.ps_is_critical { CriticalNodes::Usual } else { CriticalNodes::None },
            grace_seconds: None,
            priority: pods.ps_pod_priority.to_role(),
            additions: &pods.cluster_spec_json.ps_pod_spec,
            names: naming::servers(self.worker_address()),
        })
    }

    fn workers(&self) -> Role {
        let pods = &self.pods;
        self.role(RoleParts {
            name: "worker",
            kind: RoleKind::Worker,
            program: Program::Foreign,
            size: self.worker_size(),
            image: image(&pods.worker_image, &pods.image_name),
            request: &pods.worker_resource_request,
            limit: &pods.worker_resource_limit,
            failures: pods.relaunch_on_worker_failure,
            critical: CriticalNodes::Usual,
            grace_seconds: Some(WORKER_GRACE_SECONDS),
            priority: pods.worker_pod_priority.to_role(),
            additions: &pods.cluster_spec_json.worker_pod_spec,
            names: naming::workers(self.worker_address()),
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
            size: parts.size,
            program: parts.program,
            template,
            priority: parts.priority,
            failures: FailureBudget::PerNode(if self.pods.aux_params.disable_relaunch { 0 } else { parts.failures }),
            critical: parts.critical,
            naming: parts.names.naming,
            service: parts.names.service,
            ports: parts.names.ports,
            env: parts.names.env,
            leading_args: Vec::new(),
        }
    }

    fn worker_size(&self) -> RoleSize {
        let most = self.pods.num_workers.get();
        match self.training.distribution_strategy {
            DistributionStrategy::Local => RoleSize::fixed(1),
            DistributionStrategy::ParameterServer | DistributionStrategy::AllReduce | DistributionStrategy::Custom => {
                let allowed = ReplicaRange::new(1, most).expect("there is at least one worker");
                RoleSize::manual(most, allowed).expect("the most that is allowed is allowed")
            }
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
    program: Program,
    size: RoleSize,
    image: &'a str,
    request: &'a ResourceString,
    limit: &'a ResourceString,
    failures: u32,
    critical: CriticalNodes,
    grace_seconds: Option<u32>,
    priority: RolePriority,
    additions: &'a PodAdditions,
    names: Names,
}

/// A role's own image, or the one of the job.
fn image<'a>(own: &'a str, of_the_job: &'a str) -> &'a str {
    if own.is_empty() { of_the_job } else { own }
}
