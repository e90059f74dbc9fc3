//! The picture of a run: for each job what it did and a lane for every pod, and below them how large its world was and
//! how fast it went, all over the same seconds.

use super::axis::Axis;
use super::lanes::Mark;
use super::svg::{Anchor, Svg, colour, width};
use super::{Run, charts, lanes};
use crate::run::account::Account;

const WIDTH: f64 = 1100.0;
const RIGHT: f64 = 24.0;
/// The names of pods have at most this.
const WIDEST_NAMES: f64 = 260.0;
const NAME_SIZE: f64 = 11.0;
const TOP: f64 = 76.0;
const GAP: f64 = 26.0;

/// Where things stand from left to right.
pub struct Frame {
    /// Seconds.
    pub time: Axis,
    /// Where the lanes begin; names end a little before.
    pub left: f64,
    /// Where they end.
    pub right: f64,
    /// How large the names of lanes are written.
    pub name_size: f64,
}

/// The picture, as SVG.
pub fn draw(run: &Run) -> String {
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

fn title(svg: &mut Svg, run: &Run) {
    let told: Vec<String> = run.jobs.iter().map(|job| told(&job.account)).collect();
    let names: Vec<String> = run.jobs.iter().map(|job| job.view.key.name.to_string()).collect();
    let (left, room) = (20.0, WIDTH - 40.0);
    let named = format!("flexor run: {} ({:.1} s)", names.join(", "), run.at(run.to));
    svg.text((left, 26.0), 17.0, colour::INK, Anchor::Start, &super::svg::cut(&named, 17.0, room));
    let told = super::svg::cut(&told.join("; "), 12.0, room);
    svg.text((left, 44.0), 12.0, colour::FAINT, Anchor::Start, &told);
}

fn told(account: &Account) -> String {
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

/// What colours and signs mean, in a row.
fn legend(svg: &mut Svg, run: &Run, left: f64) {
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
        ("ended well", colour::DONE),
        ("taken away", colour::FAINT),
    ];
    for (text, fill) in bars {
        put(svg, text, &|svg, x| svg.bar((x - 6.0, y - 9.0), (12.0, 10.0), fill, text));
    }
    put(svg, "ended badly", &|svg, x| svg.cross((x, y - 4.0), "ended badly"));
    for mark in Mark::ALL.iter().filter(|mark| run.events.iter().any(|event| Mark::of(event) == Some(**mark))) {
        put(svg, mark.word(), &|svg, x| svg.pointer((x, y), mark.colour(), mark.word()));
    }
}

/// The seconds below everything. How high the picture is.
fn seconds(svg: &mut Svg, frame: &Frame, y: f64) -> f64 {
    svg.line((frame.left, y), (frame.right, y), colour::FAINT, "");
    for tick in frame.time.ticks(12) {
        let x = frame.time.place(tick.value);
        svg.line((x, y), (x, y + 5.0), colour::FAINT, "");
        svg.text((x, y + 18.0), 11.0, colour::INK, Anchor::Middle, &tick.text);
    }
    let middle = f64::midpoint(frame.left, frame.right);
    svg.text((middle, y + 36.0), 12.0, colour::FAINT, Anchor::Middle, "seconds since the start");
    y + 48.0
}

/// Faint lines at the seconds, behind a part of the picture.
pub fn grid(svg: &mut Svg, frame: &Frame, from: f64, to: f64) {
    for tick in frame.time.ticks(12) {
        let x = frame.time.place(tick.value);
        svg.line((x, from), (x, to), colour::GRID, "");
    }
}
