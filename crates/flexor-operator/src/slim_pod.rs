//! A pod with only the fields that decide something: a fifth of the memory of the whole one.

use flexor_engine::controller::ObservedPod;
use flexor_engine::pod_status::{self, PodMetadata, PodStatus};
use flexor_engine::render::{ID_LABEL, RANK_LABEL, ROLE_LABEL};
use flexor_model::{Job, NodeId, Rank, RoleName, UnixTime};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Resource, Serialize, Deserialize)]
#[resource(inherit = Pod)]
pub(crate) struct SlimPod {
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) spec: SlimPodSpec,
    #[serde(default)]
    pub(crate) status: PodStatus,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SlimPodSpec {
    /// Empty until the pod is scheduled.
    pub(crate) node_name: String,
}

impl SlimPod {
    /// Removes what is not read.
    pub(crate) fn trim(&mut self) {
        self.metadata.managed_fields = None;
        self.metadata.annotations = None;
    }

    /// When its grace period ends, if it terminates.
    pub(crate) fn grace_ends_at(&self) -> Option<UnixTime> {
        UnixTime::try_from(self.metadata.deletion_timestamp.as_ref()?.0).ok()
    }

    /// Its role, by its label.
    pub(crate) fn role(&self) -> Option<&str> {
        self.metadata.labels.as_ref()?.get(ROLE_LABEL).map(String::as_str)
    }

    /// What the controller observes of it. None if its labels do not say which replica of the job it is.
    pub(crate) fn observe(&self, job: &Job, overdue: bool) -> Option<ObservedPod> {
        let metadata = &self.metadata;
        let label = |key: &str| metadata.labels.as_ref()?.get(key).map(String::as_str);
        let role: RoleName = label(ROLE_LABEL)?.parse().ok()?;
        let main = job.roles.iter().find(|known| known.name == role).map_or("", |known| known.template.main().name());
        let pod = PodMetadata {
            name: metadata.name.clone()?,
            uid: metadata.uid.clone()?,
            id: NodeId(label(ID_LABEL)?.parse().ok()?),
            rank: Rank(label(RANK_LABEL)?.parse().ok()?),
            deleting: metadata.deletion_timestamp.is_some(),
            overdue,
            role,
        };
        Some(pod_status::observe(pod, &self.status, main))
    }
}
