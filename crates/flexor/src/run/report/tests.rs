//! The report of an invented run with known figures.

use std::time::Duration;

use flexor_engine::Cause;
use flexor_engine::controller::{JobStatus, Phase, PodPhase};
use flexor_local::cluster::{
    Activity, ClusterEvent, JobKey, JobView, Learning, PodRun, Records, Scores, Span, Timeline, TrainingStatus,
};
use flexor_model::{Reason, UnixTime};
use serde_json::Value;

use super::super::account::{JobOutcome, TimeByActivity};
use super::*;

const FROM: UnixTime = UnixTime::from_secs(1_000);

fn at(seconds: f64) -> UnixTime {
    FROM + Duration::from_secs_f64(seconds)
}

fn key(name: &str) -> JobKey {
    JobKey { namespace: "default".parse().unwrap(), name: name.parse().unwrap() }
}

fn pod_run(pod: &str, (created, started, ended): (f64, f64, Option<f64>), phase: PodPhase, reason: &str) -> PodRun {
    PodRun {
        job: key("mnist"),
        pod: pod.to_owned(),
        uid: format!("{pod}-{created}"),
        role: "worker".to_owned(),
        phase,
        created_at: at(created),
        started_at: Some(at(started)),
        ended_at: ended.map(at),
        taken_away: false,
        exit_code: ended.map(|_| if phase == PodPhase::Succeeded { 0 } else { 137 }),
        reason: Some(reason.to_owned()).filter(|reason| !reason.is_empty()),
    }
}

/// Two workers, one of which is killed after four seconds; a third comes at seven.
fn run() -> RunRecord {
    let span = |from: f64, to: f64, activity, nodes| Span { from: at(from), to: Some(at(to)), activity, nodes };
    let mut timeline = Timeline::default();
    timeline.spans = vec![
        span(0.0, 0.5, Activity::Waiting, 0),
        span(0.5, 4.0, Activity::Training, 2),
        span(4.0, 4.5, Activity::Recovering, 1),
        span(4.5, 7.5, Activity::Training, 2),
        span(7.5, 10.0, Activity::Training, 3),
    ];
    let view = JobView {
        key: key("mnist"),
        dialect: "dlrover".to_owned(),
        manifest: Value::Null,
        created_at: FROM,
        deleting: false,
        status: JobStatus { phase: Phase::Succeeded, finished_at: Some(at(10.0)), ..JobStatus::default() },
        master: None,
        training: None,
        timeline,
    };
    let account = JobAccount {
        key: key("mnist"),
        dialect: "dlrover".to_owned(),
        outcome: JobOutcome::Succeeded,
        cause: Some(Cause::new(Reason::JobSucceeded, "the program has ended well on 3 nodes")),
        seconds: 10.0,
        time: TimeByActivity { training: 9.0, waiting: 0.5, recovering: 0.5 },
        relaunches: 1,
        started_again: Vec::new(),
        evaluations: None,
        records: None,
        pace: None,
        learning: None,
        updates: None,
        servers: Vec::new(),
    };
    let sample = |seconds: f64| {
        let mut training = TrainingStatus::default();
        training.nodes = 2;
        training.steps_per_second = Some(10.0 + seconds);
        // In the first of three epochs.
        training.records = Some(Records { expected: 1000, accounted: 900, total: 3000, ..Records::default() });
        Sample { at: at(seconds), training }
    };
    let event = |number, seconds, pod: Option<&str>, reason, message: &str| {
        let cause = Cause::new(reason, message);
        ClusterEvent { number, at: at(seconds), job: key("mnist"), pod: pod.map(str::to_owned), cause }
    };
    RunRecord {
        from: FROM,
        to: at(10.0),
        jobs: vec![JobRun { account, view, samples: (2..10).map(|second| sample(f64::from(second))).collect() }],
        pod_history: vec![
            pod_run("mnist-master", (0.0, 0.1, None), PodPhase::Running, ""),
            pod_run("mnist-worker-0", (0.1, 0.2, Some(10.0)), PodPhase::Succeeded, "Completed"),
            pod_run("mnist-worker-1", (0.1, 0.2, Some(4.0)), PodPhase::Failed, "Error"),
            pod_run("mnist-worker-1", (4.1, 4.2, Some(9.9)), PodPhase::Succeeded, "Completed"),
            pod_run("mnist-worker-2", (7.0, 7.2, Some(9.9)), PodPhase::Succeeded, "Completed"),
            PodRun {
                taken_away: true,
                exit_code: Some(143),
                ..pod_run("mnist-worker-3", (7.0, 7.2, Some(8.0)), PodPhase::Failed, "Terminated")
            },
        ],
        events: vec![
            event(1, 0.0, None, Reason::JobCreated, "the job is taken up"),
            event(
                2,
                4.0,
                Some("mnist-worker-1"),
                Reason::ProgramKilled,
                "exit code 137, \"killed\"; this costs no retry",
            ),
            event(3, 7.0, None, Reason::SizeFromPlan, "3 replicas of worker, as the plan more says"),
            event(4, 7.0, Some("mnist-worker-2"), Reason::PodMigrates, "it takes over"),
        ],
    }
}

