//! One moment of an experiment, from the cluster's nodes, pods and jobs.

use std::collections::BTreeMap;

use flexor_dialects::edl::TrainingJob;
use flexor_model::{Quantity, is_accelerator};
use k8s_openapi::api::core::v1::{Container, Node, Pod};
use k8s_openapi::apimachinery::pkg::api::resource;
use kube::ResourceExt;

/// What was observed.
#[derive(Debug)]
pub(super) struct Observation {
    /// The share of the cluster's CPUs that pods request, from 0 to 1.
    pub(super) cpu: f64,
    /// The same for graphics cards.
    pub(super) gpu: f64,
    /// The jobs that exist.
    pub(super) jobs: BTreeMap<String, ObservedJob>,
    /// Pods of Nginx that run.
    pub(super) nginx: usize,
}

/// A job, and its trainers in any phase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ObservedJob {
    pub(super) has_ended: bool,
    pub(super) min_trainers: u32,
    pub(super) trainers: u32,
    /// Trainers that neither run nor have ended well.
    pub(super) waiting: u32,
}

impl ObservedJob {
    pub(super) fn all_run(&self) -> bool {
        self.trainers >= self.min_trainers && self.waiting == 0
    }
}

/// The label of the experiment's online service.
const NGINX: (&str, &str) = ("app", "nginx");
/// The label of a job's trainers.
const TRAINERS: &str = "paddle-job";

/// Reads the objects. Pods of all namespaces count for the cluster, those of `namespace` for its jobs.
pub(super) fn of(nodes: &[Node], pods: &[Pod], jobs: &[TrainingJob], namespace: &str) -> Observation {
    let bound: Vec<&Pod> = pods.iter().filter(|pod| is_bound(pod) && !has_ended(pod)).collect();
    let share = |is_counted: &dyn Fn(&str) -> bool| {
        let total: f64 = nodes.iter().map(|node| allocatable(node, is_counted)).sum();
        let requested: f64 = bound.iter().map(|pod| requests(pod, is_counted)).sum();
        if total > 0.0 { requested / total } else { 0.0 }
    };
    let observed = |job: &TrainingJob| {
        let name = job.name_any();
        let trainers = pods
            .iter()
            .filter(|pod| pod.namespace().as_deref() == Some(namespace) && pod.labels().get(TRAINERS) == Some(&name));
        let phases: Vec<&str> = trainers.map(phase).collect();
        let waiting = phases.iter().filter(|phase| !matches!(**phase, "Running" | "Succeeded")).count();
        let ended = job.status.as_ref().and_then(|status| status.phase.as_deref());
        let observed = ObservedJob {
            has_ended: matches!(ended, Some("succeeded" | "failed")),
            min_trainers: u32::try_from(job.spec.trainer.min_instance).unwrap_or(1),
            trainers: u32::try_from(phases.len()).unwrap_or(u32::MAX),
            waiting: u32::try_from(waiting).unwrap_or(u32::MAX),
        };
        (name, observed)
    };
    let is_nginx = |pod: &&Pod| pod.labels().get(NGINX.0).is_some_and(|app| app == NGINX.1);
    Observation {
        cpu: share(&|name| name == "cpu"),
        gpu: share(&is_accelerator),
        jobs: jobs.iter().map(observed).collect(),
        nginx: pods.iter().filter(is_nginx).filter(|pod| phase(pod) == "Running").count(),
    }
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending")
}

fn is_bound(pod: &Pod) -> bool {
    pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some())
}

