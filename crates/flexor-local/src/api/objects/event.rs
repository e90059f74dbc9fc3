//! Something that happened, as an Event in the words of the job's dialect.

use flexor_dialects::{EventInput, EventText, dialect};
use serde_json::json;

use super::{Object, time};
use crate::cluster::{ClusterEvent, ClusterView};

pub(super) fn object(event: &ClusterEvent, all: &ClusterView<'_>) -> Object {
    let job = all.jobs.get(&event.job);
    let text = job.and_then(|record| {
        let input = EventInput { job: &record.job, pod: event.pod.as_deref(), cause: &event.cause };
        Some(dialect(&record.job.dialect)?.event(&input))
    });
    let text = text.unwrap_or_else(|| EventText::own(&event.cause, event.pod.is_none()));
    let pod = event.pod.as_deref().filter(|_| !text.is_about_job);
    let about = pod.unwrap_or(event.job.name.as_str());
    // As Kubernetes names them: after what they are about, and the time.
    let name = format!("{about}.{:x}", event.at.as_nanos());
    let of_job = |field: &str| job.map(|record| record.manifest[field].clone()).unwrap_or_default();
    let (api_version, kind) =
        if pod.is_some() { ("v1".into(), "Pod".into()) } else { (of_job("apiVersion"), of_job("kind")) };
    let mut json = json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": { "name": name, "namespace": event.job.namespace, "creationTimestamp": time(event.at) },
        "involvedObject": {
            "apiVersion": api_version, "kind": kind, "namespace": event.job.namespace, "name": about,
        },
        "type": text.type_,
        "reason": text.reason,
        "message": text.message,
        "source": { "component": text.reporter },
        "firstTimestamp": time(event.at),
        "lastTimestamp": time(event.at),
        "count": 1,
    });
    // The pod may be long gone; the job of its events is known all the same.
    if pod.is_some() {
        json["related"] = json!({
            "apiVersion": of_job("apiVersion"), "kind": of_job("kind"), "namespace": event.job.namespace,
            "name": event.job.name,
        });
    }
    Object { id: name, json }
}
