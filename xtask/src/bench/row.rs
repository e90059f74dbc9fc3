//! One measured quantity of a race: ours, the peer's, and their ratio.

use std::fmt;

use anyhow::{Context, Result};
use serde::Serialize;

/// One row of a result file. Values are medians, `…_max` the worst of the repeats.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Row {
    metric: String,
    unit: &'static str,
    ours: f64,
    ours_max: f64,
    peer: f64,
    peer_max: f64,
    peer_name: String,
    peer_source: PeerSource,
    /// Above 1 when ours is better.
    ratio: f64,
    repeats: usize,
    /// The target: a ratio, or for an absolute mark the value itself.
    target: f64,
    met: bool,
    /// The machine's load when the race ended: a number from a busy machine is to be read with care.
    load1: f64,
}

/// The origin of the peer's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum PeerSource {
    /// Measured in the same run, on the same machine.
    Measured,
    /// Published by its authors, or measured elsewhere: it gives no ratio.
    Published,
    /// There is none; its numbers are `null`.
    None,
}

impl Row {
    /// A race in time, the shorter the better, won with this ratio.
    pub(super) fn seconds(metric: &str, ours: &[f64], peer_name: &str, peer: &[f64], target: f64) -> Result<Row> {
        let row = Row::timed(metric, ours, peer_name, peer, target)?;
        Ok(Row { met: row.ratio >= target, ..row })
    }

    /// A race in time, won within this many seconds whatever the peer takes. An infinite time (`null` in the file) is
    /// one that was not waited for.
    pub(super) fn seconds_within(metric: &str, ours: &[f64], peer_name: &str, peer: &[f64], mark: f64) -> Result<Row> {
        let row = Row::timed(metric, ours, peer_name, peer, mark)?;
        Ok(Row { met: row.ours <= mark, ..row })
    }

    /// A race in cost, the less the better, won with this ratio.
    pub(super) fn cost(
        metric: &str,
        unit: &'static str,
        ours: &[f64],
        peer_name: &str,
        peer: &[f64],
        target: f64,
    ) -> Result<Row> {
        let row = Row { unit, ..Row::timed(metric, ours, peer_name, peer, target)? };
        Ok(Row { met: row.ratio >= target, ..row })
    }

    /// A race in cost, won within this mark whatever the peer's cost.
    pub(super) fn cost_within(
        metric: &str,
        unit: &'static str,
        ours: &[f64],
        peer_name: &str,
        peer: &[f64],
        mark: f64,
    ) -> Result<Row> {
        let row = Row { unit, ..Row::timed(metric, ours, peer_name, peer, mark)? };
        Ok(Row { met: row.ours <= mark, ..row })
    }

    /// A race in throughput, the more the better, won with this ratio.
    pub(super) fn rate(
        metric: &str,
        unit: &'static str,
        ours: &[f64],
        peer_name: &str,
        peer: &[f64],
        target: f64,
    ) -> Result<Row> {
        let row = Row::timed(metric, ours, peer_name, peer, target)?;
        let lowest = |samples: &[f64]| samples.iter().copied().fold(f64::INFINITY, f64::min);
        let (ours_max, peer_max, ratio) = (lowest(ours), lowest(peer), row.ours / row.peer);
        Ok(Row { unit, ours_max, peer_max, ratio, met: ratio >= target, ..row })
    }

    /// A race in throughput, won with this much whatever the peer's.
    pub(super) fn rate_at_least(
        metric: &str,
        unit: &'static str,
        ours: &[f64],
        peer_name: &str,
        peer: &[f64],
        mark: f64,
    ) -> Result<Row> {
        let row = Row::rate(metric, unit, ours, peer_name, peer, mark)?;
        Ok(Row { met: row.ours >= mark, ..row })
    }

    /// The same with a peer whose numbers are published.
    pub(super) fn beside_published(self) -> Row {
        Row { ratio: f64::NAN, peer_source: PeerSource::Published, ..self }
    }

    /// A measurement without a peer, won within this mark.
    pub(super) fn within(metric: &str, unit: &'static str, ours: &[f64], mark: f64) -> Result<Row> {
        let nobody = [f64::NAN];
        let row = Row { unit, ..Row::timed(metric, ours, "", &nobody, mark)? };
        Ok(Row { met: row.ours <= mark, peer_source: PeerSource::None, ..row })
    }

    /// Beside a published number: no target and no ratio.
    pub(super) fn published(
        metric: &str,
        unit: &'static str,
        ours: &[f64],
        peer_name: &str,
        published: f64,
    ) -> Result<Row> {
        let row = Row { unit, ..Row::timed(metric, ours, peer_name, &[published], f64::NAN)? };
        Ok(Row { ratio: f64::NAN, met: row.ours <= published, peer_source: PeerSource::Published, ..row })
    }

