//! The charts below the lanes: size of the world, rates, scores, and load of parameter servers, with one line per job.

use flexor_local::cluster::TrainingStatus;

use super::timeline::{Frame, grid};
use super::{JobRun, RunRecord};
use crate::picture::axis::{self, Axis, Tick};
use crate::picture::svg::{Anchor, Svg, colour, width};

const HEIGHT: f64 = 96.0;
const GAP: f64 = 34.0;
const TICKS: u32 = 4;
/// A chart is drawn only if a line covers at least this share of the time. A single test at the end makes no chart.
const LEAST_COVERAGE: f64 = 0.02;

/// Points of one job: seconds and values.
type Series = Vec<(f64, f64)>;

struct Chart {
    name: &'static str,
    series: Vec<Series>,
    shape: Shape,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// Whole numbers, each valid until the next one.
    Steps,
    /// Values on an axis that starts at 0.
    Line,
    /// Values that change little, on an axis that starts near the least.
    Zoomed,
}

/// Draws all charts that have data. Returns the y coordinate of their end.
pub fn draw(svg: &mut Svg, run: &RunRecord, frame: &Frame, top: f64) -> f64 {
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
        Chart { name: "loss", series: paced(|training| training.learning?.training.loss), shape: Shape::Zoomed },
        Chart { name: "AUC, test data", series: paced(|training| training.learning?.test.auc), shape: Shape::Zoomed },
        Chart { name: "busiest ps, CPUs", series: paced(busiest), shape: Shape::Line },
    ];
    let mut y = top;
    let mut is_first = true;
    let is_visible = |series: &Series| duration(series) > run.at(run.to) * LEAST_COVERAGE;
    for chart in charts.iter().filter(|chart| chart.series.iter().any(is_visible)) {
        if !is_first {
            y += GAP;
        }
        is_first = false;
        draw_one(svg, run, frame, chart, y);
        y += HEIGHT;
    }
    y
}

/// Seconds from the first point to the last.
fn duration(series: &Series) -> f64 {
    let at = |point: Option<&(f64, f64)>| point.map_or(0.0, |(at, _)| *at);
    at(series.last()) - at(series.first())
}

/// CPUs in use on the busiest parameter server.
fn busiest(training: &TrainingStatus) -> Option<f64> {
    let cpus = training.servers.as_ref()?.each.iter().filter_map(|server| server.cpus);
    cpus.max_by(f64::total_cmp)
}

/// Number of nodes of a job, with two points per span.
fn nodes(run: &RunRecord, job: &JobRun) -> Series {
    let spans = job.view.timeline.spans.iter();
    spans
        .flat_map(|span| [span.from, span.to.unwrap_or(run.to)].map(|at| (run.at(at), f64::from(span.nodes))))
        .collect()
}

fn draw_one(svg: &mut Svg, run: &RunRecord, frame: &Frame, chart: &Chart, top: f64) {
    let drawn = || chart.series.iter().flatten().map(|(_, value)| *value);
    let most = drawn().fold(0.0, f64::max);
    let (bottom, ceiling) = (top + HEIGHT, top + 6.0);
    let values = match chart.shape {
        Shape::Steps => Axis::new(axis::round_end(most.max(1.0), TICKS).ceil(), bottom, ceiling),
        Shape::Line => Axis::new(axis::round_end(most, TICKS), bottom, ceiling),
        Shape::Zoomed => Axis::zoomed(drawn().fold(most, f64::min), most, TICKS, (bottom, ceiling)),
    };
    grid(svg, frame, top, top + HEIGHT);
    let whole = |tick: &Tick| chart.shape != Shape::Steps || tick.value.fract() == 0.0;
    for tick in values.ticks(TICKS).into_iter().filter(whole) {
        let y = values.position(tick.value);
        svg.line((frame.left, y), (frame.right, y), colour::GRID, "");
        svg.text((frame.left - 10.0, y + 4.0), 11.0, colour::INK, Anchor::End, &tick.text);
    }
    svg.text((20.0, top + 4.0), 12.0, colour::INK, Anchor::Start, chart.name);
    for (series, stroke) in chart.series.iter().zip(colour::OF_JOBS.iter().cycle()) {
        let points: Series =
            series.iter().map(|(at, value)| (frame.time.position(*at), values.position(*value))).collect();
        svg.path(&points, stroke);
    }
    if run.jobs.len() > 1 {
        names(svg, run, frame, top - 6.0);
    }
}

/// Draws the names of the jobs in the colours of their lines, in a right-aligned row above a chart.
fn names(svg: &mut Svg, run: &RunRecord, frame: &Frame, y: f64) {
    let mut x = frame.right;
    let jobs: Vec<_> = run.jobs.iter().zip(colour::OF_JOBS.iter().cycle()).collect();
    for (job, stroke) in jobs.into_iter().rev() {
        let name = job.view.key.name.to_string();
        let room = width(&name, 11.0) + 30.0;
        // The lanes name the jobs that have no room here.
        if x - room < frame.left {
            break;
        }
        svg.text((x, y), 11.0, colour::INK, Anchor::End, &name);
        x -= width(&name, 11.0) + 6.0;
        svg.path(&[(x - 14.0, y - 4.0), (x, y - 4.0)], stroke);
        x -= 24.0;
    }
}
