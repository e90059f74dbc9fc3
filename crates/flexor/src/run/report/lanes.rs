//! One job in the picture: a strip of what it did, and a lane for every pod with a bar for each of its lives.

use flexor_engine::controller::PodPhase;
use flexor_local::cluster::{Activity, ClusterEvent, PodRun};
use flexor_model::Reason;

use super::svg::{Anchor, Svg, colour, cut_front};
use super::timeline::{Frame, grid};
use super::{JobRun, Run};

const STRIP: f64 = 10.0;
const HEADING: f64 = 20.0;
/// A lane, and the lowest it becomes where there are many; names need more.
const LANE: f64 = 17.0;
const LOWEST_LANE: f64 = 5.0;
const LEAST_FOR_NAMES: f64 = 12.0;
/// All lanes of a job together have this where they can.
const LANES: f64 = 680.0;
/// More pods than this would be a picture of stripes.
const MOST_LANES: usize = 300;
/// What is shorter cannot be seen.
const THINNEST: f64 = 1.0;

/// What is marked above a job: what somebody did to it, and what was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    Scaled,
    Harmed,
    Lost,
}

impl Mark {
    pub const ALL: [Self; 3] = [Self::Scaled, Self::Harmed, Self::Lost];

    /// The mark that an event is, if it is one.
    pub fn of(event: &ClusterEvent) -> Option<Self> {
        match event.cause.reason {
            Reason::SizeFromPlan | Reason::SizeFromSpec | Reason::PodMigrates => Some(Self::Scaled),
            Reason::FaultInjected => Some(Self::Harmed),
            Reason::PartitionsRestored => Some(Self::Lost),
            _ => None,
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            Self::Scaled => "scaled or migrated",
            Self::Harmed => "harmed on purpose",
            Self::Lost => "parameters lost",
        }
    }

    pub fn colour(self) -> &'static str {
        match self {
            Self::Scaled => colour::INK,
            Self::Harmed => colour::LOST,
            Self::Lost => colour::RECOVERING,
        }
    }
}

/// Draws a job from here on. Where it ends.
pub fn draw(svg: &mut Svg, run: &Run, job: &JobRun, frame: &Frame, top: f64) -> f64 {
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
    for (y, (pod, pod_history)) in places(first, lane).zip(pods.iter().take(MOST_LANES)) {
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
        let told = format!("{all} pods");
        let middle = f64::midpoint(first, bottom);
        svg.text((frame.left - 10.0, middle), frame.name_size, colour::INK, Anchor::End, &told);
    }
    bottom
}

fn places(first: f64, lane: f64) -> impl Iterator<Item = f64> {
    (0_u32..).map(move |place| first + lane * f64::from(place))
}

/// The pods of a job, in the order of their first beginning, each with its lives.
fn pods<'a>(run: &'a Run, job: &'a JobRun) -> Vec<(&'a str, Vec<&'a PodRun>)> {
    let mut pod_history: Vec<&PodRun> = run.lives_of(&job.view.key).collect();
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

/// What the job did, and when it was scaled.
fn activities(svg: &mut Svg, run: &Run, job: &JobRun, frame: &Frame, y: f64) {
    for span in &job.view.timeline.spans {
        let (fill, word) = match span.activity {
            Activity::Waiting => (colour::WAITING, "waiting"),
            Activity::Training => (colour::RUNNING, "training"),
            Activity::Recovering => (colour::RECOVERING, "recovering"),
        };
        let (from, to) = (run.at(span.from), run.at(span.to.unwrap_or(run.to)));
        let (x, end) = (frame.time.place(from), frame.time.place(to));
        let title = format!("{word} from {from:.2} s to {to:.2} s, nodes: {}", span.nodes);
        svg.bar((x, y), ((end - x).max(THINNEST), STRIP), fill, &title);
    }
    for event in run.events.iter().filter(|event| event.job == job.view.key) {
        if let Some(mark) = Mark::of(event) {
            let title = format!("{:.2} s: {}", run.at(event.at), event.cause);
            svg.pointer((frame.time.place(run.at(event.at)), y - 1.0), mark.colour(), &title);
        }
    }
}

/// One life of a pod: starting, running, and how it ended.
fn bar(svg: &mut Svg, run: &Run, pod_run: &PodRun, frame: &Frame, (y, lane): (f64, f64)) {
    let end = pod_run.ended_at.unwrap_or(run.to);
    let at = |moment| frame.time.place(run.at(moment));
    let started = pod_run.started_at.unwrap_or(end);
    let (x, runs, ends) = (at(pod_run.created_at), at(started), at(end));
    let thick = (lane * 0.7).max(2.0);
    let place = y + (lane - thick) / 2.0;
    let seconds = |moment| format!("{:.2} s", run.at(moment));
    if runs > x {
        let title = format!("{} is started from {} on", pod_run.pod, seconds(pod_run.created_at));
        svg.bar((x, place), (runs - x, thick), colour::WAITING, &title);
    }
    let how = pod_run.reason.clone().or(pod_run.exit_code.map(|code| format!("exit code {code}")));
    let how = how.filter(|_| !pod_run.taken_away).unwrap_or_else(|| match pod_run.taken_away {
        true => "taken away".to_owned(),
        false => format!("{:?}", pod_run.phase),
    });
    let title = format!("{} runs from {} to {}: {how}", pod_run.pod, seconds(started), seconds(end));
    if pod_run.started_at.is_some() {
        svg.bar((runs, place), ((ends - runs).max(THINNEST), thick), colour::RUNNING, &title);
    }
    match pod_run.phase {
        _ if pod_run.taken_away => svg.bar((ends - 2.0, y + 1.0), (4.0, lane - 2.0), colour::FAINT, &title),
        PodPhase::Succeeded => svg.bar((ends - 2.0, y + 1.0), (4.0, lane - 2.0), colour::DONE, &title),
        PodPhase::Failed => svg.cross((ends, y + lane / 2.0), &title),
        PodPhase::Pending | PodPhase::Running => {}
    }
}
