//! What is known of each pod, and what follows from it for jobs.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use flexor_model::Quantity;
use serde::Deserialize;

use crate::experiment::manifests::ONLINE;

/// The fields of a pod that are read.
#[derive(Debug, Clone, Deserialize)]
pub(in crate::experiment) struct WatchedPod {
    pub(super) metadata: WatchedMetadata,
    spec: WatchedSpec,
    #[serde(default)]
    status: WatchedStatus,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WatchedMetadata {
    name: String,
    uid: String,
    pub(super) resource_version: String,
    deletion_timestamp: Option<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WatchedSpec {
    node_name: Option<String>,
    containers: Vec<WatchedContainer>,
}

#[derive(Debug, Clone, Deserialize)]
struct WatchedContainer {
    #[serde(default)]
    resources: WatchedResources,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct WatchedResources {
    #[serde(default)]
    requests: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct WatchedStatus {
    #[serde(default)]
    phase: String,
}

/// The role of a pod in its job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::experiment) enum Role {
    Master,
    Server,
    Trainer,
}

/// The label that names the job, for each role.
const ROLES: [(&str, Role); 3] =
    [("paddle-job-master", Role::Master), ("paddle-job-pserver", Role::Server), ("paddle-job", Role::Trainer)];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    Job(usize, Role),
    Online,
    Other,
}

#[derive(Debug)]
struct KnownPod {
    name: String,
    owner: Owner,
    /// Its CPU request in thousandths of a core.
    cpu: u64,
    is_bound: bool,
    is_running: bool,
    is_deleted: bool,
}

impl KnownPod {
    fn is_live(&self) -> bool {
        self.is_running && !self.is_deleted
    }
}

/// A job of the script.
#[derive(Debug)]
struct KnownJob {
    name: String,
    started: Option<Instant>,
    /// Its trainers complete.
    is_finishing: bool,
}

/// The pods that exist, by their uids.
#[derive(Debug)]
pub(super) struct KnownPods {
    pods: HashMap<String, KnownPod>,
    jobs: Vec<KnownJob>,
    trainers_ended: u32,
}

impl KnownPods {
    pub(super) fn of_jobs(names: Vec<String>) -> Self {
        let job = |name: String| KnownJob { name, started: None, is_finishing: false };
        Self { pods: HashMap::new(), jobs: names.into_iter().map(job).collect(), trainers_ended: 0 }
    }

    /// Takes a pod as it was at a time.
    pub(super) fn see(&mut self, pod: &WatchedPod, at: Instant) {
        let WatchedPod { metadata, spec, status } = pod;
        let owner = self.owner(&metadata.labels);
        let known = KnownPod {
            name: metadata.name.clone(),
            owner,
            cpu: spec.containers.iter().map(cpu).sum(),
            is_bound: spec.node_name.is_some(),
            is_running: status.phase == "Running",
            is_deleted: metadata.deletion_timestamp.is_some(),
        };
        if let Owner::Job(job, Role::Trainer) = owner {
            let was_deleted = self.pods.get(&metadata.uid).is_some_and(|pod| pod.is_deleted);
            // One that has ended by itself is removed, not taken away.
            let has_ended = matches!(&*status.phase, "Succeeded" | "Failed");
            let job = &mut self.jobs[job];
            if known.is_live() {
                job.started.get_or_insert(at);
            }
            let is_taken = known.is_deleted && !was_deleted && known.is_bound && !has_ended;
            self.trainers_ended += u32::from(is_taken && !job.is_finishing);
        }
        self.pods.insert(metadata.uid.clone(), known);
    }

    pub(super) fn forget(&mut self, pod: &WatchedPod) {
        self.pods.remove(&pod.metadata.uid);
    }

    fn owner(&self, labels: &BTreeMap<String, String>) -> Owner {
        let of_role = |(label, role): (&str, Role)| {
            let name = labels.get(label)?;
            Some(Owner::Job(self.jobs.iter().position(|job| job.name == *name)?, role))
        };
        let is_online = labels.get(ONLINE.0).is_some_and(|app| app == ONLINE.1);
        let other = if is_online { Owner::Online } else { Owner::Other };
        ROLES.into_iter().find_map(of_role).unwrap_or(other)
    }

    pub(super) fn running_cpu(&self) -> u64 {
        self.pods.values().filter(|pod| pod.is_running).map(|pod| pod.cpu).sum()
    }

    pub(super) fn running(&self, job: usize, role: Role) -> u32 {
        self.count(|pod| pod.is_live() && pod.owner == Owner::Job(job, role))
    }

    pub(super) fn running_online(&self) -> u32 {
        self.count(|pod| pod.is_live() && pod.owner == Owner::Online)
    }

    pub(super) fn running_others(&self) -> usize {
        self.pods.values().filter(|pod| pod.is_live() && pod.owner == Owner::Other).count()
    }

    pub(super) fn unbound_trainers(&self) -> u32 {
        self.count(|pod| !pod.is_bound && matches!(pod.owner, Owner::Job(_, Role::Trainer)))
    }

    pub(super) fn started(&self, job: usize) -> Option<Instant> {
        self.jobs[job].started
    }

    pub(super) fn trainers_ended(&self) -> u32 {
        self.trainers_ended
    }

    pub(super) fn finish(&mut self, job: usize) -> Vec<String> {
        self.jobs[job].is_finishing = true;
        let trainers = self.pods.values().filter(|pod| pod.is_live() && pod.owner == Owner::Job(job, Role::Trainer));
        trainers.map(|pod| pod.name.clone()).collect()
    }

    pub(super) fn in_words(&self) -> String {
        let of_job = |pod: &KnownPod| matches!(pod.owner, Owner::Job(..));
        let (jobs, online) = (self.count(of_job), self.count(|pod| pod.owner == Owner::Online));
        let running = self.count(|pod| pod.is_running);
        format!("there are {} pods, {jobs} of jobs and {online} of Nginx; {running} run", self.pods.len())
    }

    fn count(&self, is_counted: impl Fn(&KnownPod) -> bool) -> u32 {
        u32::try_from(self.pods.values().filter(|pod| is_counted(pod)).count()).unwrap_or(u32::MAX)
    }
}

fn cpu(container: &WatchedContainer) -> u64 {
    let cpu: Option<Quantity> = container.resources.requests.get("cpu").and_then(|cpu| cpu.parse().ok());
    cpu.map_or(0, |cpu| u64::try_from(cpu.billionths() / 1_000_000).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::*;

    fn pod(uid: &str, labels: &Value, node: Option<&str>, phase: &str) -> WatchedPod {
        serde_json::from_value(json!({
            "metadata": { "name": uid, "uid": uid, "resourceVersion": "1", "labels": labels },
            "spec": { "nodeName": node, "containers": [{ "name": "main", "resources": { "requests": { "cpu": "5" } } }] },
            "status": { "phase": phase },
        }))
        .unwrap()
    }

    fn deleted(mut pod: WatchedPod) -> WatchedPod {
        pod.metadata.deletion_timestamp = Some("2026-01-02T03:04:05Z".to_owned());
        pod
    }

    fn trainer(uid: &str, node: Option<&str>, phase: &str) -> WatchedPod {
        pod(uid, &json!({ "paddle-job": "a" }), node, phase)
    }

    #[test]
    fn a_pod_counts_for_its_owner_while_it_runs() {
        let mut pods = KnownPods::of_jobs(vec!["a".to_owned()]);
        let at = Instant::now();
        pods.see(&trainer("t", None, "Pending"), at);
        assert_eq!((pods.unbound_trainers(), pods.running_cpu(), pods.started(0)), (1, 0, None));
        let later = at + Duration::from_secs(3);
        pods.see(&trainer("t", Some("n"), "Running"), later);
        pods.see(&trainer("t", Some("n"), "Running"), later + Duration::from_secs(1));
        pods.see(&pod("m", &json!({ "paddle-job-master": "a" }), Some("n"), "Running"), later);
        pods.see(&pod("x", &json!({ "app": "nginx" }), Some("n"), "Running"), later);
        pods.see(&pod("o", &json!({}), Some("n"), "Running"), later);
        assert_eq!([Role::Trainer, Role::Master, Role::Server].map(|role| pods.running(0, role)), [1, 1, 0]);
        assert_eq!((pods.running_online(), pods.running_others(), pods.running_cpu()), (1, 1, 20_000));
        assert_eq!((pods.unbound_trainers(), pods.started(0)), (0, Some(later)));
    }

    #[test]
    fn a_trainer_that_is_taken_away_counts_once_and_holds_its_cpu_until_it_is_gone() {
        let mut pods = KnownPods::of_jobs(vec!["a".to_owned()]);
        let at = Instant::now();
        for uid in ["t", "u"] {
            pods.see(&trainer(uid, Some("n"), "Running"), at);
        }
        pods.see(&deleted(trainer("t", Some("n"), "Running")), at);
        assert_eq!((pods.trainers_ended(), pods.running(0, Role::Trainer), pods.running_cpu()), (1, 1, 10_000));
        pods.see(&deleted(trainer("t", Some("n"), "Failed")), at);
        assert_eq!((pods.trainers_ended(), pods.running_cpu()), (1, 5_000));
        pods.forget(&deleted(trainer("t", Some("n"), "Failed")));
        pods.see(&deleted(trainer("v", None, "Pending")), at);
        assert_eq!(pods.trainers_ended(), 1, "one without a node was never there");
    }

    #[test]
    fn a_finishing_job_loses_no_trainer() {
        let mut pods = KnownPods::of_jobs(vec!["a".to_owned()]);
        let at = Instant::now();
        pods.see(&trainer("t", Some("n"), "Running"), at);
        assert_eq!(pods.finish(0), ["t"]);
        pods.see(&deleted(trainer("t", Some("n"), "Running")), at);
        assert_eq!((pods.trainers_ended(), pods.finish(0)), (0, Vec::new()));
    }
}
