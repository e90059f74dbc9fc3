//! Below the lanes: how large the world was, how fast training went and how well, and how busy parameter servers were; a
//! line for each job.

use flexor_local::cluster::TrainingStatus;

use super::axis::{self, Axis, Tick};
use super::svg::{Anchor, Svg, colour, width};
use super::timeline::{Frame, grid};
use super::{JobRun, Run};

const HEIGHT: f64 = 96.0;
const GAP: f64 = 34.0;
const TICKS: u32 = 4;
/// What is known for a smaller part of the time than this, such as what is measured once at the end, makes no line.
const LEAST_LINE: f64 = 0.02;

/// Points of one job, in seconds and whatever is drawn.
type Series = Vec<(f64, f64)>;

/// What is drawn over time.
struct Chart {
    name: &'static str,
    series: Vec<Series>,
    shape: Shape,
}

/// How values are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// Whole numbers, each of which holds until the next one.
    Steps,
    /// From 0 on.
    Line,
    /// What changes little: from about the least on.
    Near,
}

/// Draws the charts that there is something to say in. Where they end.
pub fn draw(svg: &mut Svg, run: &Run, frame: &Frame, top: f64) -> f64 {
    let of_each = |of: &dyn Fn(&JobRun) -> Series| run.jobs.iter().map(of).collect::<Vec<_>>();
    let paced = |pace: fn(&TrainingStatus) -> Option<f64>| {
        of_each(&|job| {
            let points = job.samples.iter().map(|sample| (run.at(sample.at), pace(&sample.training)));
            points.filter_map(|(at, pace)| Some((at, pace?))).collect()
        })
    };
    let charts = [
        Chart { name: "nodes", series: of_each(&|job| nodes(run, job)), shape: Shape::Steps },
        Chart { name: "steps/s", series: paced(|training| training.steps_per_second), shape: Shape::Line },
        Chart { name: "records/s", series: paced(|training| training.records_per_second), shape: Shape::Line },
        Chart { name: "loss", series: paced(|training| training.learning?.training.loss), shape: Shape::Near },
        Chart { name: "AUC, other data", series: paced(|training| training.learning?.test.auc), shape: Shape::Near },
        Chart { name: "busiest ps, CPUs", series: paced(busiest), shape: Shape::Line },
    ];
    let mut y = top;
    let mut is_first = true;
    let is_seen = |series: &Series| lasts(series) > run.at(run.to) * LEAST_LINE;
    for chart in charts.iter().filter(|chart| chart.series.iter().any(is_seen)) {
        if !is_first {
            y += GAP;
        }
        is_first = false;
        one(svg, run, frame, chart, y);
        y += HEIGHT;
    }
    y
}

/// From its first point to its last.
fn lasts(series: &Series) -> f64 {
    let at = |point: Option<&(f64, f64)>| point.map_or(0.0, |(at, _)| *at);
    at(series.last()) - at(series.first())
}

/// How many processors the busiest parameter server uses.
fn busiest(training: &TrainingStatus) -> Option<f64> {
    let cpus = training.servers.as_ref()?.each.iter().filter_map(|server| server.cpus);
    cpus.max_by(f64::total_cmp)
}

/// How many nodes a job had; two points for each span.
fn nodes(run: &Run, job: &JobRun) -> Series {
    let spans = job.view.timeline.spans.iter();
    spans
        .flat_map(|span| [span.from, span.to.unwrap_or(run.to)].map(|at| (run.at(at), f64::from(span.nodes))))
        .collect()
}

fn one(svg: &mut Svg, run: &Run, frame: &Frame, chart: &Chart, top: f64) {
    let drawn = || chart.series.iter().flatten().map(|(_, value)| *value);
    let most = drawn().fold(0.0, f64::max);
    let (bottom, ceiling) = (top + HEIGHT, top + 6.0);
    let values = match chart.shape {
        Shape::Steps => Axis::new(axis::round_end(most.max(1.0), TICKS).ceil(), bottom, ceiling),
        Shape::Line => Axis::new(axis::round_end(most, TICKS), bottom, ceiling),
        Shape::Near => Axis::near(drawn().fold(most, f64::min), most, TICKS, (bottom, ceiling)),
    };
    grid(svg, frame, top, top + HEIGHT);
    let whole = |tick: &Tick| chart.shape != Shape::Steps || tick.value.fract() == 0.0;
    for tick in values.ticks(TICKS).into_iter().filter(whole) {
        let y = values.place(tick.value);
        svg.line((frame.left, y), (frame.right, y), colour::GRID, "");
        svg.text((frame.left - 10.0, y + 4.0), 11.0, colour::INK, Anchor::End, &tick.text);
    }
    svg.text((20.0, top + 4.0), 12.0, colour::INK, Anchor::Start, chart.name);
    for (series, stroke) in chart.series.iter().zip(colour::OF_JOBS.iter().cycle()) {
        let points: Series = series.iter().map(|(at, value)| (frame.time.place(*at), values.place(*value))).collect();
        svg.path(&points, stroke);
    }
    if run.jobs.len() > 1 {
        names(svg, run, frame, top - 6.0);
    }
}

/// Whose line is whose, in a row above the chart that ends at the right.
fn names(svg: &mut Svg, run: &Run, frame: &Frame, y: f64) {
    let mut x = frame.right;
    let jobs: Vec<_> = run.jobs.iter().zip(colour::OF_JOBS.iter().cycle()).collect();
    for (job, stroke) in jobs.into_iter().rev() {
        let name = job.view.key.name.to_string();
        let room = width(&name, 11.0) + 30.0;
        // More names than have room can be told from the lanes.
        if x - room < frame.left {
            break;
        }
        svg.text((x, y), 11.0, colour::INK, Anchor::End, &name);
        x -= width(&name, 11.0) + 6.0;
        svg.path(&[(x - 14.0, y - 4.0), (x, y - 4.0)], stroke);
        x -= 24.0;
    }
}
