//! The CPU and memory use of pods in the shape of Kubernetes' metrics, measured over a second.
//!
//! A container with a control group is read from there, so its usage is what its limit is compared with. Others are read
//! from their processes.

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
struct RunningPod {
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

#[derive(Debug, Clone, Copy)]
struct Usage {
    /// Thousandths of a processor.
    cpu: u128,
    /// Bytes.
    memory: u64,
}

impl Usage {
    fn json(self) -> Value {
        json!({ "cpu": format!("{}m", self.cpu), "memory": format!("{}Ki", self.memory >> 10) })
    }
}

/// Two snapshots of all processes, and the time between them.
struct Measurement {
    processes: [Processes; 2],
    took: Duration,
}

/// The usage of the pods of a namespace, or of all pods if that is empty.
pub(super) async fn measure(cluster: &Cluster, namespace: &str) -> Vec<Object> {
    let is_wanted = |pod: &&PodRecord| namespace.is_empty() || pod.meta.job.namespace.as_str() == namespace;
    let read_pods =
        || -> Vec<RunningPod> { cluster.read(|all| all.pods.values().filter(is_wanted).filter_map(running).collect()) };
    let (before, groups, began) = (Processes::now(), times(&read_pods()), Instant::now());
    tokio::time::sleep(WINDOW).await;
    let measurement = Measurement { processes: [before, Processes::now()], took: began.elapsed() };
    let mut pods = read_pods();
    pods.sort_by_key(|pod| ["namespace", "name"].map(|field| pod.metadata[field].as_str().map(str::to_owned)));
    pods.into_iter()
        .map(|pod| {
            let mut containers: Vec<Value> = Vec::new();
            for container in &pod.containers {
                let family = measurement.by_family(&measurement.processes[1].family(container.pid, |_| false));
                let used = match container.group.as_ref().and_then(|group| Some((group, group.usage()?))) {
                    Some((group, usage)) => measurement.by_group(usage, groups.get(&group.memory).copied(), family),
                    None => family,
                };
                containers.push(json!({ "name": container.name, "usage": used.json() }));
            }
            // The supervisor, and processes that containers left behind.
            let is_container = |child: i32| pod.containers.iter().any(|container| container.pid == child);
            let rest = measurement.by_family(&measurement.processes[1].family(pod.supervisor, is_container));
            containers.push(json!({ "name": "flexor-pod", "usage": rest.json() }));
            let json = json!({
                "apiVersion": "metrics.k8s.io/v1beta1", "kind": "PodMetrics",
                "metadata": pod.metadata, "window": "1s", "containers": containers,
            });
            Object { id: pod.uid, json }
        })
        .collect()
}

/// The CPU time of control groups, by their folders.
fn times(pods: &[RunningPod]) -> BTreeMap<PathBuf, Duration> {
    let groups = pods.iter().flat_map(|pod| &pod.containers).filter_map(|container| container.group.as_ref());
    groups.filter_map(|group| Some((group.memory.clone(), group.usage()?.cpu?))).collect()
}

impl Measurement {
    fn by_family(&self, family: &[i32]) -> Usage {
        let [before, after] = &self.processes;
        let processes = family.iter().filter_map(|pid| after.all.get(pid));
        let (mut ticks, mut pages) = (0, 0);
        for process in processes {
            let earlier = before.all.get(&process.pid).filter(|known| known.started == process.started);
            ticks += process.ticks.saturating_sub(earlier.map_or(0, |known| known.ticks));
            pages += process.pages;
        }
        let cpu = u128::from(ticks) * 1_000_000 / u128::from(clock_ticks_per_second()) / self.milliseconds();
        Usage { cpu, memory: pages * page_size() as u64 }
    }

    /// The usage of a control group that had used this CPU time before. If the kernel counts no CPU time for it, its
    /// processes' time counts.
    fn by_group(&self, usage: CgroupUsage, before: Option<Duration>, family: Usage) -> Usage {
        let cpu = usage
            .cpu
            .map_or(family.cpu, |cpu| cpu.saturating_sub(before.unwrap_or_default()).as_micros() / self.milliseconds());
        Usage { cpu, memory: usage.memory }
    }

    fn milliseconds(&self) -> u128 {
        self.took.as_millis().max(1)
    }
}

fn running(pod: &PodRecord) -> Option<RunningPod> {
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
    Some(RunningPod {
        metadata: json!({ "name": meta.desired.name, "namespace": meta.job.namespace, "labels": meta.desired.labels }),
        uid: meta.uid.clone(),
        supervisor,
        containers: containers.collect(),
    })
}
