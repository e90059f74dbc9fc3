//! The figures of many runs.

use std::fmt::Write as _;

use super::run::Run;
use crate::scaling::Purpose;

/// A job is slower below this part of its throughput before.
const SLOWER: f64 = 0.97;

/// What is published of the runs of a policy.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures {
    pub jobs: usize,
    /// Seconds to 90 % of the best; a job that never reaches it counts as infinitely slow.
    pub median_seconds: f64,
    pub p90_seconds: f64,
    pub never: usize,
    /// Throughput at rest, as a part of the best.
    pub median_rest: f64,
    pub p5_rest: f64,
    pub changes: usize,
    pub most_changes: usize,
    /// Changes after which the job was slower, those that make room for memory excepted.
    pub slower: usize,
    /// Those of them that were kept.
    pub slower_kept: usize,
    /// Jobs of which a server was killed because it exceeded its memory.
    pub oom_jobs: usize,
    pub over_ceiling: usize,
}

impl Figures {
    /// Of some runs.
    pub fn of(runs: &[Run]) -> Self {
        let seconds = runs.iter().map(|run| run.seconds_to_90.map_or(f64::INFINITY, |seconds| seconds as f64));
        let (seconds, rest) = (sorted(seconds), sorted(runs.iter().map(|run| run.at_rest)));
        let (mut slower, mut slower_kept) = (0, 0);
        for run in runs {
            for (position, change) in run.changes.iter().enumerate() {
                let is_for_speed = !matches!(change.purpose, Some(Purpose::Memory | Purpose::TakeBack));
                if is_for_speed && run.effect(change).is_some_and(|effect| effect < SLOWER) {
                    slower += 1;
                    let next = run.changes.get(position + 1);
                    slower_kept += usize::from(next.is_none_or(|next| next.purpose != Some(Purpose::TakeBack)));
                }
            }
        }
        Self {
            jobs: runs.len(),
            median_seconds: percentile(&seconds, 0.5),
            p90_seconds: percentile(&seconds, 0.9),
            never: seconds.iter().filter(|seconds| seconds.is_infinite()).count(),
            median_rest: percentile(&rest, 0.5),
            p5_rest: percentile(&rest, 0.05),
            changes: runs.iter().map(|run| run.changes.len()).sum(),
            most_changes: runs.iter().map(|run| run.changes.len()).max().unwrap_or(0),
            slower,
            slower_kept,
            oom_jobs: runs.iter().filter(|run| run.oom_kills > 0).count(),
            over_ceiling: runs.iter().filter(|run| run.exceeds_ceiling).count(),
        }
    }
}

/// Both policies side by side, as Markdown.
pub fn table(dlrover: &Figures, flexor: &Figures) -> String {
    let mut text = String::from("| what | DLRover's rules | Flexor |\n|---|---|---|\n");
    let mut row = |what: &str, of: &dyn Fn(&Figures) -> String| {
        let _ = writeln!(text, "| {what} | {} | {} |", of(dlrover), of(flexor));
    };
    row("seconds to 90 % of the best, median / p90 (never)", &|f| {
        format!("{:.0} / {:.0} ({} of {})", f.median_seconds, f.p90_seconds, f.never, f.jobs)
    });
    row("throughput at rest, of the best, median / p5", &|f| {
        format!("{:.0} % / {:.0} %", 100.0 * f.median_rest, 100.0 * f.p5_rest)
    });
    row("changes after which the job was slower (kept)", &|f| {
        format!("{} of {} ({})", f.slower, f.changes, f.slower_kept)
    });
    row("jobs with a server that ran out of memory", &|f| f.oom_jobs.to_string());
    row("most changes of a job", &|f| f.most_changes.to_string());
    row("jobs above their ceiling", &|f| f.over_ceiling.to_string());
    text
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

fn percentile(sorted: &[f64], part: f64) -> f64 {
    let position = (part * (sorted.len().max(1) - 1) as f64).round() as usize;
    sorted.get(position).copied().unwrap_or(f64::NAN)
}
