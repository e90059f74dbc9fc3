use flexor_dialects::manifest::{self, Subject, Verdict};
use std::collections::{BTreeMap, BTreeSet};

use flexor_engine::Cause;
use flexor_engine::controller::{PlanStatus, Target};
use flexor_engine::nodes::ObservedExit;
use flexor_model::{NodeId, Plan, Rank, UnixTime};
use serde_json::{Value, json};

use super::*;

/// A job like the tutorial's: it names no sizes and no resources, and may use 1.5 cores in all.
fn job(resources: Value) -> Job {
    let pod = |command: &[&str]| {
        let container = json!({ "name": "main", "image": "flexor", "command": command, "resources": resources });
        json!({ "template": { "spec": { "containers": [container] } } })
    };
    let manifest = json!({
        "apiVersion": "elastic.iml.github.io/v1alpha1", "kind": "ElasticJob", "metadata": { "name": "a" },
        "spec": {
            "distributionStrategy": "ParameterServerStrategy", "optimizeMode": "single-job",
            "resourceLimits": { "cpu": "1500m", "memory": "10Gi" },
            "replicaSpecs": { "ps": pod(&["flexor", "ps"]), "worker": pod(&["flexor", "worker"]) },
        },
    });
    let document = manifest::check(manifest.to_string().as_bytes()).documents.remove(0);
    let Verdict::Accepted { subject, .. } = document.verdict else { panic!("{:?}", document.verdict) };
    let Subject::Job(job) = *subject else { panic!("a job") };
    job
}

fn status(job: &Job, workers_set_by: &SetBy) -> JobStatus {
    let target = |role: &Role| Target {
        replicas: role.size.initial(),
        resources: Resources::default(),
        set_by: if role.kind == RoleKind::Worker { workers_set_by.clone() } else { SetBy::Spec },
        generation: 1,
        spec_replicas: role.size.initial(),
        wanted: None,
        vacant: BTreeSet::new(),
        promised: BTreeMap::new(),
        cause: Cause::new(Reason::SizeFromSpec, "a test says so"),
    };
    let targets = job.roles.iter().map(|role| (role.name.clone(), target(role))).collect();
    JobStatus { targets, ..JobStatus::default() }
}

fn pods(job: &Job, status: &JobStatus) -> Vec<ObservedPod> {
    let of_role = |role: &Role| {
        let role = role.name.clone();
        (0..status.targets[&role].replicas).map(move |rank| ObservedPod {
            name: format!("{role}-{rank}"),
            uid: format!("uid-{role}-{rank}"),
            role: role.clone(),
            id: NodeId(rank),
            rank: Rank(rank),
            phase: PodPhase::Running,
            deleting: false,
            overdue: false,
            pending: None,
            end: ObservedExit::default(),
            started_at: None,
            finished_at: None,
        })
    };
    job.roles.iter().flat_map(of_role).collect()
}

fn plan(name: &str, phase: PlanPhase) -> ObservedPlan {
    let plan = Plan {
        name: name.parse().unwrap(),
        namespace: None,
        job: "a".parse().unwrap(),
        origin: PlanOrigin::Auto,
        roles: [].into(),
        create: Vec::new(),
        remove: Vec::new(),
        migrate: Vec::new(),
        gives_back: false,
        message: String::new(),
        server_addresses: Vec::new(),
    };
    let status = PlanStatus { phase, ..PlanStatus::default() };
    ObservedPlan { plan, created_at: UnixTime::EPOCH, status }
}

fn view(job: &Job, status: &JobStatus, plans: &[ObservedPlan]) -> wire::Sizing {
    sizing_for_master(job, status, &pods(job, status), plans, &Machines::default()).unwrap()
}

#[test]
fn pods_that_name_no_resources_share_the_ceiling_and_are_limited_to_their_share() {
    let job = job(json!({}));
    let status = status(&job, &SetBy::Spec);
    let sizing = view(&job, &status, &[]);
    let share = wire::Allotment { millicores: 300, bytes: 2 << 30 };
    assert_eq!((sizing.workers.unwrap().pod, sizing.servers.unwrap().pod), (Some(share), Some(share)));
    assert_eq!(sizing.others, Some(wire::Allotment::default()), "the chief is sent with the workers");
    assert_eq!(sizing.ceiling, Some(wire::Bounds { millicores: Some(1500), bytes: Some(10 << 30) }));
    assert!(sizing.settled && sizing.servers_report);
    let pods = pods(&job, &status);
    let chief = pods.iter().find(|pod| pod.role.as_str() == "chief").unwrap();
    let role = job.roles.iter().find(|role| role.name == chief.role).unwrap();
    assert_eq!(allotment_of(&job, &status, role, chief, &Machines::default()), share);
}

#[test]
fn a_limit_counts_before_a_request() {
    let job = job(json!({ "requests": { "cpu": "250m", "memory": "1Gi" }, "limits": { "cpu": "1" } }));
    let status = status(&job, &SetBy::Spec);
    let pods = pods(&job, &status);
    let role = job.role(RoleKind::ParameterServer).unwrap();
    let server = pods.iter().find(|pod| pod.role == role.name).unwrap();
    let may_use = allotment_of(&job, &status, role, server, &Machines::default());
    assert_eq!(may_use, wire::Allotment { millicores: 1000, bytes: 1 << 30 });
    let next = view(&job, &status, &[]).servers.unwrap().pod;
    assert_eq!(next, Some(wire::Allotment { millicores: 250, bytes: 1 << 30 }), "what a pod requests");
}

#[test]
fn the_master_learns_who_has_set_a_role_and_how_its_last_plan_ended() {
    let job = job(json!({}));
    let held_by = |set_by: &SetBy| view(&job, &status(&job, set_by), &[]).workers.unwrap().held_by;
    assert_eq!(held_by(&SetBy::Auto("a-auto-0".to_owned())), "");
    assert_eq!(held_by(&SetBy::Plan("p".to_owned())), "the plan p");
    assert_eq!(held_by(&SetBy::Edit), "an edit of the job");
    let status = status(&job, &SetBy::Spec);
    let plans = [
        plan("a-auto-9", PlanPhase::Succeeded),
        plan("a-auto-10", PlanPhase::Scaling),
        plan("b-auto-11", PlanPhase::Failed),
    ];
    let sizing = view(&job, &status, &plans);
    let open = wire::AutomaticPlan { number: 10, state: wire::automatic_plan::State::Open.into() };
    assert_eq!((sizing.plan, sizing.settled), (Some(open), false));
}
