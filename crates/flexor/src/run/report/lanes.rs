//! One job in the picture: a strip of its activities, and a lane for every pod with a bar for each incarnation.

use flexor_engine::controller::PodPhase;
use flexor_local::cluster::{Activity, ClusterEvent, PodRun};
use flexor_model::Reason;

use super::timeline::{Frame, grid};
use super::{JobRun, RunRecord};
use crate::picture::svg::{Anchor, Svg, colour, cut_front};

const STRIP: f64 = 10.0;
const HEADING: f64 = 20.0;
/// Height of a lane, and the least height with many pods. Names need a lane of [`LEAST_FOR_NAMES`].
const LANE: f64 = 17.0;
const LOWEST_LANE: f64 = 5.0;
const LEAST_FOR_NAMES: f64 = 12.0;
/// Height of all lanes of a job, unless the least height of a lane needs more.
const LANES: f64 = 680.0;
/// Further pods are not drawn.
const MOST_LANES: usize = 300;
/// Least width of a bar, so that it is visible.
const THINNEST: f64 = 1.0;

/// A mark above a job for an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    Scaled,
    FaultInjected,
    ParametersLost,
}

impl Mark {
    pub const ALL: [Self; 3] = [Self::Scaled, Self::FaultInjected, Self::ParametersLost];

    pub fn of(event: &ClusterEvent) -> Option<Self> {
        match event.cause.reason {
            Reason::SizeFromPlan | Reason::SizeFromSpec | Reason::PodMigrates => Some(Self::Scaled),
            Reason::FaultInjected => Some(Self::FaultInjected),
            Reason::PartitionsRestored => Some(Self::ParametersLost),
            _ => None,
        }
    }

    pub fn label(self) -> &'static str {
        match self {
            Self::Scaled => "scaled or migrated",
            Self::FaultInjected => "fault injected",
            Self::ParametersLost => "parameters lost",
        }
    }

    pub fn colour(self) -> &'static str {
        match self {
            Self::Scaled => colour::INK,
            Self::FaultInjected => colour::LOST,
            Self::ParametersLost => colour::RECOVERING,
        }
    }
}

/// Draws a job. Returns the y coordinate of its end.
pub fn draw(svg: &mut Svg, run: &RunRecord, job: &JobRun, frame: &Frame, top: f64) -> f64 {
    let key = &job.view.key;
    let pods = pods(run, job);
    #[expect(clippy::cast_precision_loss, reason = "a few hundred")]
    let (shown, all) = (pods.len().min(MOST_LANES) as f64, pods.len());
    let lane = (LANES / shown.max(1.0)).clamp(LOWEST_LANE, LANE);
    let strip = top + HEADING;
    let first = strip + STRIP + 8.0;
    let bottom = first + lane * shown;
    grid(svg, frame, strip, bottom);
    svg.text((20.0, top + 12.0), 13.0, colour::INK, Anchor::Start, &key.to_string());
    activities(svg, run, job, frame, strip);
    for (y, (pod, pod_history)) in lane_tops(first, lane).zip(pods.iter().take(MOST_LANES)) {
        if lane >= LEAST_FOR_NAMES {
            let size = frame.name_size;
            let name = cut_front(pod, size, frame.left - 24.0);
            svg.text((frame.left - 10.0, y + lane / 2.0 + 4.0), size, colour::INK, Anchor::End, &name);
        }
        for pod_run in pod_history {
            bar(svg, run, pod_run, frame, (y, lane));
        }
    }
    if lane < LEAST_FOR_NAMES {
        let count = format!("{all} pods");
        let middle = f64::midpoint(first, bottom);
        svg.text((frame.left - 10.0, middle), frame.name_size, colour::INK, Anchor::End, &count);
    }
    bottom
}

fn lane_tops(first: f64, lane: f64) -> impl Iterator<Item = f64> {
    (0_u32..).map(move |index| first + lane * f64::from(index))
}

