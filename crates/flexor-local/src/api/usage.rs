//! What pods use, as the metrics of Kubernetes tell it: processor time over a second, and memory.
//!
//! A container with a control group is read from there, so that what is told is what its limit is held against; others
//! are read from their processes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::param::{clock_ticks_per_second, page_size};
use serde_json::{Value, json};

use super::objects::Object;
use super::processes::Processes;
use crate::cluster::{Cluster, PodRecord};
use crate::limits::{Cgroup, CgroupUsage, MemoryLimit};
use crate::pods::status::ContainerState;

const WINDOW: Duration = Duration::from_secs(1);

/// A pod whose processes are alive.
struct Running {
    metadata: Value,
    uid: String,
    supervisor: i32,
    containers: Vec<RunningContainer>,
}

struct RunningContainer {
    name: String,
    /// Its first process.
    pid: i32,
    group: Option<Cgroup>,
}

/// What somebody uses.
#[derive(Debug, Clone, Copy)]
struct Used {
    /// Thousandths of a processor.
    cpu: u128,
    /// Bytes.
    memory: u64,
}

impl Used {
    fn json(self) -> Value {
        json!({ "cpu": format!("{}m", self.cpu), "memory": format!("{}Ki", self.memory >> 10) })
    }
}

/// Two looks at everything, and the time between.
struct Looks {
    processes: [Processes; 2],
    took: Duration,
}

/// What the pods of a namespace use, or all if that is empty.
pub(super) async fn measure(cluster: &Cluster, namespace: &str) -> Vec<Object> {
    let is_wanted = |pod: &&PodRecord| namespace.is_empty() || pod.meta.job.namespace.as_str() == namespace;
    let look =
        || -> Vec<Running> { cluster.look(|all| all.pods.values().filter(is_wanted).filter_map(running).collect()) };
    let (before, groups, began) = (Processes::now(), times(&look()), Instant::now());
    tokio::time::sleep(WINDOW).await;
    let looks = Looks { processes: [before, Processes::now()], took: began.elapsed() };
    let mut pods = look();
    pods.sort_by_key(|pod| ["namespace", "name"].map(|field| pod.metadata[field].as_str().map(str::to_owned)));
    pods.into_iter()
        .map(|pod| {
            let mut containers: Vec<Value> = Vec::new();
            for container in &pod.containers {
                let family = looks.by_family(&looks.processes[1].family(container.pid, |_| false));
                let used = match container.group.as_ref().and_then(|group| Some((group, group.usage()?))) {
                    Some((group, usage)) => looks.by_group(usage, groups.get(&group.memory).copied(), family),
                    None => family,
                };
                containers.push(json!({ "name": container.name, "usage": used.json() }));
            }
            // What looks after the pod, and what its programs have left to it.
            let is_one = |child: i32| pod.containers.iter().any(|container| container.pid == child);
            let rest = looks.by_family(&looks.processes[1].family(pod.supervisor, is_one));
            containers.push(json!({ "name": "flexor-pod", "usage": rest.json() }));
            let json = json!({
                "apiVersion": "metrics.k8s.io/v1beta1", "kind": "PodMetrics",
                "metadata": pod.metadata, "window": "1s", "containers": containers,
            });
            Object { id: pod.uid, json }
        })
        .collect()
}

/// What groups have used of processors, by their folders.
fn times(pods: &[Running]) -> BTreeMap<PathBuf, Duration> {
    let groups = pods.iter().flat_map(|pod| &pod.containers).filter_map(|container| container.group.as_ref());
    groups.filter_map(|group| Some((group.memory.clone(), group.usage()?.cpu?))).collect()
}

impl Looks {
    fn by_family(&self, family: &[i32]) -> Used {
        let [before, after] = &self.processes;
        let processes = family.iter().filter_map(|pid| after.all.get(pid));
        let (mut ticks, mut pages) = (0, 0);
        for process in processes {
            let earlier = before.all.get(&process.pid).filter(|known| known.started == process.started);
            ticks += process.ticks.saturating_sub(earlier.map_or(0, |known| known.ticks));
            pages += process.pages;
        }
        let cpu = u128::from(ticks) * 1_000_000 / u128::from(clock_ticks_per_second()) / self.milliseconds();
        Used { cpu, memory: pages * page_size() as u64 }
    }

    /// What a group uses that had used so much time before. Where the kernel counts no time for it, its family's counts.
    fn by_group(&self, usage: CgroupUsage, before: Option<Duration>, family: Used) -> Used {
        let cpu = usage
            .cpu
            .map_or(family.cpu, |cpu| cpu.saturating_sub(before.unwrap_or_default()).as_micros() / self.milliseconds());
        Used { cpu, memory: usage.memory }
    }

    fn milliseconds(&self) -> u128 {
        self.took.as_millis().max(1)
    }
}

fn running(pod: &PodRecord) -> Option<Running> {
    let (supervisor, _) = pod.supervisor?;
    let statuses = pod.status.iter().flat_map(|status| &status.containers);
    let containers = statuses.filter_map(|container| match container.state {
        ContainerState::Running { pid, .. } => {
            let group = container.limited.as_ref().and_then(MemoryLimit::group).cloned();
            Some(RunningContainer { name: container.name.clone(), pid: i32::try_from(pid).ok()?, group })
        }
        ContainerState::Waiting(_) | ContainerState::Terminated { .. } => None,
    });
    let meta = &pod.meta;
    Some(Running {
        metadata: json!({ "name": meta.desired.name, "namespace": meta.job.namespace, "labels": meta.desired.labels }),
        uid: meta.uid.clone(),
        supervisor,
        containers: containers.collect(),
    })
}
