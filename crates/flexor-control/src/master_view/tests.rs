use flexor_dialects::manifest::{self, Subject, Verdict};
use std::collections::{BTreeMap, BTreeSet};

use flexor_engine::Cause;
use flexor_engine::controller::{PodPhase, SetBy, Target};
use flexor_engine::nodes::ObservedExit;
use flexor_model::{NodeId, Rank, Reason, Resources};
use serde_json::json;

use super::*;

fn job() -> Job {
    let template = json!({ "spec": { "containers": [{ "name": "main", "image": "python", "command": ["train"] }] } });
    let manifest = json!({
        "apiVersion": "elastic.iml.github.io/v1alpha1", "kind": "ElasticJob", "metadata": { "name": "a" },
        "spec": { "distributionStrategy": "ParameterServerStrategy", "replicaSpecs": {
            "ps": { "replicas": 1, "template": template },
            "worker": { "replicas": 3, "template": template },
        } },
    });
    let document = manifest::check(manifest.to_string().as_bytes()).documents.remove(0);
    let Verdict::Accepted { subject, .. } = document.verdict else { panic!("{:?}", document.verdict) };
    let Subject::Job(job) = *subject else { panic!("a job") };
    job
}

fn status(job: &Job) -> JobStatus {
    let target = |replicas| Target {
        replicas,
        resources: Resources::default(),
        set_by: SetBy::Spec,
        generation: 1,
        spec_replicas: replicas,
        wanted: None,
        vacant: BTreeSet::new(),
        promised: BTreeMap::new(),
        cause: Cause::new(Reason::SizeFromSpec, "a test says so"),
    };
    let replicas = |kind| match kind {
        RoleKind::Worker => 3,
        _ => 1,
    };
    let targets = job.roles.iter().map(|role| (role.name.clone(), target(replicas(role.kind)))).collect();
    JobStatus { targets, ..JobStatus::default() }
}

fn pod(job: &Job, kind: RoleKind, rank: u32, pending: Option<Reason>) -> ObservedPod {
    let role = &job.roles.iter().find(|role| role.kind == kind).unwrap().name;
    ObservedPod {
        name: format!("{role}-{rank}"),
        uid: format!("uid-{role}-{rank}"),
        role: role.clone(),
        id: NodeId(rank),
        rank: Rank(rank),
        phase: if pending.is_some() { PodPhase::Pending } else { PodPhase::Running },
        deleting: false,
        overdue: false,
        pending: pending.map(|reason| Cause::new(reason, "a test says so")),
        end: ObservedExit::default(),
        started_at: None,
        finished_at: None,
    }
}

#[test]
fn the_master_sees_pods_by_kind_and_waits_for_none_that_cannot_start() {
    let job = job();
    let pods = [
        pod(&job, RoleKind::ParameterServer, 0, None),
        pod(&job, RoleKind::Worker, 0, None),
        pod(&job, RoleKind::Worker, 1, None),
        pod(&job, RoleKind::Worker, 2, Some(Reason::Unschedulable)),
    ];
    let observed = observed_by_master(&job, &status(&job), &pods, &[], &Machines::default());
    let names = |pods: &[wire::Pod]| pods.iter().map(|pod| pod.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&observed.pods), ["worker-0", "worker-1"]);
    assert_eq!(names(&observed.servers), ["ps-0"]);
    assert_eq!((observed.expected, observed.expected_servers), (Some(2), Some(1)));
    assert_eq!(names(&observed.workers), ["worker-0", "worker-1"]);
    assert_eq!((observed.pods[0].phase.as_str(), observed.pods[0].uid.as_str()), ("Running", "uid-worker-0"));
}
