//! Objects as Kubernetes would show them: jobs, plans, pods, events, ConfigMaps, Secrets and PriorityClasses. An object is
//! the user's manifest with the cluster's metadata and status.

mod event;
mod job;
mod plan;
mod pod;
mod stored;

pub use flexor_engine::render::REPLACED_ANNOTATION;

use flexor_model::UnixTime;
use flexor_wire::local::v1::Resource;
use serde_json::Value;

use crate::cluster::Cluster;
use crate::objects::ObjectKind;

pub(super) struct Object {
    /// Unique among the objects of its resource, also among earlier ones of the same name.
    pub id: String,
    pub json: Value,
}

/// The objects of a resource in a namespace, or in all if that is empty: events in their order, others by name.
pub(super) fn list(cluster: &Cluster, resource: Resource, namespace: &str) -> Vec<Object> {
    let since = cluster.since();
    let mut objects = cluster.read(|all| match resource {
        Resource::Jobs => all.jobs.values().map(|job| job::object(job, all)).collect(),
        Resource::Plans => all.jobs.values().flat_map(plan::objects).collect(),
        Resource::Pods => all.pods.values().map(pod::object).collect::<Vec<Object>>(),
        Resource::Events => all.events.iter().map(|event| event::object(event, all)).collect(),
        Resource::ConfigMaps => stored::objects(ObjectKind::ConfigMap, all),
        Resource::Secrets => stored::objects(ObjectKind::Secret, all),
        Resource::PriorityClasses => {
            stored::objects(ObjectKind::PriorityClass, all).into_iter().chain(stored::built_in(since)).collect()
        }
        Resource::Unspecified | Resource::PodMetrics | Resource::JobMetrics | Resource::Notes | Resource::Cluster => {
            Vec::new()
        }
    });
    let is_selected = |of: &Value| namespace.is_empty() || of.is_null() || of == namespace;
    objects.retain(|object| is_selected(&object.json["metadata"]["namespace"]));
    if resource != Resource::Events {
        let key = |object: &Object| {
            let text = |field: &str| object.json["metadata"][field].as_str().unwrap_or_default().to_owned();
            (text("namespace"), text("name"), text("creationTimestamp"))
        };
        objects.sort_by_key(key);
    }
    objects
}

/// An instant as Kubernetes writes it, to the second.
pub(super) fn time(at: UnixTime) -> Value {
    at.whole_second().to_string().into()
}
