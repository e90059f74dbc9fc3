//! Something that happened, as an Event.

use flexor_model::Severity;
use serde_json::json;

use super::{Object, time};
use crate::cluster::{ClusterEvent, Everything};

pub(super) fn object(event: &ClusterEvent, all: &Everything<'_>) -> Object {
    let about = event.pod.as_deref().unwrap_or(event.job.name.as_str());
    // As Kubernetes names them: after what they are about, and the time.
    let name = format!("{about}.{:x}", event.at.as_nanos());
    let is_pod = event.pod.is_some();
    let manifest = all.jobs.get(&event.job).map(|record| &record.manifest);
    let of_job = |field: &str| manifest.map(|manifest| manifest[field].clone()).unwrap_or_default();
    let (api_version, kind) = if is_pod { ("v1".into(), "Pod".into()) } else { (of_job("apiVersion"), of_job("kind")) };
    let severity = match event.cause.reason.severity() {
        Severity::Error | Severity::Warning => "Warning",
        Severity::Notice => "Normal",
    };
    // The job of a pod that may be long gone.
    let related = is_pod.then(|| {
        json!({
            "apiVersion": of_job("apiVersion"), "kind": of_job("kind"), "namespace": event.job.namespace,
            "name": event.job.name,
        })
    });
    let mut json = json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": { "name": name, "namespace": event.job.namespace, "creationTimestamp": time(event.at) },
        "involvedObject": {
            "apiVersion": api_version, "kind": kind, "namespace": event.job.namespace, "name": about,
        },
        "type": severity,
        "reason": event.cause.reason,
        "message": event.cause.message,
        "source": { "component": "flexor" },
        "firstTimestamp": time(event.at),
        "lastTimestamp": time(event.at),
        "count": 1,
    });
    if let Some(related) = related {
        json["related"] = related;
    }
    Object { id: name, json }
}
