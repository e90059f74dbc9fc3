//! `timeline.svg`: for each job its activities and a lane for every pod, and charts below them, on a common time axis.

use super::lanes::Mark;
use super::{RunRecord, charts, lanes};
use crate::picture::axis::Axis;
use crate::picture::svg::{Anchor, Svg, colour, cut, width};
use crate::run::account::JobAccount;

const WIDTH: f64 = 1100.0;
const RIGHT: f64 = 24.0;
/// Largest width of the names of pods.
const WIDEST_NAMES: f64 = 260.0;
const NAME_SIZE: f64 = 11.0;
const TOP: f64 = 76.0;
const GAP: f64 = 26.0;

/// Horizontal layout of lanes and charts.
pub struct Frame {
    /// Axis in seconds.
    pub time: Axis,
    /// Left end of lanes and charts. Names are left of it.
    pub left: f64,
    pub right: f64,
    /// Font size of names.
    pub name_size: f64,
}

pub fn draw(run: &RunRecord) -> String {
    let names = run.pod_history.iter().map(|pod_run| width(&pod_run.pod, NAME_SIZE));
    let left = 34.0 + names.fold(width("records/s", NAME_SIZE) + 30.0, f64::max).min(WIDEST_NAMES);
    let right = WIDTH - RIGHT;
    let frame = Frame { time: Axis::new(run.at(run.to), left, right), left, right, name_size: NAME_SIZE };
    let mut svg = Svg::new(WIDTH);
    title(&mut svg, run);
    legend(&mut svg, run, 20.0);
    let mut y = TOP;
    for job in &run.jobs {
        y = lanes::draw(&mut svg, run, job, &frame, y) + GAP;
    }
    y = charts::draw(&mut svg, run, &frame, y);
    let height = seconds(&mut svg, &frame, y);
    svg.finish(height)
}

fn title(svg: &mut Svg, run: &RunRecord) {
    let outcomes: Vec<String> = run.jobs.iter().map(|job| outcome(&job.account)).collect();
    let names: Vec<String> = run.jobs.iter().map(|job| job.view.key.name.to_string()).collect();
    let (left, room) = (20.0, WIDTH - 40.0);
    let named = format!("flexor run: {} ({:.1} s)", names.join(", "), run.at(run.to));
    svg.text((left, 26.0), 17.0, colour::INK, Anchor::Start, &cut(&named, 17.0, room));
    let outcomes = cut(&outcomes.join("; "), 12.0, room);
    svg.text((left, 44.0), 12.0, colour::FAINT, Anchor::Start, &outcomes);
}

fn outcome(account: &JobAccount) -> String {
    let time = account.time;
    let whole = (time.training + time.waiting + time.recovering).max(f64::MIN_POSITIVE);
    let share = |part: f64| 100.0 * part / whole;
    format!(
        "{} {:?}, training {:.0} %, waiting {:.0} %, recovering {:.0} %",
        account.key.name,
        account.outcome,
        share(time.training),
        share(time.waiting),
        share(time.recovering)
    )
}

/// Draws the meaning of colours and marks, in a row.
fn legend(svg: &mut Svg, run: &RunRecord, left: f64) {
    let y = TOP - 8.0;
    let mut x = left;
    let mut put = |svg: &mut Svg, text: &str, sign: &dyn Fn(&mut Svg, f64)| {
        sign(svg, x + 6.0);
        svg.text((x + 17.0, y), NAME_SIZE, colour::INK, Anchor::Start, text);
        x += 17.0 + width(text, NAME_SIZE) + 14.0;
    };
    let bars = [
        ("waiting, starting", colour::WAITING),
        ("training, running", colour::RUNNING),
        ("recovering", colour::RECOVERING),
        ("succeeded", colour::DONE),
        ("removed", colour::FAINT),
    ];
    for (text, fill) in bars {
        put(svg, text, &|svg, x| svg.bar((x - 6.0, y - 9.0), (12.0, 10.0), fill, text));
    }
    put(svg, "failed", &|svg, x| svg.cross((x, y - 4.0), "failed"));
    for mark in Mark::ALL.iter().filter(|mark| run.events.iter().any(|event| Mark::of(event) == Some(**mark))) {
        put(svg, mark.label(), &|svg, x| svg.pointer((x, y), mark.colour(), mark.label()));
    }
}

/// Draws the time axis at the bottom. Returns the height of the picture.
fn seconds(svg: &mut Svg, frame: &Frame, y: f64) -> f64 {
    svg.line((frame.left, y), (frame.right, y), colour::FAINT, "");
    for tick in frame.time.ticks(12) {
        let x = frame.time.position(tick.value);
        svg.line((x, y), (x, y + 5.0), colour::FAINT, "");
        svg.text((x, y + 18.0), 11.0, colour::INK, Anchor::Middle, &tick.text);
    }
    let middle = f64::midpoint(frame.left, frame.right);
    svg.text((middle, y + 36.0), 12.0, colour::FAINT, Anchor::Middle, "seconds since the start");
    y + 48.0
}

/// Draws faint vertical lines at the ticks of the time axis.
pub fn grid(svg: &mut Svg, frame: &Frame, from: f64, to: f64) {
    for tick in frame.time.ticks(12) {
        let x = frame.time.position(tick.value);
        svg.line((x, from), (x, to), colour::GRID, "");
    }
}
