//! Snapshots of the picture in typical situations, without colours.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use flexor_engine::Cause;
use flexor_engine::controller::{JobStatus, Phase, PodPhase};
use flexor_local::cluster::{
    Activity, ClusterEvent, JobKey, JobView, PendingReason, PodView, Records, Span, Timeline, TrainingStatus,
};
use flexor_model::{Reason, UnixTime};
use serde_json::json;
use unicode_width::UnicodeWidthStr;

use super::picture::{Size, picture};

const BEGAN: UnixTime = UnixTime::from_secs(1_000);
const WIDE: Size = Size { columns: 100, rows: 30, colours: false };

fn at(seconds: u64) -> UnixTime {
    BEGAN + Duration::from_secs(seconds)
}

fn key(name: &str) -> JobKey {
    JobKey { namespace: "default".parse().unwrap(), name: name.parse().unwrap() }
}

fn job(name: &str, phase: Phase) -> JobView {
    JobView {
        key: key(name),
        dialect: "dlrover".to_owned(),
        manifest: serde_json::Value::Null,
        created_at: BEGAN,
        deleting: false,
        status: JobStatus { phase, created_at: Some(BEGAN), ..JobStatus::default() },
        master: None,
        training: None,
        timeline: Timeline::default(),
    }
}

/// A running job with this activity and a world of `nodes` nodes.
fn busy(name: &str, activity: Activity, nodes: u32) -> JobView {
    let mut training = TrainingStatus::default();
    (training.round, training.nodes, training.meeting) = (Some(3), nodes, activity != Activity::Training);
    let mut timeline = Timeline::default();
    timeline.spans.push(Span { from: BEGAN, to: None, activity, nodes });
    JobView { training: Some(training), timeline, ..job(name, Phase::Running) }
}

fn with_records(mut job: JobView, accounted: u64) -> JobView {
    let training = job.training.get_or_insert_default();
    training.records = Some(Records { expected: 1000, accounted, ..Records::default() });
    training.records_per_second = Some(41.23);
    job
}

fn pod(job: &str, name: &str, phase: PodPhase, age: u64) -> PodView {
    PodView {
        name: format!("{job}-{name}"),
        uid: name.to_owned(),
        job: key(job),
        role: "worker".to_owned(),
        relaunches: 0,
        labels: BTreeMap::new(),
        phase,
        deleting: false,
        created_at: at(20 - age),
        address: Ipv4Addr::LOCALHOST,
        status: None,
        trouble: None,
        pending: None,
    }
}

fn ended(pod: PodView, exit_code: i32, reason: &str) -> PodView {
    let phase = if exit_code == 0 { "Succeeded" } else { "Failed" };
    let state =
        json!({ "terminated": { "exitCode": exit_code, "reason": reason, "finishedAt": "1970-01-01T00:00:00Z" } });
    let status = json!({
        "uid": pod.uid, "supervisor": [1, 1], "phase": phase,
        "containers": [{ "name": "main", "state": state, "restarts": 0 }],
    });
    PodView { status: Some(serde_json::from_value(status).unwrap()), ..pod }
}

fn event(seconds: u64, job: &str, pod: Option<&str>, reason: Reason, message: &str) -> ClusterEvent {
    let pod = pod.map(|pod| format!("{job}-{pod}"));
    ClusterEvent { number: seconds, at: at(seconds), job: key(job), pod, cause: Cause::new(reason, message) }
}

fn shown(jobs: &[JobView], pods: &[PodView], events: &[ClusterEvent], size: Size) -> String {
    let lines = picture(jobs, pods, events, size, at(20));
    assert!(lines.len() < size.rows, "{} lines", lines.len());
    for line in &lines {
        assert!(line.width() <= size.columns, "{line:?}");
    }
    // The mark shows the left edge of the terminal.
    lines.iter().map(|line| format!("|{line}\n")).collect()
}

#[test]
fn starting() {
    let pods = [pod("mnist", "master", PodPhase::Running, 1), pod("mnist", "worker-0", PodPhase::Pending, 0)];
    let events = [
        event(19, "mnist", None, Reason::JobCreated, "the job is taken up"),
        event(20, "mnist", Some("worker-0"), Reason::PodWanted, "worker is to have 1 replicas"),
    ];
    insta::assert_snapshot!(shown(&[job("mnist", Phase::Pending)], &pods, &events, WIDE));
}

#[test]
fn running() {
    let mut busy = busy("mnist", Activity::Training, 2);
    let training = busy.training.get_or_insert_default();
    (training.step, training.steps_per_second) = (Some(1240.0), Some(128.4));
    let pods = ["master", "worker-0", "worker-1"].map(|name| pod("mnist", name, PodPhase::Running, 19));
    let events = [event(3, "mnist", None, Reason::JobRunning, "worker 0 runs")];
    insta::assert_snapshot!(shown(&[with_records(busy, 520)], &pods, &events, WIDE));
}

