//! `report.json`: all data of the tables and of the picture in one document.

use flexor_local::cluster::{Activity, ClusterEvent, PodRun, TrainingStatus};
use jiff::Timestamp;
use serde::Serialize;

use super::{JobRun, RunRecord};
use crate::run::account::JobAccount;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Document<'a> {
    /// The time that all other times are relative to.
    started_at: String,
    seconds: f64,
    jobs: Vec<JobPart<'a>>,
    pods: Vec<PodPart<'a>>,
    events: Vec<EventPart<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct JobPart<'a> {
    #[serde(flatten)]
    account: &'a JobAccount,
    created_at: f64,
    timeline: Vec<SpanPart>,
    training: Vec<SamplePart>,
}

#[derive(Serialize)]
struct SpanPart {
    from: f64,
    to: f64,
    activity: Activity,
    nodes: u32,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SamplePart {
    at: f64,
    #[serde(flatten)]
    training: TrainingStatus,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PodPart<'a> {
    job: String,
    pod: &'a str,
    role: &'a str,
    uid: &'a str,
    created_at: f64,
    started_at: Option<f64>,
    ended_at: Option<f64>,
    phase: String,
    removed: bool,
    exit_code: Option<i32>,
    reason: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EventPart<'a> {
    number: u64,
    at: f64,
    job: String,
    pod: Option<&'a str>,
    reason: &'static str,
    message: &'a str,
}

pub fn of(run: &RunRecord) -> Document<'_> {
    let start = Timestamp::from(run.from);
    Document {
        started_at: start.to_string(),
        seconds: run.at(run.to),
        jobs: run.jobs.iter().map(|job| job_part(run, job)).collect(),
        pods: run.pod_history.iter().map(|pod_run| pod_part(run, pod_run)).collect(),
        events: run.events.iter().map(|event| event_part(run, event)).collect(),
    }
}

fn job_part<'a>(run: &RunRecord, job: &'a JobRun) -> JobPart<'a> {
    let spans = job.view.timeline.spans.iter().map(|span| SpanPart {
        from: run.at(span.from),
        to: run.at(span.to.unwrap_or(run.to)),
        activity: span.activity,
        nodes: span.nodes,
    });
    let samples =
        job.samples.iter().map(|sample| SamplePart { at: run.at(sample.at), training: sample.training.clone() });
    JobPart {
        account: &job.account,
        created_at: run.at(job.view.created_at),
        timeline: spans.collect(),
        training: samples.collect(),
    }
}

fn pod_part<'a>(run: &RunRecord, pod_run: &'a PodRun) -> PodPart<'a> {
    PodPart {
        job: pod_run.job.to_string(),
        pod: &pod_run.pod,
        role: &pod_run.role,
        uid: &pod_run.uid,
        created_at: run.at(pod_run.created_at),
        started_at: pod_run.started_at.map(|at| run.at(at)),
        ended_at: pod_run.ended_at.map(|at| run.at(at)),
        phase: super::phase(pod_run),
        removed: pod_run.taken_away,
        exit_code: pod_run.exit_code,
        reason: pod_run.reason.as_deref(),
    }
}

fn event_part<'a>(run: &RunRecord, event: &'a ClusterEvent) -> EventPart<'a> {
    EventPart {
        number: event.number,
        at: run.at(event.at),
        job: event.job.to_string(),
        pod: event.pod.as_deref(),
        reason: event.cause.reason.as_str(),
        message: &event.cause.message,
    }
}
