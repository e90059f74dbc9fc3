//! What was measured at other sizes while the load was the same. It corrects the model where the model is wrong.
//!
//! A model that fits the present size may be wrong elsewhere: work that workers prolong for each other, for instance, is
//! no queue. The excess is how much longer a cycle was measured than the model says. Between two measured sizes it is
//! taken to grow with the square of the number of workers, as queueing and contention do.

use std::time::Duration;

use super::model::QueueingModel;
use super::{Allotment, Layout, Measurement, Sample};

/// The same sizes with a throughput that differs by more have another load.
const OTHER_LOAD: f64 = 0.15;
/// A longer window does not make a point better.
const LONG: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy)]
struct Point {
    layout: Layout,
    /// The CPU of all servers in thousandths of a core: a migration changes it.
    server_cpu: u64,
    rate: f64,
    length: Duration,
}

/// The measured sizes, the latest last.
#[derive(Debug, Default)]
pub(super) struct History(Vec<Point>);

/// Seconds by which a cycle is longer than the model says, by the number of workers.
#[derive(Debug, Default)]
pub(super) struct Excess(Vec<(f64, f64)>);

impl History {
    /// Takes a measurement. Returns whether the load is another one than before.
    pub(super) fn take(&mut self, measured: &Measurement, sample: &Sample) -> bool {
        let servers = sample.measured_servers().iter().map(|pod| pod.allotment);
        let server_cpu = servers.fold(Allotment::default(), Allotment::plus).millicores;
        let point = Point { layout: Layout::of(sample), server_cpu, rate: measured.rate, length: measured.length };
        let is_same = |known: &&Point| known.layout == point.layout && known.server_cpu == server_cpu;
        let Some(known) = self.0.iter().find(is_same).copied() else {
            self.0.push(point);
            return false;
        };
        let is_other_load = (point.rate / known.rate).ln().abs() > OTHER_LOAD + 2.0 * measured.error;
        if is_other_load {
            self.0.clear();
        }
        // Once a point is good it stays, so that a load that changes slowly is noticed too.
        let is_better = is_other_load || known.length < LONG;
        if is_better {
            self.0.retain(|known| !is_same(&known));
            self.0.push(point);
        }
        is_other_load
    }

    /// How far a model that fits the present size is off at the others.
    pub(super) fn excess(&self, model: &QueueingModel, sample: &Sample) -> Excess {
        let now = Layout::of(sample);
        let workers = |layout: Layout| f64::from(layout.workers + sample.chiefs());
        let mut points = vec![(workers(now), 0.0)];
        for point in self.0.iter().rev() {
            let count = workers(point.layout);
            if points.iter().all(|(other, _)| *other != count) {
                points.push((count, count / point.rate - count / model.rate_of(point.layout)));
            }
        }
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Excess(points)
    }
}

impl Excess {
    /// A predicted throughput of so many workers, chiefs included, corrected.
    pub(super) fn correct(&self, workers: f64, rate: f64) -> f64 {
        if rate > 0.0 { workers / (workers / rate + self.at(workers)).max(0.5 * workers / rate) } else { 0.0 }
    }

    fn at(&self, workers: f64) -> f64 {
        let above = self.0.partition_point(|(count, _)| *count < workers);
        match (above.checked_sub(1).and_then(|below| self.0.get(below)), self.0.get(above)) {
            (Some((few, low)), Some((many, high))) => {
                let part = (workers - few) / (many - few);
                let left = if *low > 0.0 { 1.0 - part.powi(2) } else { (1.0 - part).powi(2) };
                high * part.powi(2) + low * left
            }
            (Some((few, excess)), None) => excess * (workers / few),
            (None, Some((_, excess))) => *excess,
            (None, None) => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prediction_meets_what_was_measured() {
        // One worker does 10 batches a second. Four did 20: a cycle of 200 ms instead of 100.
        let excess = Excess(vec![(1.0, 0.0), (4.0, 0.1)]);
        assert!((excess.correct(1.0, 10.0) - 10.0).abs() < 1e-9);
        assert!((excess.correct(4.0, 40.0) - 20.0).abs() < 1e-9);
        assert!(excess.correct(2.0, 20.0) > 15.0, "a little contention between them");
        assert!((excess.correct(8.0, 80.0) - 80.0 / 3.0).abs() < 1e-9, "more of it above them");
    }
}