fn after_a_kill() -> (JobView, [PodView; 4], [ClusterEvent; 3]) {
    let killed = PodView { relaunches: 1, ..pod("data", "worker-1", PodPhase::Running, 1) };
    let pods = [
        pod("data", "master", PodPhase::Running, 19),
        pod("data", "worker-0", PodPhase::Running, 19),
        killed,
        PodView { deleting: true, ..pod("data", "worker-2", PodPhase::Running, 19) },
    ];
    let events = [
        event(18, "data", Some("worker-1"), Reason::ProgramKilled, "exit code 137; this costs no retry"),
        event(18, "data", Some("worker-1"), Reason::PodReplaced, "it is started again under its name"),
        event(19, "data", Some("worker-1"), Reason::PodWanted, "its slot is filled again, for the 1. time"),
    ];
    (with_records(busy("data", Activity::Recovering, 2), 777), pods, events)
}

#[test]
fn recovering_after_a_kill() {
    let (job, pods, events) = after_a_kill();
    insta::assert_snapshot!(shown(&[job], &pods, &events, WIDE));
}

#[test]
fn sixty_columns() {
    let (job, pods, events) = after_a_kill();
    insta::assert_snapshot!(shown(&[job], &pods, &events, Size { columns: 60, ..WIDE }));
}

#[test]
fn pending_pods_say_what_they_wait_for() {
    let pending = |pending, name| PodView { pending: Some(pending), ..pod("large", name, PodPhase::Pending, 7) };
    let pods = [
        pod("large", "worker-0", PodPhase::Running, 7),
        pending(PendingReason::Unschedulable("2 CPUs are wanted, 1 of 4 is free".to_owned()), "worker-1"),
        pending(PendingReason::MissingReference("ConfigMap settings is not there".to_owned()), "worker-2"),
    ];
    let events = [event(13, "large", Some("worker-1"), Reason::Unschedulable, "2 CPUs are wanted, 1 of 4 is free")];
    insta::assert_snapshot!(shown(&[busy("large", Activity::Waiting, 0)], &pods, &events, WIDE));
}

#[test]
fn two_hundred_pods_on_twenty_four_lines() {
    let mut pods: Vec<PodView> =
        (0..200).map(|rank| pod("many", &format!("worker-{rank}"), PodPhase::Running, 15)).collect();
    pods[7].phase = PodPhase::Pending;
    pods[120].deleting = true;
    for rank in [3, 4] {
        pods[rank].phase = PodPhase::Succeeded;
        pods[rank] = ended(pods[rank].clone(), 0, "Completed");
    }
    pods[199].phase = PodPhase::Failed;
    pods[199] = ended(pods[199].clone(), 137, "OOMKilled");
    let events: Vec<ClusterEvent> = (0..9)
        .map(|n| event(n, "many", Some(&format!("worker-{n}")), Reason::PodWanted, "worker is to have 200 replicas"))
        .collect();
    let small = Size { columns: 80, rows: 24, colours: false };
    insta::assert_snapshot!(shown(&[busy("many", Activity::Training, 196)], &pods, &events, small));
}

#[test]
fn two_jobs() {
    let jobs = [busy("high", Activity::Training, 2), with_records(busy("low", Activity::Recovering, 1), 40)];
    let pods = [
        pod("high", "worker-0", PodPhase::Running, 3),
        pod("high", "worker-1", PodPhase::Running, 3),
        pod("low", "worker-0", PodPhase::Running, 20),
        PodView { deleting: true, ..pod("low", "worker-1", PodPhase::Running, 20) },
    ];
    let events = [event(17, "low", Some("worker-1"), Reason::Preempted, "high-worker-1 needs its place")];
    insta::assert_snapshot!(shown(&jobs, &pods, &events, WIDE));
}

#[test]
fn a_failed_end() {
    let cause = Cause::new(Reason::TooFewLeft, "worker-0: exit code 3: cannot open the data; 0 of at least 1 left");
    let mut failed = job("fails", Phase::Failed);
    (failed.status.cause, failed.status.finished_at) = (Some(cause.clone()), Some(at(18)));
    let pods = [
        pod("fails", "master", PodPhase::Running, 20),
        PodView { relaunches: 3, ..ended(pod("fails", "worker-0", PodPhase::Failed, 4), 3, "Error") },
    ];
    let events = [event(18, "fails", None, cause.reason, &cause.message)];
    insta::assert_snapshot!(shown(&[failed], &pods, &events, WIDE));
}

#[test]
fn the_picture_fits_terminals_of_any_size() {
    let (job, pods, events) = after_a_kill();
    let jobs: Vec<JobView> = (0..12).map(|n| JobView { key: key(&format!("data-{n}")), ..job.clone() }).collect();
    for columns in [1, 8, 20, 79] {
        for rows in 1..60 {
            for jobs in [&jobs[..0], &jobs[..1], &jobs] {
                shown(jobs, &pods, &events, Size { columns, rows, colours: false });
            }
        }
    }
}

#[test]
fn colours_change_nothing_but_the_colour() {
    let (job, pods, events) = after_a_kill();
    let (job, now) = ([job], at(20));
    let plain = picture(&job, &pods, &events, WIDE, now);
    let painted = picture(&job, &pods, &events, Size { colours: true, ..WIDE }, now);
    let bare: Vec<String> =
        painted.iter().map(|line| anstream::adapter::strip_str(line).to_string().trim_end().to_owned()).collect();
    assert_eq!(plain, bare);
    assert!(painted.iter().any(|line| line.contains("\x1b[33m")), "{painted:?}");
}
