//! The faults that a seed stands for.
//!
//! A pure function of its arguments: the same list on every machine and in every version. Otherwise a seed that a user
//! noted down would stand for other faults.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use flexor_model::{Job, Program, Rank, RoleKind, RoleName};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::fault::{Fault, ScheduledFault, SlotRef};
use super::random::Random;
use crate::cluster::JobKey;

/// How far a clock may jump, in milliseconds.
const JUMPS: [i64; 4] = [1_000, 30_000, 600_000, 3_600_000];
/// By how much an fsync may be late, in milliseconds.
const DELAYS: [u64; 3] = [50, 200, 1_000];

/// Faults per second, on average.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Rate(f64);

/// Why a number is no rate.
#[derive(Debug, Clone, PartialEq, Error)]
#[error("{0} is no rate: write faults per second, from 0.001 to 100, such as 0.2")]
pub struct RateError(String);

/// The pods of a role, as targets of faults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultTarget {
    pub job: JobKey,
    pub role: RoleName,
    /// At the start.
    pub replicas: u32,
    /// The role is the job's `flexor master`.
    pub is_master: bool,
    pub has_sidecar: bool,
    /// Its pods hold parameters without a copy: they are stopped for a moment at most.
    pub is_spared: bool,
}

/// The kinds of faults; [`WEIGHTS`] says how often each is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Kill,
    KillSupervisor,
    KillSidecar,
    Stop,
    Pause,
    Delete,
    FillDisk,
    SlowDisk,
    JumpClock,
    FailWrites,
}

const WEIGHTS: [(Kind, u64); 10] = [
    (Kind::Kill, 24),
    (Kind::KillSupervisor, 10),
    (Kind::KillSidecar, 10),
    (Kind::Stop, 8),
    (Kind::Pause, 12),
    (Kind::Delete, 8),
    (Kind::FillDisk, 8),
    (Kind::SlowDisk, 6),
    (Kind::JumpClock, 8),
    (Kind::FailWrites, 6),
];

/// The faults that `seed` stands for, in order of time, all before `horizon`.
#[must_use]
pub fn plan(seed: u64, rate: Rate, targets: &[FaultTarget], horizon: Duration) -> Vec<ScheduledFault> {
    let targets: Vec<&FaultTarget> = targets.iter().filter(|target| target.replicas > 0).collect();
    let mut draw = Draw { random: Random::new(seed), targets: &targets };
    let horizon = u64::try_from(horizon.as_millis()).unwrap_or(u64::MAX);
    let mut faults = Vec::new();
    let mut at_ms = 0;
    loop {
        at_ms += draw.random.between(1, rate.longest_gap_ms());
        if at_ms >= horizon {
            return faults;
        }
        let kind = draw.kind();
        faults.extend(draw.fault(kind).map(|fault| ScheduledFault { at_ms, fault }));
    }
}

struct Draw<'a> {
    random: Random,
    targets: &'a [&'a FaultTarget],
}

impl Draw<'_> {
    fn kind(&mut self) -> Kind {
        let all: u64 = WEIGHTS.iter().map(|(_, weight)| weight).sum();
        let mut drawn = self.random.below(all);
        for (kind, weight) in WEIGHTS {
            if drawn < weight {
                return kind;
            }
            drawn -= weight;
        }
        Kind::Kill
    }

    /// A fault of this kind with its target; nothing where there is no target.
    fn fault(&mut self, kind: Kind) -> Option<Fault> {
        Some(match kind {
            Kind::Kill => Fault::Kill(self.victim()?),
            Kind::KillSupervisor => Fault::KillSupervisor(self.victim()?),
            Kind::KillSidecar => Fault::KillSidecar(self.slot(|target| target.has_sidecar)?),
            Kind::Stop => Fault::Stop { slot: self.victim()?, for_ms: self.random.between(2_000, 6_000) },
            Kind::Pause => Fault::Stop { slot: self.slot(|_| true)?, for_ms: self.random.between(50, 1_000) },
            Kind::Delete => Fault::Delete(self.victim()?),
            Kind::FillDisk => Fault::FillDisk { job: self.master()?, for_ms: self.random.between(200, 4_000) },
            Kind::SlowDisk => {
                let by_ms = *self.random.one_of(&DELAYS)?;
                Fault::SlowDisk { job: self.master()?, by_ms, for_ms: self.random.between(500, 5_000) }
            }
            Kind::JumpClock => {
                let far = *self.random.one_of(&JUMPS)?;
                let by_ms = if self.random.below(2) == 0 { far } else { -far };
                Fault::JumpClock { job: self.master()?, by_ms }
            }
            Kind::FailWrites => Fault::FailWrites { for_ms: self.random.between(200, 3_000) },
        })
    }

    /// A slot whose pod may be lost.
    fn victim(&mut self) -> Option<SlotRef> {
        self.slot(|target| !target.is_spared)
    }

    /// A slot of any target that `of` accepts.
    fn slot(&mut self, of: impl Fn(&FaultTarget) -> bool) -> Option<SlotRef> {
        let targets: Vec<&FaultTarget> = self.targets.iter().copied().filter(|target| of(target)).collect();
        let target = *self.random.one_of(&targets)?;
        let rank = u32::try_from(self.random.below(u64::from(target.replicas))).unwrap_or(0);
        Some(SlotRef { job: target.job.clone(), role: target.role.clone(), rank: Rank(rank) })
    }

    /// A job with a master.
    fn master(&mut self) -> Option<JobKey> {
        self.slot(|target| target.is_master).map(|slot| slot.job)
    }
}

impl FaultTarget {
    /// The targets of a job.
    #[must_use]
    pub fn of(job: &Job) -> Vec<Self> {
        let key = JobKey::of(job);
        let target = |role: &flexor_model::Role| Self {
            job: key.clone(),
            role: role.name.clone(),
            replicas: role.size.initial(),
            is_master: role.program == Program::FlexorMaster,
            has_sidecar: role.has_sidecar(),
            is_spared: role.kind == RoleKind::ParameterServer && !can_lose_servers(job, role.size.initial()),
        };
        job.roles.iter().map(target).collect()
    }
}

/// Whether parameters survive the loss of a server: on another one, or in a checkpoint.
fn can_lose_servers(job: &Job, servers: u32) -> bool {
    job.ps_replication_factor > 1 && servers > 1 || job.checkpoints.is_some()
}

impl Rate {
    /// Gaps between faults are drawn evenly, so the longest is twice the mean.
    fn longest_gap_ms(self) -> u64 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rate lies between 0.001 and 100, so this lies between 20 and 2000000"
        )]
        let longest = (2_000.0 / self.0).round() as u64;
        longest
    }
}

impl Default for Rate {
    /// One fault in five seconds.
    fn default() -> Self {
        Self(0.2)
    }
}

impl TryFrom<f64> for Rate {
    type Error = RateError;

    fn try_from(rate: f64) -> Result<Self, RateError> {
        if (0.001..=100.0).contains(&rate) { Ok(Self(rate)) } else { Err(RateError(rate.to_string())) }
    }
}

impl From<Rate> for f64 {
    fn from(rate: Rate) -> Self {
        rate.0
    }
}

impl FromStr for Rate {
    type Err = RateError;

    fn from_str(text: &str) -> Result<Self, RateError> {
        text.parse().ok().and_then(|rate: f64| Self::try_from(rate).ok()).ok_or_else(|| RateError(text.to_owned()))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests;