    /// The same without a target: for information only.
    pub(super) fn for_information(self) -> Row {
        Row { target: f64::NAN, met: true, ..self }
    }

    fn timed(metric: &str, ours: &[f64], peer_name: &str, peer: &[f64], target: f64) -> Result<Row> {
        let (ours_median, peer_median) = (median(ours)?, median(peer)?);
        Ok(Row {
            metric: metric.to_owned(),
            unit: "s",
            ours: ours_median,
            ours_max: ours.iter().copied().fold(0.0, f64::max),
            peer: peer_median,
            peer_max: peer.iter().copied().fold(0.0, f64::max),
            peer_name: peer_name.to_owned(),
            peer_source: PeerSource::Measured,
            ratio: peer_median / ours_median,
            repeats: ours.len(),
            target,
            met: false,
            load1: load()?,
        })
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = self.unit;
        writeln!(f, "{} ({} repeats, load {:.1})", self.metric, self.repeats, self.load1)?;
        writeln!(f, "  {:<24} {:>9} {:>9}", "", "median", "worst")?;
        let digits = if self.ours.min(self.peer) < 0.01 { 6 } else { 3 };
        writeln!(f, "  {:<24} {:>9.digits$} {:>9.digits$} {unit}", "flexor", self.ours, self.ours_max)?;
        let met = if self.met { "met" } else { "NOT met" };
        let target_digits = if self.target < 1.0 { 3 } else { 1 };
        let target = if self.target.is_nan() {
            "nothing to reach".to_owned()
        } else {
            format!("target {:.target_digits$}: {met}", self.target)
        };
        if self.peer_source == PeerSource::None {
            return write!(f, "  ({target})");
        }
        if self.peer_source == PeerSource::Published {
            return write!(f, "  {:<24} {:>9.digits$} {unit}, as published", self.peer_name, self.peer);
        }
        writeln!(f, "  {:<24} {:>9.digits$} {:>9.digits$} {unit}", self.peer_name, self.peer, self.peer_max)?;
        write!(f, "  ratio {:.1} ({target})", self.ratio)
    }
}

fn median(samples: &[f64]) -> Result<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = (sorted.len().saturating_sub(1) / 2, sorted.len() / 2);
    let middle = sorted.get(low).zip(sorted.get(high)).context("a race without a single sample")?;
    Ok(f64::midpoint(*middle.0, *middle.1))
}

fn load() -> Result<f64> {
    let text = std::fs::read_to_string("/proc/loadavg").context("cannot read /proc/loadavg")?;
    text.split_whitespace().next().and_then(|word| word.parse().ok()).context("/proc/loadavg holds no number")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_race_is_judged_by_medians() {
        let row = Row::seconds("m", &[0.1, 9.0, 0.2], "kubectl", &[1.0, 3.0], 5.0).unwrap();
        assert_eq!((row.ours, row.ours_max, row.peer, row.peer_max), (0.2, 9.0, 2.0, 3.0));
        assert_eq!((row.ratio, row.met, row.repeats), (10.0, true, 3));
        assert!(!Row::seconds("m", &[1.0], "kubectl", &[1.0], 5.0).unwrap().met);
        assert!(Row::seconds("m", &[], "kubectl", &[1.0], 5.0).is_err());
    }

    #[test]
    fn a_mark_is_kept_whatever_the_peer_takes() {
        let never = [f64::INFINITY];
        assert!(Row::seconds_within("m", &[3.9], "torchrun", &never, 4.0).unwrap().met);
        assert!(!Row::seconds_within("m", &never, "torchrun", &[44.7], 4.0).unwrap().met);
        let row = Row::seconds_within("m", &[3.9], "torchrun", &never, 4.0).unwrap();
        assert!(serde_json::to_value(row).unwrap()["peer"].is_null());
    }

    #[test]
    fn more_messages_are_better_and_the_worst_repeat_is_the_slowest() {
        let row = Row::rate("m", "messages/s", &[200.0, 100.0, 300.0], "peer", &[10.0, 5.0], 20.0).unwrap();
        assert_eq!((row.ours, row.ours_max, row.peer, row.peer_max), (200.0, 100.0, 7.5, 5.0));
        assert!(row.met && row.ratio > 26.0);
    }

    #[test]
    fn the_result_file_has_the_agreed_fields() {
        let row = Row::seconds("m", &[1.0], "kubectl", &[1.0], 1.0).unwrap();
        let json = serde_json::to_value(row).unwrap();
        let fields: Vec<_> = json.as_object().unwrap().keys().map(String::as_str).collect();
        let agreed = "metric unit ours ours_max peer peer_max peer_name peer_source ratio repeats target met load1";
        assert_eq!(fields.join(" "), agreed);
        assert_eq!(json["peer_source"], "measured");
    }
}
