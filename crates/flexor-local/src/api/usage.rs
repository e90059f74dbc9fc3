//! What pods use, as the metrics of Kubernetes tell it: processor time over a second, and resident memory.

use std::time::{Duration, Instant};

use rustix::param::{clock_ticks_per_second, page_size};
use serde_json::{Value, json};

use super::objects::Object;
use super::processes::Processes;
use crate::cluster::{Cluster, PodRecord};
use crate::pods::status::ContainerState;

const WINDOW: Duration = Duration::from_secs(1);

/// A pod whose processes are alive.
struct Running {
    metadata: Value,
    uid: String,
    parent: u32,
    /// By name, the process of each container.
    containers: Vec<(String, u32)>,
}

/// What the pods of a namespace use, or all if that is empty.
pub(super) async fn measure(cluster: &Cluster, namespace: &str) -> Vec<Object> {
    let (before, began) = (Processes::now(), Instant::now());
    tokio::time::sleep(WINDOW).await;
    let (after, took) = (Processes::now(), began.elapsed());
    let is_wanted = |pod: &&PodRecord| namespace.is_empty() || pod.meta.job.namespace.as_str() == namespace;
    let mut pods: Vec<Running> = cluster.look(|all| all.pods.values().filter(is_wanted).filter_map(running).collect());
    pods.sort_by_key(|pod| ["namespace", "name"].map(|field| pod.metadata[field].as_str().map(str::to_owned)));
    let used = |family: &[u32]| {
        let ticks: u64 = family
            .iter()
            .filter_map(|pid| {
                let earlier = before.all.get(pid).map_or(0, |process| process.ticks);
                Some(after.all.get(pid)?.ticks.saturating_sub(earlier))
            })
            .sum();
        let pages: u64 = family.iter().filter_map(|pid| after.all.get(pid)).map(|process| process.pages).sum();
        let thousandths =
            u128::from(ticks) * 1_000_000 / u128::from(clock_ticks_per_second()) / took.as_millis().max(1);
        json!({ "cpu": format!("{thousandths}m"), "memory": format!("{}Ki", pages * (page_size() as u64 >> 10)) })
    };
    pods.into_iter()
        .map(|pod| {
            let mut containers: Vec<Value> = Vec::new();
            for (name, pid) in &pod.containers {
                containers.push(json!({ "name": name, "usage": used(&after.family(*pid, |_| false)) }));
            }
            // What looks after the pod, and what its programs have left to it.
            let rest = after.family(pod.parent, |child| pod.containers.iter().any(|(_, pid)| *pid == child));
            containers.push(json!({ "name": "flexor-pod", "usage": used(&rest) }));
            let json = json!({
                "apiVersion": "metrics.k8s.io/v1beta1", "kind": "PodMetrics",
                "metadata": pod.metadata, "window": "1s", "containers": containers,
            });
            Object { id: pod.uid, json }
        })
        .collect()
}

fn running(pod: &PodRecord) -> Option<Running> {
    let (parent, _) = pod.parent?;
    let statuses = pod.status.iter().flat_map(|status| &status.containers);
    let containers = statuses.filter_map(|container| match container.state {
        ContainerState::Running { pid, .. } => Some((container.name.clone(), pid)),
        ContainerState::Waiting(_) | ContainerState::Terminated { .. } => None,
    });
    let meta = &pod.meta;
    Some(Running {
        metadata: json!({ "name": meta.name, "namespace": meta.job.namespace, "labels": meta.labels }),
        uid: meta.uid.clone(),
        parent: u32::try_from(parent).ok()?,
        containers: containers.collect(),
    })
}