#[test]
fn tables_have_a_heading_and_are_quoted_where_necessary() {
    let run = run();
    let all =
        [tables::pods(&run), tables::events(&run), tables::world(&run), tables::training(&run), tables::servers(&run)];
    insta::assert_snapshot!(all.join("\n"));
}

#[test]
fn the_document_has_all_data_for_programs() {
    insta::assert_snapshot!(serde_json::to_string_pretty(&document::of(&run())).unwrap());
}

#[test]
fn the_picture_has_a_bar_for_every_incarnation_and_a_cross_for_every_failure() {
    let picture = timeline::draw(&run());
    let bars = |text: &str| picture.matches(text).count();
    assert_eq!(bars("mnist-worker-1 runs from"), 4, "two incarnations, each with the mark of its end: {picture}");
    assert_eq!(bars("mnist-worker-1 runs from 0.20 s to 4.00 s: Error"), 2, "a bar and its cross");
    assert_eq!(bars("SizeFromPlan: 3 replicas of worker, as the plan more says"), 1);
    assert_eq!(bars("PodMigrates: it takes over"), 1);
    for text in ["seconds since the start", "steps/s", "nodes", "default/mnist", "flexor run: mnist (10.0 s)"] {
        assert!(picture.contains(text), "{text}");
    }
}

#[test]
fn a_single_test_at_the_end_has_no_chart() {
    let mut run = run();
    let measured = Learning { test: Scores { auc: Some(0.8), ..Scores::default() }, ..Learning::default() };
    let samples = &mut run.jobs[0].samples;
    samples.last_mut().unwrap().training.learning = Some(measured);
    assert!(!timeline::draw(&run).contains("AUC, test data"));
    run.jobs[0].samples[0].training.learning = Some(measured);
    assert!(timeline::draw(&run).contains("AUC, test data"));
}

#[test]
fn a_run_without_jobs_has_a_picture() {
    let empty = RunRecord { from: FROM, to: FROM, jobs: Vec::new(), pod_history: Vec::new(), events: Vec::new() };
    let picture = timeline::draw(&empty);
    assert!(picture.contains("seconds since the start") && !picture.contains("NaN") && !picture.contains("inf"));
}

#[test]
fn a_folder_that_cannot_be_written_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let error = Report::prepare(&file.join("report")).err().unwrap();
    assert!(format!("{error:#}").contains("the folder is not writable; name another one"), "{error:#}");
    let fine = folder.path().join("a/b");
    Report::prepare(&fine).unwrap();
    assert_eq!(fs::read_dir(&fine).unwrap().count(), 0, "the check leaves no file");
}
