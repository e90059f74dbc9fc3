//! The `TrainingJob` as its users write it, and its status in all three generations.

use std::collections::BTreeMap;

use flexor_engine::controller::StoredStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    conditions::JobCondition,
    flexor_options::FlexorOptions,
    job_status::{TargetStatus, stored_status},
    schema::{list_passed_on, passed_on},
    wire_resources::ResourceRequirements,
};

/// A training job that the cluster's planner sizes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "paddlepaddle.org",
    version = "v1",
    kind = "TrainingJob",
    plural = "trainingjobs",
    shortname = "tj",
    namespaced,
    status = "TrainingJobStatus",
    derive = "PartialEq",
    doc = "A training job that the cluster's planner sizes, as PaddlePaddle EDL's users write it.",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Trainers", type_ = "integer", json_path = ".status.trainers"),
    printcolumn(name = "Min", type_ = "integer", json_path = ".spec.trainer.min-instance"),
    printcolumn(name = "Max", type_ = "integer", json_path = ".spec.trainer.max-instance"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')")
        .message("metadata.name: must begin with a letter and hold only lower-case letters, digits and `-`, because pods are named after it"),
    validation = Rule::new("self.metadata.name.size() <= 49")
        .message("metadata.name: must have at most 49 characters, so that NAME-trainer-12345 is no longer than 63"),
)]
#[x_kube(
    validation = Rule::new(
        "self.trainer.min__dash__instance == self.trainer.max__dash__instance || (has(self.fault_tolerant) && self.fault_tolerant)"
    )
        .message("an elastic job (min-instance below max-instance) must have fault_tolerant: true")
        .field_path(".trainer"),
)]
pub struct TrainingJobSpec {
    /// The image of all pods. Without it: paddlepaddle/paddlecloud-job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The first port. Without it: 7164.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65000))]
    pub port: Option<i32>,
    /// How many ports carry dense parameters. Without it: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 64))]
    pub ports_num: Option<i32>,
    /// How many ports carry sparse parameters. Without it: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 64))]
    pub ports_num_for_sparse: Option<i32>,
    /// Whether trainers may come and go. Needed by elastic jobs. Without it: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault_tolerant: Option<bool>,
    /// How often the data is gone through. Without it: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub passes: Option<i32>,
    /// Volumes of all pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "list_passed_on")]
    pub volumes: Option<Vec<Value>>,
    /// Volumes of all pods, as 2017 spelt it.
    #[serde(default, rename = "Volumes", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "list_passed_on")]
    pub volumes_2017: Option<Vec<Value>>,
    /// Where they are mounted.
    #[serde(default, rename = "VolumeMounts", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "list_passed_on")]
    pub volume_mounts: Option<Vec<Value>>,
    /// Secrets for pulling the image.
    #[serde(default, rename = "imagePullSecrets", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "list_passed_on")]
    pub image_pull_secrets: Option<Vec<Value>>,
    /// Use the host's network (2018).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_network: Option<bool>,
    /// Use the host's network, as 2017 spelt it.
    #[serde(default, rename = "HostNetwork", skip_serializing_if = "Option::is_none")]
    pub host_network_2017: Option<bool>,
    /// The trainers.
    pub trainer: TrainerSpec,
    /// The parameter servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pserver: Option<PserverSpec>,
    /// The master.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub master: Option<MasterSpec>,
    /// Options of Flexor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flexor: Option<FlexorOptions>,
}

/// The trainers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    validation = Rule::new("self.min__dash__instance <= self.max__dash__instance")
        .message("min-instance must not be above max-instance"),
)]
pub struct TrainerSpec {
    /// The command line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entrypoint: Option<String>,
    /// The folder of the user's package.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// The fewest trainers.
    #[serde(rename = "min-instance")]
    #[schemars(range(min = 1, max = 100_000))]
    pub min_instance: i32,
    /// The most trainers.
    #[serde(rename = "max-instance")]
    #[schemars(range(min = 1, max = 100_000))]
    pub max_instance: i32,
    /// What each asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// Belongs one level up, but every published example writes it here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub passes: Option<i32>,
    /// Nothing uses it: the job's master needs no etcd.
    #[serde(default, rename = "etcd-endpoint", skip_serializing_if = "Option::is_none")]
    pub etcd_endpoint: Option<String>,
    /// Filled in by the controller of 2018; nothing reads it.
    #[serde(default, rename = "replicaSpec", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "passed_on")]
    pub replica_spec: Option<Value>,
}

/// The parameter servers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    validation = Rule::new("self.min__dash__instance <= self.max__dash__instance")
        .message("min-instance must not be above max-instance"),
)]
pub struct PserverSpec {
    /// How many.
    #[serde(rename = "min-instance")]
    #[schemars(range(min = 1, max = 100_000))]
    pub min_instance: i32,
    /// The most; servers are not scaled by the planner.
    #[serde(rename = "max-instance")]
    #[schemars(range(min = 1, max = 100_000))]
    pub max_instance: i32,
    /// What each asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// Filled in by the controller of 2018; nothing reads it.
    #[serde(default, rename = "replicaSpec", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "passed_on")]
    pub replica_spec: Option<Value>,
}

/// The master.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MasterSpec {
    /// Nothing uses it: the job's master needs no etcd.
    #[serde(default, rename = "etcd-endpoint", skip_serializing_if = "Option::is_none")]
    pub etcd_endpoint: Option<String>,
    /// What it asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// Filled in by the controller of 2018; nothing reads it.
    #[serde(default, rename = "replicaSpec", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "passed_on")]
    pub replica_spec: Option<Value>,
}

/// The status of a job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrainingJobStatus {
    /// Created, Running, Failed or Succeed (2017).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Why (2017).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// creating, running, scaling, succeeded or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// An empty object (2018).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "passed_on")]
    pub scale_status: Option<Value>,
    /// How many trainers there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trainers: Option<i32>,
    /// Counts by kind of pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_statuses: Option<Vec<ReplicaStatus>>,
    /// Past changes of the size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_records: Option<Vec<ScaleRecord>>,
    /// The generation of the manifest that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "observedGeneration")]
    pub observed_generation: Option<i64>,
    /// The phases of the job, past and present.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<JobCondition>>,
    /// The target replicas of each role, and who set them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub targets: Option<BTreeMap<String, TargetStatus>>,
    /// What the controller remembers of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "stored_status")]
    pub flexor: Option<StoredStatus>,
}

/// How many pods of one kind are in which state.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReplicaStatus {
    /// master, pserver or trainer.
    pub training_resource_type: String,
    /// starting, running, failed or succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// How many are in each state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_states: Option<BTreeMap<String, i32>>,
}

/// One change of the size.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScaleRecord {
    /// When.
    #[serde(default, rename = "scaleTimestamp", skip_serializing_if = "Option::is_none")]
    pub scale_timestamp: Option<Time>,
    /// By how many trainers.
    #[serde(default)]
    pub additional: i32,
    /// True, False or Unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
