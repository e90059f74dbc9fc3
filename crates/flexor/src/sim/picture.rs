//! A picture of the runs of an experiment: a line for each.

use flexor_sched::sim::{Report, Sample};

use crate::picture::axis::{self, Axis};
use crate::picture::svg::{Anchor, Svg, colour, width};

const WIDTH: f64 = 900.0;
const LEFT: f64 = 130.0;
const RIGHT: f64 = WIDTH - 20.0;
const HEIGHT: f64 = 110.0;
const GAP: f64 = 34.0;
const TOP: f64 = 44.0;
const TICKS: u32 = 4;

/// A chart: its name, and the value of a sample. Charts without a value above 0 are left out.
type Chart = (&'static str, fn(&Report, &Sample) -> f64);

const CHARTS: [Chart; 4] = [
    ("CPU, %", |run, sample| 100.0 * thousandths(sample.cpu) / thousandths(run.total)),
    ("trainers", |_, sample| f64::from(sample.trainers.iter().sum::<u32>())),
    ("pending jobs", |_, sample| f64::from(sample.pending_jobs)),
    ("Nginx pods", |_, sample| f64::from(sample.online_running)),
];

#[expect(clippy::cast_precision_loss, reason = "a picture needs four digits")]
fn thousandths(cpu: u64) -> f64 {
    cpu as f64
}

/// The picture of runs, each with its name.
pub fn of(runs: &[(&str, &Report)]) -> String {
    let mut svg = Svg::new(WIDTH);
    legend(&mut svg, runs);
    let last = runs.iter().filter_map(|(_, run)| run.samples.last()).map(|sample| sample.second).max().unwrap_or(0);
    let time = Axis::new(f64::from(last), LEFT, RIGHT);
    let mut top = TOP;
    for (name, value) in CHARTS {
        let of_run = |run: &Report| run.samples.iter().map(|sample| value(run, sample)).collect::<Vec<_>>();
        let most = runs.iter().flat_map(|(_, run)| of_run(run)).fold(0.0, f64::max);
        if most == 0.0 {
            continue;
        }
        let values = Axis::new(axis::round_end(most, TICKS), top + HEIGHT, top);
        for tick in values.ticks(TICKS) {
            let y = values.position(tick.value);
            svg.line((LEFT, y), (RIGHT, y), colour::GRID, "");
            svg.text((LEFT - 10.0, y + 4.0), 11.0, colour::INK, Anchor::End, &tick.text);
        }
        svg.text((14.0, top + 4.0), 12.0, colour::INK, Anchor::Start, name);
        for ((_, run), stroke) in runs.iter().zip(colour::OF_JOBS) {
            let at = |sample: &Sample| time.position(f64::from(sample.second));
            let points: Vec<(f64, f64)> =
                run.samples.iter().map(|sample| (at(sample), values.position(value(run, sample)))).collect();
            svg.path(&points, stroke);
        }
        top += HEIGHT + GAP;
    }
    let bottom = top - GAP;
    for tick in time.ticks(10) {
        let x = time.position(tick.value);
        svg.text((x, bottom + 16.0), 11.0, colour::INK, Anchor::Middle, &format!("{} s", tick.text));
    }
    svg.finish(bottom + 30.0)
}

fn legend(svg: &mut Svg, runs: &[(&str, &Report)]) {
    let mut x = LEFT;
    for ((name, _), stroke) in runs.iter().zip(colour::OF_JOBS) {
        svg.path(&[(x, 18.0), (x + 18.0, 18.0)], stroke);
        svg.text((x + 24.0, 22.0), 12.0, colour::INK, Anchor::Start, name);
        x += 24.0 + width(name, 12.0) + 20.0;
    }
}
