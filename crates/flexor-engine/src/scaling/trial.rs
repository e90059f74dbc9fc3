//! The open proposal: until the controller has it, until its pods run, and until its result is known.

use std::time::Duration;

use super::model::QueueingModel;
use super::mva::bisect;
use super::{Allotment, Layout, Measurement, PlanState, Proposal, Purpose, Sample, TrialResult};

/// The controller has seen a proposal within this time, or it is withdrawn.
const UNSEEN_FOR: Duration = Duration::from_secs(30);
/// A result that is not clear after this time counts as it is.
const CLEAR_AFTER: Duration = Duration::from_secs(30);
/// Below this part of the throughput before, a change for more did harm …
const HARMFUL: f64 = 0.98;
/// … and one for savings.
const HARMFUL_SAVINGS: f64 = 0.95;
/// A result differs from its promise by more than this, as a logarithm, if the model is wrong.
const SURPRISE: f64 = 0.15;
/// A station that is used less does not matter.
const SEEN: f64 = 0.05;

/// A proposal that is not over.
#[derive(Debug)]
pub(super) struct Trial {
    pub(super) proposal: Proposal,
    pub(super) proposed_at: Duration,
    pub(super) from: Layout,
    pub(super) to: Layout,
    /// The hot server, by its position.
    pub(super) hot: Option<usize>,
    /// What all pods request together while the change is made.
    pub(super) peak: Allotment,
    /// None where the result does not matter.
    pub(super) promise: Option<Promise>,
}

/// What a change is measured by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Promise {
    /// Batches per second before the change.
    pub(super) before: f64,
    /// Its relative standard error.
    pub(super) error: f64,
    /// Expected batches per second.
    pub(super) expected: f64,
}

/// How far a trial is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// Waits for the controller.
    Proposed,
    /// Waits for pods.
    Open,
    /// Waits for a measurement.
    Done,
    /// Nobody carried it out, or others have changed the sizes.
    Dropped,
    /// The controller ended it without success.
    Ended(PlanState),
}

impl Trial {
    pub(super) fn progress(&self, sample: &Sample, now: Duration) -> Progress {
        let number = self.proposal.number;
        let Some(plan) = sample.plan.filter(|plan| plan.number >= number) else {
            let is_due = now.saturating_sub(self.proposed_at) > UNSEEN_FOR;
            return if is_due { Progress::Dropped } else { Progress::Proposed };
        };
        if plan.number > number {
            return Progress::Dropped;
        }
        match plan.state {
            PlanState::Open => Progress::Open,
            PlanState::Succeeded if !sample.steady => Progress::Open,
            PlanState::Succeeded if self.is_held(sample) => Progress::Dropped,
            PlanState::Succeeded if Layout { hot: self.to.hot, ..Layout::of(sample) } == self.to => Progress::Done,
            PlanState::Succeeded => Progress::Dropped,
            ended @ (PlanState::NoRoom | PlanState::Failed) => Progress::Ended(ended),
        }
    }

    /// Whether a person has meanwhile set a role that the change is about.
    fn is_held(&self, sample: &Sample) -> bool {
        let roles = [&sample.workers, &sample.servers];
        roles.into_iter().any(|role| self.proposal.roles.contains_key(&role.name) && !role.is_automatic())
    }

    /// The result, as soon as it is clear.
    pub(super) fn result(&self, measured: &Measurement) -> Option<TrialResult> {
        let Promise { before, error, expected } = self.promise?;
        let ratio = measured.rate / before;
        let is_clear = (ratio - 1.0).abs() > 2.0 * error.hypot(measured.error);
        if !is_clear && measured.length < CLEAR_AFTER {
            return None;
        }
        let harmful = if self.proposal.purpose == Purpose::Savings { HARMFUL_SAVINGS } else { HARMFUL };
        Some(TrialResult {
            number: self.proposal.number,
            change: self.proposal.change.clone(),
            before,
            expected,
            measured: measured.rate,
            taken_back: ratio < harmful,
        })
    }

    /// Whether the result shows that the model is wrong, beyond the errors of both measurements.
    pub(super) fn is_surprise(&self, measured: &Measurement) -> bool {
        self.promise.is_some_and(|Promise { error, expected, .. }| {
            (measured.rate / expected).ln().abs() > SURPRISE + error.hypot(measured.error)
        })
    }

    /// The demand of a station that reports nothing and that explains what more pods brought.
    ///
    /// The model of the new sizes already knows all that is measured there. It has to say what was measured before, at the
    /// old sizes: the larger the unseen station is, the more it says.
    pub(super) fn unseen(&self, measured: &Measurement, sample: &Sample) -> Option<f64> {
        let Promise { before, .. } = self.promise.filter(|_| self.proposal.purpose == Purpose::Throughput)?;
        let fit = |unseen: f64| QueueingModel::fit(measured, sample, unseen).rate_of(Layout { hot: None, ..self.from });
        let demand = bisect(measured.rate.recip(), |unseen| fit(unseen) < before);
        Some(demand).filter(|demand| *demand * measured.rate > SEEN)
    }
}
