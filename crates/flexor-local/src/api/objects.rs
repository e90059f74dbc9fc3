//! Jobs, plans, pods, events and what jobs refer to as Kubernetes would show them: the user's manifest with what the cluster knows.

mod event;
mod job;
mod kept;
mod plan;
mod pod;

pub use flexor_engine::render::REPLACED_ANNOTATION;

use flexor_model::UnixTime;
use flexor_wire::local::v1::Resource;
use jiff::Timestamp;
use serde_json::Value;

use crate::cluster::Cluster;
use crate::objects::ObjectKind;

/// An object, to be shown.
pub(super) struct Object {
    /// What tells this one from all others of its resource, also from those that had its name before.
    pub id: String,
    /// All of it.
    pub json: Value,
}

/// The objects of a resource in a namespace, or in all if that is empty: events as they happened, others by name.
pub(super) fn list(cluster: &Cluster, resource: Resource, namespace: &str) -> Vec<Object> {
    let since = cluster.since();
    let mut objects = cluster.look(|all| match resource {
        Resource::Jobs => all.jobs.values().map(|job| job::object(job, all)).collect(),
        Resource::Plans => all.jobs.values().flat_map(plan::objects).collect(),
        Resource::Pods => all.pods.values().map(pod::object).collect::<Vec<Object>>(),
        Resource::Events => all.events.iter().map(|event| event::object(event, all)).collect(),
        Resource::ConfigMaps => kept::objects(ObjectKind::ConfigMap, all),
        Resource::Secrets => kept::objects(ObjectKind::Secret, all),
        Resource::PriorityClasses => {
            kept::objects(ObjectKind::PriorityClass, all).into_iter().chain(kept::built_in(since)).collect()
        }
        Resource::Unspecified | Resource::PodMetrics | Resource::Notes | Resource::Cluster => Vec::new(),
    });
    let is_in = |place: &Value| namespace.is_empty() || place.is_null() || place == namespace;
    objects.retain(|object| is_in(&object.json["metadata"]["namespace"]));
    if resource != Resource::Events {
        let key = |object: &Object| {
            let text = |field: &str| object.json["metadata"][field].as_str().unwrap_or_default().to_owned();
            (text("namespace"), text("name"), text("creationTimestamp"))
        };
        objects.sort_by_key(key);
    }
    objects
}

/// A time as Kubernetes writes it, to the second.
pub(super) fn time(at: UnixTime) -> Value {
    at.whole_second().to_string().into()
}

/// The same of a time that a parent wrote down.
fn timestamp(at: Timestamp) -> Value {
    Timestamp::from_second(at.as_second()).map_or(Value::Null, |at| at.to_string().into())
}
