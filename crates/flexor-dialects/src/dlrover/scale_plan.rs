//! The `ScalePlan` as its users write it, and its status.

#![expect(clippy::duplicated_attributes, reason = "some columns are of the same type")]

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::wire_resources::ResourceList;

/// A change to the size of a running job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "elastic.iml.github.io",
    version = "v1alpha1",
    kind = "ScalePlan",
    plural = "scaleplans",
    shortname = "dsp",
    namespaced,
    status = "ScalePlanStatus",
    derive = "PartialEq",
    doc = "A change to the size of a running ElasticJob.",
    printcolumn(name = "Owner", type_ = "string", json_path = ".spec.ownerJob"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.reason", priority = 1),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message", priority = 1)
)]
#[x_kube(
    validation = Rule::new("!has(self.replicaResourceSpecs) || self.replicaResourceSpecs.all(role, role.size() <= 63 && role.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$'))")
        .message("a role must begin with a letter and hold only lower-case letters, digits and `-`")
        .field_path(".replicaResourceSpecs"),
    validation = Rule::new("!has(self.migratePods) || self.migratePods.all(pod, has(pod.name))")
        .message("each needs the name of the pod to replace")
        .field_path(".migratePods"),
    validation = Rule::new("!has(self.removePods) || self.removePods.all(pod, has(pod.name))")
        .message("each needs the name of the pod to remove")
        .field_path(".removePods"),
    validation = Rule::new("!has(self.createPods) || self.createPods.all(pod, has(pod.type))")
        .message("each needs the type (role) of the pod to create")
        .field_path(".createPods"),
)]
pub struct ScalePlanSpec {
    /// The job to change. Must be the name of an ElasticJob in the same namespace.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"))]
    pub owner_job: String,
    /// New sizes, by role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = 16))]
    pub replica_resource_specs: Option<BTreeMap<String, ReplicaResourceSpec>>,
    /// Pods to create.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 10_000))]
    pub create_pods: Option<Vec<PodMeta>>,
    /// Pods to remove.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 10_000))]
    pub remove_pods: Option<Vec<PodMeta>>,
    /// Pods to replace by others with other resources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 10_000))]
    pub migrate_pods: Option<Vec<PodMeta>>,
    /// Addresses of the parameter servers, host:port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 10_000))]
    pub ps_hosts: Option<Vec<String>>,
}

/// The new size of a role.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaResourceSpec {
    /// How many in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100_000))]
    pub replicas: Option<i32>,
    /// What new pods ask for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<ResourceList>,
}

/// One pod.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodMeta {
    /// Its name. Must be made of lower-case letters, digits, `-` and `.`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
    )]
    pub name: Option<String>,
    /// Its number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub id: Option<i32>,
    /// Its role.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63), regex(pattern = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"))]
    pub type_: Option<String>,
    /// Its rank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub rank_index: Option<i32>,
    /// Its address, host:port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// What it asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<ResourceList>,
}

/// The status of a plan.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScalePlanStatus {
    /// When it was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub create_time: Option<Time>,
    /// When it was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_time: Option<Time>,
    /// Created, Pending, Scaling, Succeeded or Failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The generation of the manifest that this status speaks of. A later edit of a plan that is done has no effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Why it is in this phase, in a word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The same for people: what it waits for, or why it was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}
