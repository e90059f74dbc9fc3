//! All pods of the cluster, with just what the planner counts: who holds how much room on which node.
//!
//! Unlike the pods of [`OwnedObjects`](crate::owned_objects::OwnedObjects) these include the pods of others. The watch is
//! opened when the first job is to be planned.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use flexor_control::ClusterPod;
use flexor_engine::render::{JOB_UID_LABEL, NODE_ANNOTATION, RANK_LABEL, ROLE_LABEL};
use flexor_model::{Rank, Resources, RoleName, UnixTime, requests_of};
use flexor_sched::{JobKey, Location, PodSlot};
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher as watch};
use kube::{Api, Client, Resource};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::watch_backoff::WatchBackoff;
use crate::watches;

/// A pod of anybody, with the fields that are read.
#[derive(Debug, Clone, Resource, Serialize, Deserialize)]
#[resource(inherit = Pod)]
pub(crate) struct AnyPod {
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    spec: AnySpec,
    #[serde(default)]
    status: AnyStatus,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AnySpec {
    node_name: String,
    containers: Vec<AnyContainer>,
    init_containers: Vec<AnyContainer>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AnyContainer {
    resources: Value,
    restart_policy: Option<String>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AnyStatus {
    phase: String,
    nominated_node_name: String,
}

/// What is kept of a pod.
#[derive(Debug, Clone, PartialEq)]
struct Record {
    requests: Resources,
    /// Where it is bound, or where the scheduler makes room for it.
    location: Location,
    /// The node that the planner chose, which counts in pods of planned jobs only: anybody can write it.
    chosen: Option<String>,
    terminating: bool,
    ended: bool,
    waits_since: Option<UnixTime>,
    owner: Option<Owner>,
}

/// The replica of a job that a pod is, by its labels.
#[derive(Debug, Clone, PartialEq)]
struct Owner {
    namespace: String,
    job_uid: String,
    role: RoleName,
    rank: Rank,
}

/// The records by the uids of their pods.
#[derive(Debug, Default)]
pub(crate) struct ClusterPods(Mutex<BTreeMap<String, Record>>);

impl AnyPod {
    fn record(&self) -> Option<(String, Record)> {
        let metadata = &self.metadata;
        let owner = self.owner();
        let ended = matches!(self.status.phase.as_str(), "Succeeded" | "Failed");
        let annotations = metadata.annotations.as_ref();
        let chosen = annotations.and_then(|all| all.get(NODE_ANNOTATION)).filter(|_| owner.is_some());
        let location = match (self.spec.node_name.as_str(), self.status.nominated_node_name.as_str()) {
            ("", "") => Location::Unassigned,
            ("", node) => Location::Assigned(node.into()),
            (node, _) => Location::Bound(node.into()),
        };
        // What has ended, and what of others has no node, holds no room.
        if owner.is_none() && (ended || location == Location::Unassigned) {
            return None;
        }
        let spec = json!({ "containers": self.spec.containers, "initContainers": self.spec.init_containers });
        let created = metadata.creation_timestamp.as_ref().and_then(|at| UnixTime::try_from(at.0).ok());
        let record = Record {
            requests: requests_of(&spec),
            location,
            chosen: chosen.cloned(),
            terminating: metadata.deletion_timestamp.is_some(),
            ended,
            waits_since: created.filter(|_| self.status.phase == "Pending"),
            owner,
        };
        Some((metadata.uid.clone()?, record))
    }

    /// The job that controls it, if its labels say the same.
    fn owner(&self) -> Option<Owner> {
        let metadata = &self.metadata;
        let label = |key: &str| metadata.labels.as_ref()?.get(key).map(String::as_str);
        let job_uid = label(JOB_UID_LABEL)?;
        let owners = metadata.owner_references.iter().flatten();
        owners.clone().find(|owner| owner.controller == Some(true) && owner.uid == job_uid)?;
        Some(Owner {
            namespace: metadata.namespace.clone()?,
            job_uid: job_uid.to_owned(),
            role: label(ROLE_LABEL)?.parse().ok()?,
            rank: Rank(label(RANK_LABEL)?.parse().ok()?),
        })
    }
}

impl ClusterPods {
    /// All pods for the planner. `key` names a planned job by namespace and uid.
    pub(crate) fn for_planner(&self, key: impl Fn(&str, &str) -> Option<JobKey>) -> Vec<ClusterPod> {
        let records = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let pods = records.iter().map(|(uid, record)| {
            let owner = record.owner.as_ref().and_then(|owner| {
                let job = key(&owner.namespace, &owner.job_uid)?;
                Some(PodSlot { job, role: owner.role.clone(), rank: owner.rank })
            });
            let location = match (&record.location, &record.chosen) {
                (Location::Bound(_), _) | (_, None) => record.location.clone(),
                (_, Some(_)) if owner.is_none() => record.location.clone(),
                (_, Some(node)) => Location::Assigned(node.as_str().into()),
            };
            ClusterPod {
                uid: uid.clone(),
                requests: record.requests.clone(),
                location,
                terminating: record.terminating,
                ended: record.ended,
                waits_since: record.waits_since,
                owner,
            }
        });
        let holds_room = |pod: &ClusterPod| !pod.ended && pod.location != Location::Unassigned;
        pods.filter(|pod| pod.owner.is_some() || holds_room(pod)).collect()
    }

    /// Takes in a pod. Returns whether that changes anything.
    fn apply(&self, pod: &AnyPod) -> bool {
        let mut records = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match (pod.record(), &pod.metadata.uid) {
            (Some((uid, record)), _) => records.insert(uid, record.clone()).as_ref() != Some(&record),
            (None, Some(uid)) => records.remove(uid).is_some(),
            (None, None) => false,
        }
    }

    fn remove(&self, pod: &AnyPod) -> bool {
        let mut records = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pod.metadata.uid.as_ref().is_some_and(|uid| records.remove(uid).is_some())
    }

    fn retain(&self, uids: &BTreeSet<String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|uid, _| uids.contains(uid));
    }
}

/// Keeps the pods up to date; `changed` hears of each change, `complete` when the first list has ended.
pub(crate) async fn watch_all(client: Client, pods: Arc<ClusterPods>, changed: Arc<Notify>, complete: Arc<Notify>) {
    let stream = watch(Api::<AnyPod>::all(client), watches::config()).backoff(WatchBackoff::default());
    let mut stream = std::pin::pin!(stream);
    let mut listed = BTreeSet::new();
    while let Some(event) = stream.next().await {
        let is_news = match event {
            Ok(Event::Apply(pod)) => pods.apply(&pod),
            Ok(Event::InitApply(pod)) => {
                listed.extend(pod.metadata.uid.clone());
                pods.apply(&pod)
            }
            Ok(Event::Delete(pod)) => pods.remove(&pod),
            Ok(Event::Init) => {
                listed.clear();
                false
            }
            Ok(Event::InitDone) => {
                pods.retain(&std::mem::take(&mut listed));
                complete.notify_one();
                true
            }
            Err(error) => {
                tracing::warn!(what = "all pods", %error, "a watch broke; it is opened again");
                false
            }
        };
        if is_news {
            changed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(node: &str, phase: &str, labels: Value, owner: &str) -> AnyPod {
        let owners = json!([{"apiVersion": "g/v1", "kind": "J", "name": "j", "uid": owner, "controller": true}]);
        let metadata = json!({
            "name": "p", "namespace": "n", "uid": "u", "labels": labels, "ownerReferences": owners,
            "annotations": { NODE_ANNOTATION: "n2" }, "creationTimestamp": "2026-01-01T00:00:00Z",
        });
        let containers = json!([{"name": "c", "resources": {"requests": {"cpu": "500m"}}}]);
        let spec = json!({"nodeName": node, "containers": containers});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": {"phase": phase}})).unwrap()
    }

    fn labels(job: &str) -> Value {
        json!({ JOB_UID_LABEL: job, ROLE_LABEL: "trainer", RANK_LABEL: "3" })
    }

    fn key(namespace: &str, uid: &str) -> Option<JobKey> {
        (uid == "job").then(|| format!("{namespace}/j").into())
    }

    #[test]
    fn a_pod_of_a_planned_job_has_its_slot_and_the_node_that_was_chosen() {
        let pods = ClusterPods::default();
        assert!(
            pods.apply(&pod("", "Pending", labels("job"), "job"))
                && !pods.apply(&pod("", "Pending", labels("job"), "job"))
        );
        let [known] = &pods.for_planner(key)[..] else { panic!() };
        assert_eq!(known.location, Location::Assigned("n2".into()));
        assert_eq!((known.requests.to_string().as_str(), known.waits_since.is_some()), ("cpu=500m", true));
        assert_eq!(known.owner.as_ref().map(|owner| (owner.job.as_str(), owner.rank)), Some(("n/j", Rank(3))));
        pods.apply(&pod("n1", "Succeeded", labels("job"), "job"));
        assert!(pods.for_planner(key)[0].ended, "its slot may have to be filled again");
    }

    #[test]
    fn pods_of_others_count_while_they_hold_room() {
        let pods = ClusterPods::default();
        // A label alone makes no pod a replica: its owner reference must name the job too.
        assert!(!pods.apply(&pod("", "Pending", labels("job"), "another")), "it has no node");
        assert!(pods.apply(&pod("n1", "Running", labels("job"), "another")));
        let [known] = &pods.for_planner(key)[..] else { panic!() };
        assert_eq!((known.location.clone(), known.owner.is_none()), (Location::Bound("n1".into()), true));
        assert!(pods.apply(&pod("n1", "Failed", labels("job"), "another")));
        assert!(pods.for_planner(key).is_empty());
        // Labels and owner of a job that is not planned give its annotation no weight.
        assert!(pods.apply(&pod("", "Pending", labels("own"), "own")));
        assert!(pods.for_planner(key).is_empty());
    }
}
