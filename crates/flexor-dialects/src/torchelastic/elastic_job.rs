//! The `ElasticJob` as its users write it, and its status.

use std::collections::BTreeMap;

use flexor_engine::controller::StoredStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema, core::Rule};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    conditions::JobCondition,
    flexor_options::FlexorOptions,
    job_status::{TargetStatus, stored_status},
    pod_template::PodTemplate,
    vocabulary::vocabulary,
};

/// An elastic job of stock torchrun.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "elastic.pytorch.org",
    version = "v1alpha1",
    kind = "ElasticJob",
    plural = "elasticjobs",
    shortname = "tej",
    namespaced,
    status = "ElasticJobStatus",
    derive = "PartialEq",
    doc = "An elastic job of stock torchrun, as the users of TorchElastic's controller write it.",
    scale(
        spec_replicas_path = ".spec.replicaSpecs.Worker.replicas",
        status_replicas_path = ".status.replicaStatuses.Worker.active",
        label_selector_path = ".status.labelSelector"
    ),
    printcolumn(name = "Desired", type_ = "integer", json_path = ".spec.replicaSpecs.Worker.replicas"),
    printcolumn(name = "Min", type_ = "integer", json_path = ".spec.minReplicas"),
    printcolumn(name = "Max", type_ = "integer", json_path = ".spec.maxReplicas"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')")
        .message("metadata.name: must begin with a letter and hold only lower-case letters, digits and `-`, because pods and services are named after it"),
    validation = Rule::new("self.metadata.name.size() <= 50")
        .message("metadata.name: must have at most 50 characters, so that NAME-worker-12345 is no longer than 63"),
    validation = fixed_at_start("minReplicas"),
    validation = fixed_at_start("maxReplicas"),
)]
#[x_kube(
    validation = Rule::new("!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas")
        .message("must not be above maxReplicas")
        .field_path(".minReplicas"),
    validation = Rule::new(
        "!has(self.minReplicas) || self.minReplicas <= (has(self.replicaSpecs.Worker.replicas) ? self.replicaSpecs.Worker.replicas : 1)"
    )
        .message("must not be above replicaSpecs.Worker.replicas (1 where that is not set)")
        .field_path(".minReplicas"),
    validation = Rule::new(
        "!has(self.maxReplicas) || self.maxReplicas >= (has(self.replicaSpecs.Worker.replicas) ? self.replicaSpecs.Worker.replicas : 1)"
    )
        .message("must not be below replicaSpecs.Worker.replicas (1 where that is not set)")
        .field_path(".maxReplicas"),
)]
pub struct ElasticJobSpec {
    /// host:port of an etcd of the user's own. Without it, or if it is empty, the job's master holds the rendezvous.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub rdzv_endpoint: Option<String>,
    /// The fewest nodes that train. Without it: as many as Worker.replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000))]
    pub min_replicas: Option<i32>,
    /// The most nodes that train. Without it: as many as Worker.replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000))]
    pub max_replicas: Option<i32>,
    /// The nodes.
    pub replica_specs: ReplicaSpecs,
    /// Which pods are deleted once the job has ended: All, Running or None. Without it: None.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clean_pod_policy: Option<CleanPodPolicy>,
    /// After how many seconds the ended job is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub ttl_seconds_after_finished: Option<i32>,
    /// After how many seconds the running job is failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub active_deadline_seconds: Option<i64>,
    /// How many failures of the program the job is forgiven. Without it: 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub backoff_limit: Option<i32>,
    /// Nothing uses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling_policy: Option<SchedulingPolicy>,
    /// Options of Flexor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flexor: Option<FlexorOptions>,
}

/// The rule that an end of the range stays as it is: master and workers are started with the range, and nothing tells
/// them of another.
fn fixed_at_start(field: &str) -> Rule {
    let written = |object: &str| {
        let replicas = format!("{object}.spec.replicaSpecs.Worker.replicas");
        format!("(has({object}.spec.{field}) ? {object}.spec.{field} : has({replicas}) ? {replicas} : 1)")
    };
    let (now, before) = (written("self"), written("oldSelf"));
    let can_change =
        "!has(oldSelf.status) || !has(oldSelf.status.phase) || oldSelf.status.phase in ['Succeeded', 'Failed']";
    Rule::new(format!("{can_change} || {now} == {before}"))
        .message(
            "cannot change before the job has ended, because its pods are started with it (where it is missing, \
             replicaSpecs.Worker.replicas stands for it): delete the job and apply it again. Between minReplicas and \
             maxReplicas, replicaSpecs.Worker.replicas may change at any time",
        )
        .field_path(format!(".spec.{field}"))
}

/// The roles; there is one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReplicaSpecs {
    /// The nodes.
    #[serde(rename = "Worker")]
    pub worker: WorkerSpec,
}

/// The nodes of a job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkerSpec {
    /// How many. Without it: 1. Change it to scale the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100_000))]
    pub replicas: Option<i32>,
    /// Never: a failed node fails the job. Always, OnFailure, ExitCode or nothing: retried up to backoffLimit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart_policy: Option<RestartPolicy>,
    /// The pod. Its launcher is the container called elasticjob-worker, else the first.
    pub template: PodTemplate,
}

/// Gang scheduling, which the original declares and never does.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SchedulingPolicy {
    /// Nothing uses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_available: Option<i32>,
}

vocabulary! {
    /// Which pods are deleted once a job has ended.
    CleanPodPolicy {
        /// All.
        All = "All",
        /// Those that still run.
        Running = "Running",
        /// None.
        None = "None",
    }
}

vocabulary! {
    /// What becomes of a node whose program failed.
    RestartPolicy {
        /// It is tried again.
        Always = "Always",
        /// It is tried again.
        OnFailure = "OnFailure",
        /// The job fails.
        Never = "Never",
        /// It is tried again, whatever the code.
        ExitCode = "ExitCode",
    }
}

/// The status of a job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ElasticJobStatus {
    /// Pending, Running, Succeeded or Failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
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
    /// The phases of the job, past and present.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<JobCondition>>,
    /// Counts by role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_statuses: Option<BTreeMap<String, ReplicaStatus>>,
    /// The labels that select the nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<String>,
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

/// How many nodes are in which state.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReplicaStatus {
    /// Running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<i32>,
    /// Ended well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub succeeded: Option<i32>,
    /// Ended badly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<i32>,
}