/// The pods of a job in the order of their first creation, each with its incarnations.
fn pods<'a>(run: &'a RunRecord, job: &'a JobRun) -> Vec<(&'a str, Vec<&'a PodRun>)> {
    let mut pod_history: Vec<&PodRun> = run.pod_runs(&job.view.key).collect();
    pod_history.sort_by(|a, b| (a.created_at, &a.pod).cmp(&(b.created_at, &b.pod)));
    let mut pods: Vec<(&str, Vec<&PodRun>)> = Vec::new();
    for pod_run in pod_history {
        match pods.iter_mut().find(|(pod, _)| *pod == pod_run.pod) {
            Some((_, known)) => known.push(pod_run),
            None => pods.push((&pod_run.pod, vec![pod_run])),
        }
    }
    pods
}

/// Draws the activities of the job, and marks for events.
fn activities(svg: &mut Svg, run: &RunRecord, job: &JobRun, frame: &Frame, y: f64) {
    for span in &job.view.timeline.spans {
        let (fill, word) = match span.activity {
            Activity::Waiting => (colour::WAITING, "waiting"),
            Activity::Training => (colour::RUNNING, "training"),
            Activity::Recovering => (colour::RECOVERING, "recovering"),
        };
        let (from, to) = (run.at(span.from), run.at(span.to.unwrap_or(run.to)));
        let (x, end) = (frame.time.position(from), frame.time.position(to));
        let title = format!("{word} from {from:.2} s to {to:.2} s, nodes: {}", span.nodes);
        svg.bar((x, y), ((end - x).max(THINNEST), STRIP), fill, &title);
    }
    for event in run.events.iter().filter(|event| event.job == job.view.key) {
        if let Some(mark) = Mark::of(event) {
            let title = format!("{:.2} s: {}", run.at(event.at), event.cause);
            svg.pointer((frame.time.position(run.at(event.at)), y - 1.0), mark.colour(), &title);
        }
    }
}

/// Draws one incarnation of a pod: starting, running, and its end.
fn bar(svg: &mut Svg, run: &RunRecord, pod_run: &PodRun, frame: &Frame, (y, lane): (f64, f64)) {
    let end = pod_run.ended_at.unwrap_or(run.to);
    let at = |moment| frame.time.position(run.at(moment));
    let started = pod_run.started_at.unwrap_or(end);
    let (x, runs, ends) = (at(pod_run.created_at), at(started), at(end));
    let thick = (lane * 0.7).max(2.0);
    let top = y + (lane - thick) / 2.0;
    let seconds = |moment| format!("{:.2} s", run.at(moment));
    if runs > x {
        let title = format!("{} starts from {} on", pod_run.pod, seconds(pod_run.created_at));
        svg.bar((x, top), (runs - x, thick), colour::WAITING, &title);
    }
    let how = pod_run.reason.clone().or(pod_run.exit_code.map(|code| format!("exit code {code}")));
    let how = how.filter(|_| !pod_run.taken_away).unwrap_or_else(|| match pod_run.taken_away {
        true => "removed".to_owned(),
        false => format!("{:?}", pod_run.phase),
    });
    let title = format!("{} runs from {} to {}: {how}", pod_run.pod, seconds(started), seconds(end));
    if pod_run.started_at.is_some() {
        svg.bar((runs, top), ((ends - runs).max(THINNEST), thick), colour::RUNNING, &title);
    }
    match pod_run.phase {
        _ if pod_run.taken_away => svg.bar((ends - 2.0, y + 1.0), (4.0, lane - 2.0), colour::FAINT, &title),
        PodPhase::Succeeded => svg.bar((ends - 2.0, y + 1.0), (4.0, lane - 2.0), colour::DONE, &title),
        PodPhase::Failed => svg.cross((ends, y + lane / 2.0), &title),
        PodPhase::Pending | PodPhase::Running => {}
    }
}
