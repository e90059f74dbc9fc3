//! ConfigMaps, Secrets and PriorityClasses, as they are stored.

use flexor_model::UnixTime;
use serde_json::json;

use super::{Object, time};
use crate::cluster::ClusterView;
use crate::objects::{BUILT_IN, ObjectKind, StoredObject};

pub(super) fn objects(kind: ObjectKind, all: &ClusterView<'_>) -> Vec<Object> {
    all.objects.iter().filter(|kept| kept.object.key.kind == kind).map(object).collect()
}

/// The priority classes that every cluster has, as old as the cluster.
pub(super) fn built_in(since: UnixTime) -> impl Iterator<Item = Object> {
    BUILT_IN.iter().map(move |(name, value)| class(name, *value, since))
}

fn object(kept: &StoredObject) -> Object {
    let mut json = kept.object.manifest.clone();
    json["metadata"]["uid"] = kept.uid.as_str().into();
    json["metadata"]["creationTimestamp"] = time(kept.created_at);
    Object { id: kept.uid.clone(), json }
}

fn class(name: &str, value: i32, since: UnixTime) -> Object {
    let json = json!({
        "apiVersion": ObjectKind::PriorityClass.api_version(),
        "kind": ObjectKind::PriorityClass.as_str(),
        "metadata": { "name": name, "uid": name, "creationTimestamp": time(since) },
        "value": value,
        "globalDefault": false,
        "preemptionPolicy": "PreemptLowerPriority",
        "description": "Part of every cluster.",
    });
    Object { id: name.to_owned(), json }
}