fn has_ended(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

type List = BTreeMap<String, resource::Quantity>;

/// The amount of the resources that count, in units.
fn amount(list: Option<&List>, is_counted: &dyn Fn(&str) -> bool) -> f64 {
    let counted = list.into_iter().flatten().filter(|(name, _)| is_counted(name));
    let quantities = counted.filter_map(|(_, quantity)| quantity.0.parse::<Quantity>().ok());
    quantities.map(|quantity| quantity.billionths() as f64 / 1e9).sum()
}

fn allocatable(node: &Node, is_counted: &dyn Fn(&str) -> bool) -> f64 {
    amount(node.status.as_ref().and_then(|status| status.allocatable.as_ref()), is_counted)
}

/// What the scheduler reserves for a pod: all containers at once, or the largest step of its start if that is more.
fn requests(pod: &Pod, is_counted: &dyn Fn(&str) -> bool) -> f64 {
    let Some(spec) = &pod.spec else { return 0.0 };
    let of = |container: &Container| {
        amount(container.resources.as_ref().and_then(|resources| resources.requests.as_ref()), is_counted)
    };
    // Sidecars run beside what starts after them.
    let (mut sidecars, mut largest_step) = (0.0, 0.0_f64);
    for container in spec.init_containers.iter().flatten() {
        if container.restart_policy.as_deref() == Some("Always") {
            sidecars += of(container);
        } else {
            largest_step = largest_step.max(sidecars + of(container));
        }
    }
    let beside: f64 = spec.containers.iter().map(of).sum();
    largest_step.max(sidecars + beside) + amount(spec.overhead.as_ref(), is_counted)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn node(cpu: &str, gpus: u32) -> Node {
        let allocatable = json!({ "cpu": cpu, "memory": "8Gi", "nvidia.com/gpu": gpus.to_string() });
        serde_json::from_value(json!({ "status": { "allocatable": allocatable } })).unwrap()
    }

    fn pod(labels: Value, node: Option<&str>, phase: &str, requests: Value) -> Pod {
        serde_json::from_value(json!({
            "metadata": { "namespace": "default", "labels": labels },
            "spec": { "nodeName": node, "containers": [{ "name": "main", "resources": { "requests": requests } }] },
            "status": { "phase": phase },
        }))
        .unwrap()
    }

    fn trainer(job: &str, node: Option<&str>, phase: &str) -> Pod {
        pod(json!({ "paddle-job": job }), node, phase, json!({ "cpu": "1", "nvidia.com/gpu": "1" }))
    }

    fn job(name: &str, phase: Option<&str>) -> TrainingJob {
        serde_json::from_value(json!({
            "apiVersion": "paddlepaddle.org/v1",
            "kind": "TrainingJob",
            "metadata": { "name": name },
            "spec": { "trainer": { "min-instance": 2, "max-instance": 4 } },
            "status": { "phase": phase },
        }))
        .unwrap()
    }

    #[test]
    fn the_cluster_is_used_by_pods_that_have_a_node_and_have_not_ended() {
        let pods = [
            trainer("a", Some("n"), "Running"),
            trainer("a", Some("n"), "Pending"),
            trainer("a", None, "Pending"),
            trainer("a", Some("n"), "Succeeded"),
            pod(json!({ "app": "nginx" }), Some("n"), "Running", json!({ "cpu": "500m" })),
            pod(json!({ "app": "nginx" }), None, "Pending", json!({ "cpu": "500m" })),
        ];
        let observation = of(&[node("6", 2), node("3500m", 2)], &pods, &[], "default");
        assert!((observation.cpu - 2.5 / 9.5).abs() < 1e-12, "{observation:?}");
        assert!((observation.gpu - 0.5).abs() < 1e-12, "{observation:?}");
        assert_eq!(observation.nginx, 1);
        assert_eq!(of(&[], &pods, &[], "default").cpu, 0.0, "no nodes");
    }

    #[test]
    fn a_pod_requests_what_the_scheduler_reserves() {
        let request = |cpu: &str| json!({ "requests": { "cpu": cpu } });
        let pod: Pod = serde_json::from_value(json!({
            "spec": {
                "nodeName": "n",
                "overhead": { "cpu": "100m" },
                "initContainers": [
                    { "name": "sidecar", "restartPolicy": "Always", "resources": request("200m") },
                    { "name": "data", "resources": request("1") },
                ],
                "containers": [{ "name": "a", "resources": request("300m") }, { "name": "b", "resources": request("300m") }],
            },
        }))
        .unwrap();
        let cpu = requests(&pod, &|name| name == "cpu");
        assert!((cpu - 1.3).abs() < 1e-12, "{cpu}");
    }

    #[test]
    fn a_job_runs_when_its_minimum_is_there_and_all_trainers_run() {
        let state = |pods: &[Pod]| of(&[], pods, &[job("a", Some("running"))], "default").jobs["a"].clone();
        let running = || trainer("a", Some("n"), "Running");
        assert!(!state(&[]).all_run(), "held");
        assert!(!state(&[running()]).all_run(), "the minimum is 2");
        assert!(state(&[running(), running()]).all_run());
        assert!(state(&[running(), trainer("a", Some("n"), "Succeeded")]).all_run());
        let growing = state(&[running(), running(), trainer("a", None, "Pending"), trainer("b", None, "Pending")]);
        assert_eq!((growing.all_run(), growing.trainers, growing.waiting), (false, 3, 1));
        assert!(of(&[], &[], &[job("a", Some("succeeded"))], "default").jobs["a"].has_ended);
        assert!(!of(&[], &[], &[job("a", None)], "default").jobs["a"].has_ended);
    }
}
