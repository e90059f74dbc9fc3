//! One job under one policy, and what its user would note of it.

use super::DlroverRules;
use super::best::best;
use super::shape::JobShape;
use super::world::{Order, World};
use crate::scaling::{Purpose, Sample, Sizer, TrialResult};

/// Who sizes a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// This module.
    Flexor,
    /// DLRover's rules.
    Dlrover,
}

/// A run.
#[derive(Debug, Clone)]
pub struct Run {
    pub seed: u64,
    /// Batches in each second.
    pub rates: Vec<f64>,
    pub changes: Vec<ChangeRecord>,
    /// Seconds until nine tenths of the best reachable throughput; none if that was never reached.
    pub seconds_to_90: Option<usize>,
    /// The throughput at the end, as a part of the best.
    pub at_rest: f64,
    pub oom_kills: u32,
    /// All pods together requested more than the ceiling after an order.
    pub exceeds_ceiling: bool,
    pub workers: u32,
    pub servers: u32,
    pub best: f64,
}

/// A change and its effect.
#[derive(Debug, Clone)]
pub struct ChangeRecord {
    /// The second in which it was ordered.
    pub at: usize,
    /// The second in which its pods were as ordered.
    pub done: Option<usize>,
    pub reason: String,
    pub purpose: Option<Purpose>,
    pub result: Option<TrialResult>,
}

/// Seconds over which a throughput is averaged.
const AVERAGE: usize = 10;
/// The end of a run, in seconds.
const REST: usize = 60;

enum Rules {
    Flexor(Box<Sizer>),
    Dlrover(Box<DlroverRules>),
}

/// Plays a job for some seconds.
pub fn run(shape: &JobShape, policy: Policy, seconds: usize) -> Run {
    let mut world = World::new(shape);
    let mut rules = match policy {
        Policy::Flexor => Rules::Flexor(Box::default()),
        Policy::Dlrover => Rules::Dlrover(Box::default()),
    };
    let (mut rates, mut changes, mut before) = (Vec::new(), Vec::<ChangeRecord>::new(), 0);
    for second in 0..seconds {
        world.tick();
        rates.push((world.batches() - before) as f64);
        before = world.batches();
        if let Some(open) = changes.last_mut().filter(|change| change.done.is_none() && !world.is_open()) {
            open.done = Some(second);
        }
        let sample = world.sample();
        if let Some((order, record)) = rules.next(&sample, &mut changes, second, &world) {
            world.carry_out(&order);
            changes.push(record);
        }
    }
    let sample = world.sample();
    let (first, last) = (best(shape, 1.0, 0.0), best(shape, shape.load(world.now()), world.batches() as f64));
    Run {
        seed: shape.seed,
        seconds_to_90: seconds_to_90(shape, &rates, first, last),
        at_rest: mean(&rates[seconds.saturating_sub(REST)..]) / last,
        oom_kills: world.oom_kills,
        exceeds_ceiling: !shape.ceiling.fits(world.peak),
        workers: sample.workers.replicas,
        servers: sample.servers.replicas,
        best: last,
        rates,
        changes,
    }
}

impl Rules {
    fn next(
        &mut self,
        sample: &Sample,
        changes: &mut [ChangeRecord],
        at: usize,
        world: &World<'_>,
    ) -> Option<(Order, ChangeRecord)> {
        let record = |reason, purpose| ChangeRecord { at, done: None, reason, purpose, result: None };
        match self {
            Self::Flexor(sizer) => {
                let decision = sizer.handle(sample, world.now());
                if let Some((result, change)) = decision.result.zip(changes.last_mut()) {
                    change.result = Some(result);
                }
                let proposal = decision.proposal?;
                Some((Order::of(&proposal, sample), record(proposal.reason(), Some(proposal.purpose))))
            }
            Self::Dlrover(rules) => {
                let order = rules.handle(sample, world.now())?;
                let reason = format!("{order:?}");
                Some((order, record(reason, None)))
            }
        }
    }
}

/// The best changes with the load; between its ends it is on a straight line.
fn seconds_to_90(shape: &JobShape, rates: &[f64], first: f64, last: f64) -> Option<usize> {
    let best_at = |second: usize| {
        let part = (second as f64 - shape.drift_from) / (shape.drift_until - shape.drift_from);
        first + (last - first) * part.clamp(0.0, 1.0)
    };
    let averages = rates.windows(AVERAGE).map(mean).enumerate();
    // The average has to be reached at its end; the job was as fast from its beginning on.
    averages.into_iter().find(|(second, rate)| *rate >= 0.9 * best_at(*second)).map(|(second, _)| second)
}

pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

impl Run {
    /// The throughput after a change, as a part of that before; none where other changes are too near.
    pub fn effect(&self, change: &ChangeRecord) -> Option<f64> {
        let from = change.done? + 2;
        let next = self.changes.iter().map(|change| change.at).find(|at| *at > change.at).unwrap_or(self.rates.len());
        let after = self.rates.get(from..(from + 2 * AVERAGE).min(next + 1)).filter(|rates| rates.len() >= 4)?;
        let before = self.rates.get(change.at.saturating_sub(AVERAGE)..=change.at)?;
        Some(mean(after) / mean(before))
    }
}
