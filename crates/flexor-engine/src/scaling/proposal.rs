//! A proposed change, why it is proposed, and how it turned out.

use std::collections::BTreeMap;
use std::fmt;

use flexor_model::{MigratePod, Resources, RoleChange, RoleName};

use super::{Allotment, Bottleneck, Layout, Measurement, Sample};

/// A change for the controller to carry out.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    /// The number of its plan.
    pub number: u32,
    pub purpose: Purpose,
    /// Roles that change.
    pub roles: BTreeMap<RoleName, RoleChange>,
    /// Servers or workers that get a successor with other resources.
    pub migrate: Vec<MigratePod>,
    /// What changes, in a few words: `3 workers more`.
    pub change: String,
    pub evidence: Evidence,
    /// Expected batches per second; none where throughput is not the purpose.
    pub expected: Option<f64>,
}

/// What a change is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    Throughput,
    /// The same throughput at less cost.
    Savings,
    /// Pods are about to reach their memory limit.
    Memory,
    /// A change did harm and is taken back.
    TakeBack,
}

/// The measurement behind a change.
#[derive(Debug, Clone, PartialEq)]
pub enum Evidence {
    /// Throughput, and what limits it.
    Throughput { measured: Measurement, bottleneck: Bottleneck },
    /// A pod that fills its memory.
    Memory {
        pod: String,
        bytes: u64,
        limit: u64,
        /// Growth in bytes per second.
        growth: f64,
    },
    /// The result of the change that is taken back.
    Trial(TrialResult),
}

/// How a change turned out.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialResult {
    /// The number of its plan.
    pub number: u32,
    /// What was changed.
    pub change: String,
    /// Batches per second before it.
    pub before: f64,
    pub expected: f64,
    pub measured: f64,
    /// It did harm and is taken back.
    pub taken_back: bool,
}

impl Proposal {
    /// From the present layout to another one. The hot server is given by its position.
    pub(super) fn new(sample: &Sample, to: Layout, hot: Option<usize>, purpose: Purpose, evidence: Evidence) -> Self {
        let now = Layout::of(sample);
        let sizes = [(&sample.workers, to.workers, now.workers), (&sample.servers, to.servers, now.servers)];
        let changed = sizes.into_iter().filter(|(_, to, now)| to != now);
        let replicas = |to| RoleChange { replicas: Some(to), resources: Resources::default() };
        let hot = to.hot.zip(hot.and_then(|position| sample.measured_servers().get(position)));
        let migration = hot.map(|(millicores, pod)| MigratePod {
            pod: pod.name.clone(),
            resources: Allotment { millicores, ..pod.allotment }.resources(),
        });
        let mut change = differences(now, to);
        change.extend(migration.iter().map(|m| format!("{} with {}", m.pod.as_str(), m.resources)));
        Self {
            number: sample.next_number(),
            purpose,
            roles: changed.map(|(role, to, _)| (role.name.clone(), replicas(to))).collect(),
            migrate: migration.into_iter().collect(),
            change: change.join(", "),
            evidence,
            expected: None,
        }
    }

    /// Why it is proposed, in one line.
    pub fn reason(&self) -> String {
        match (&self.evidence, self.expected) {
            (Evidence::Throughput { measured, .. }, Some(expected)) => {
                format!("{}: {} → {} expected; {}", self.change, pace(measured.rate), steps(expected), self.evidence)
            }
            _ => format!("{}: {}", self.change, self.evidence),
        }
    }
}

impl Sample {
    /// The number of the next automatic plan.
    pub(super) fn next_number(&self) -> u32 {
        self.plan.map_or(0, |plan| plan.number.saturating_add(1))
    }
}

/// What differs between the sizes of two layouts.
pub(super) fn differences(from: Layout, to: Layout) -> Vec<String> {
    let difference = |from: u32, to: u32, one: &str| {
        let count = to.abs_diff(from);
        let plural = if count == 1 { "" } else { "s" };
        (count > 0).then(|| format!("{count} {one}{plural} {}", if to > from { "more" } else { "fewer" }))
    };
    let workers = difference(from.workers, to.workers, "worker");
    workers.into_iter().chain(difference(from.servers, to.servers, "server")).collect()
}

/// A throughput without its unit.
fn pace(rate: f64) -> String {
    if rate < 10.0 { format!("{rate:.1}") } else { format!("{rate:.0}") }
}

fn steps(rate: f64) -> String {
    format!("{} steps/s", pace(rate))
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Throughput { measured, bottleneck } => {
                let Measurement { rate, error, length, .. } = measured;
                let (pace, percent, seconds) = (steps(*rate), 100.0 * error, length.as_secs_f64());
                write!(f, "{bottleneck}; measured {pace} ± {percent:.0} % over {seconds:.0} s")?;
                let is_blind = measured.server_cores.is_empty();
                if is_blind { f.write_str("; the servers report no load, so only workers are sized") } else { Ok(()) }
            }
            Self::Memory { pod, bytes, limit, growth } => {
                let (used, limit, growth) = (mebibytes(*bytes), mebibytes(*limit), growth / MEBIBYTE);
                write!(f, "{pod} uses {used:.0}Mi of {limit:.0}Mi memory and grows by {growth:.1}Mi a second")
            }
            Self::Trial(result) => write!(f, "{result}"),
        }
    }
}

impl fmt::Display for TrialResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { change, before, expected, measured, taken_back, .. } = self;
        let end = if *taken_back { "; taken back" } else { "" };
        write!(f, "{change}: {} → {} expected, {} measured{end}", pace(*before), steps(*expected), pace(*measured))
    }
}

const MEBIBYTE: f64 = 1024.0 * 1024.0;

#[expect(clippy::cast_precision_loss, reason = "a size for people to read")]
fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / MEBIBYTE
}
