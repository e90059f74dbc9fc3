//! The `ElasticJob` as its users write it, and its status.

use std::collections::BTreeMap;

use flexor_engine::controller::StoredStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    conditions::JobCondition,
    flexor_options::FlexorOptions,
    job_status::{TargetStatus, stored_status},
    pod_template::{EnvVar, PodTemplate},
    vocabulary::vocabulary,
    wire_resources::ResourceList,
};

/// An elastic training job whose master sizes it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "elastic.iml.github.io",
    version = "v1alpha1",
    kind = "ElasticJob",
    plural = "elasticjobs",
    shortname = "dej",
    namespaced,
    status = "ElasticJobStatus",
    derive = "PartialEq",
    doc = "An elastic training job, as DLRover's users write it.",
    scale(
        spec_replicas_path = ".spec.replicaSpecs.worker.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.labelSelector"
    ),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')")
        .message("metadata.name: must begin with a letter and hold only lower-case letters, digits and `-`, because pods and services are named after it"),
    validation = Rule::new("self.metadata.name.size() <= 37")
        .message("metadata.name: must have at most 37 characters, so that elasticjob-NAME-dlrover-master is no longer than 63"),
    validation = Rule::new("self.spec.replicaSpecs.all(role, role == 'dlrover-master' || self.metadata.name.size() + role.size() <= 49)")
        .message("metadata.name: is too long for its roles: NAME-edljob-ROLE-12345 must have at most 63 characters"),
)]
#[x_kube(
    validation = Rule::new("self.replicaSpecs.all(role, role.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$'))")
        .message(Message::Expression("'role `' + self.replicaSpecs.filter(role, !role.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$'))[0] + '`: a role must begin with a letter and hold only lower-case letters, digits and `-`'".into()))
        .field_path(".replicaSpecs"),
    validation = Rule::new("self.replicaSpecs.exists(role, role != 'dlrover-master')")
        .message("has nothing to run: add a role such as worker or ps")
        .field_path(".replicaSpecs"),
    validation = Rule::new(
        "self.replicaSpecs.all(role, role == 'dlrover-master' || has(self.replicaSpecs[role].template) \
         || (role in ['chief', 'evaluator'] && 'worker' in self.replicaSpecs && has(self.replicaSpecs['worker'].template)))"
    )
        .message(Message::Expression("'role `' + self.replicaSpecs.filter(role, role != 'dlrover-master' && !has(self.replicaSpecs[role].template) && !(role in ['chief', 'evaluator'] && 'worker' in self.replicaSpecs && has(self.replicaSpecs['worker'].template)))[0] + '` has no containers: give it a template (only chief and evaluator borrow the worker\\'s)'".into()))
        .field_path(".replicaSpecs"),
)]
pub struct ElasticJobSpec {
    /// How the processes share the work. Without it: ParameterServerStrategy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distribution_strategy: Option<DistributionStrategy>,
    /// What all pods together may use when the job is sized for its user: cpu, memory, gpu.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_limits: Option<ResourceList>,
    /// Who sizes the job: manual, single-job (its master) or cluster. Without it: single-job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optimize_mode: Option<OptimizeMode>,
    /// Address of DLRover's brain. Nothing uses it here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brain_service: Option<String>,
    /// Always on; nothing uses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable_elastic_scheduling: Option<bool>,
    /// Always on; nothing uses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable_dynamic_sharding: Option<bool>,
    /// The roles: ps, worker, chief, evaluator, dlrover-master, or any name of the user's own.
    #[schemars(extend("minProperties" = 1, "maxProperties" = 16))]
    pub replica_specs: BTreeMap<String, ReplicaSpec>,
    /// Variables for all pods. Nothing uses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub envs: Option<BTreeMap<String, EnvVar>>,
    /// Hold the job back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
    /// Options of Flexor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flexor: Option<FlexorOptions>,
}

/// One role.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new(
        "!has(self.template) || self.template.spec.containers.size() == 1 \
         || self.template.spec.containers.exists(container, container.name == 'main')"
    )
        .message("has several containers and none is called main, so it is not clear which one trains")
        .field_path(".template"),
)]
pub struct ReplicaSpec {
    /// How many. Without it: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100_000))]
    pub replicas: Option<i32>,
    /// The pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<PodTemplate>,
    /// Nothing uses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart_policy: Option<String>,
    /// How many failures of the program each node is forgiven. Without it: 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100_000))]
    pub restart_count: Option<i32>,
    /// Whether the job's master may change the number and the resources. Without it: true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_scale: Option<bool>,
    /// Nothing uses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart_timeout: Option<i32>,
    /// Must be high, low, or the share of nodes that are high, above 0 and at most 1, in quotes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^(high|low|1(\.0+)?|0?\.[0-9]*[1-9][0-9]*)?$"))]
    pub priority: Option<String>,
    /// Nothing uses it.
    #[serde(default, rename = "BatchScheduler", skip_serializing_if = "Option::is_none")]
    pub batch_scheduler: Option<String>,
    /// Nodes without which the job fails. Must be all, none, or pairs of index and relaunches such as 0:3,1:2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^(all|none|[0-9]+:[0-9]+(,[0-9]+:[0-9]+)*)?$"))]
    pub critical_nodes: Option<String>,
}

vocabulary! {
    /// How the processes of a job share the work.
    DistributionStrategy {
        /// Workers push to and pull from servers.
        ParameterServer = "ParameterServerStrategy",
        /// Workers talk to each other.
        Allreduce = "AllreduceStrategy",
        /// The program knows.
        Custom = "CustomStrategy",
        /// One process.
        Local = "Local",
    }
}

vocabulary! {
    /// Who sizes a job.
    OptimizeMode {
        /// Its user.
        Manual = "manual",
        /// Its master.
        SingleJob = "single-job",
        /// The cluster's planner.
        Cluster = "cluster",
    }
}

/// The status of a job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ElasticJobStatus {
    /// Created, Pending, Running, Scaling, Suspended, Succeeded or Failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The plan that is being carried out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_plan: Option<String>,
    /// The generation of the manifest that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Why the job is in this phase, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why the job is in this phase, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The target replicas of each role, and who set them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub targets: Option<BTreeMap<String, TargetStatus>>,
    /// What the controller remembers of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "stored_status")]
    pub flexor: Option<StoredStatus>,
    /// How many pods of workers wait or run; the chief is one of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// The labels that select the pods of the workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<String>,
    /// Conditions and counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<JobStatus>,
}

/// Conditions and counts; its users know it as `.status.status`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobStatus {
    /// The phases of the job, past and present.
    #[serde(default)]
    pub conditions: Vec<JobCondition>,
    /// Counts by role.
    #[serde(default)]
    pub replica_statuses: BTreeMap<String, ReplicaStatus>,
    /// When the first worker ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// When it was last looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_reconcile_time: Option<Time>,
}

/// How many pods of a role are in which state.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaStatus {
    /// Wanted at first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial: Option<i32>,
    /// Waiting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<i32>,
    /// Running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<i32>,
    /// Ended well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub succeeded: Option<i32>,
    /// Ended badly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<i32>,
    /// The labels that select them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<String>,
}
