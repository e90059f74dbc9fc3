//! The state machine in the master: one sample a second goes in, now and then a proposal comes out.

use std::time::Duration;

use super::ban::Bans;
use super::history::History;
use super::memory::{Horizon, MemoryTrends};
use super::model::QueueingModel;
use super::search::{choose, present_total};
use super::trial::{Progress, Promise, Trial};
use super::window::Window;
use super::{
    Allotment, Bottleneck, Ceiling, Evidence, Layout, Measurement, PlanState, Proposal, Purpose, Sample, TrialResult,
};

/// There is at most one proposal in this time.
const BETWEEN_PROPOSALS: Duration = Duration::from_secs(10);
/// A change for savings is not urgent, and waits for a window of this length.
const SAVINGS_WINDOW: Duration = Duration::from_secs(20);

/// Sizes one job.
#[derive(Debug, Default)]
pub struct Sizer {
    window: Window,
    memory: MemoryTrends,
    bans: Bans,
    history: History,
    /// The demand of a station that reports nothing.
    unseen: Option<f64>,
    trial: Option<Trial>,
    proposed_at: Option<Duration>,
    pace: Option<(Measurement, Bottleneck)>,
}

/// What a sample led to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decision {
    /// How the last change turned out.
    pub result: Option<TrialResult>,
    /// The next change.
    pub proposal: Option<Proposal>,
}

impl Sizer {
    /// Takes the sample of a second.
    pub fn handle(&mut self, sample: &Sample, now: Duration) -> Decision {
        let measured = self.window.take(sample, now);
        self.memory.take(sample, now);
        if let Some(measured) = &measured {
            if self.history.take(measured, sample) {
                self.unseen = None;
            }
            let model = self.model(measured, sample);
            self.pace = Some((measured.clone(), Bottleneck::of(&model, sample, measured)));
        }
        let mut decision = Decision::default();
        if !self.may_propose(now) {
            return decision;
        }
        if let Some(trial) = self.trial.take() {
            decision = self.follow(trial, sample, measured.as_ref(), now);
        }
        let is_free = sample.steady && self.trial.is_none() && decision.proposal.is_none();
        if is_free {
            decision.proposal = self
                .keep_memory(sample, Horizon::PRESENT, now)
                .or_else(|| self.improve(sample, measured.as_ref()?, now));
        }
        decision
    }

    /// The proposal that the controller has to be told until [`Sample::plan`] shows its number.
    pub fn open_proposal(&self) -> Option<&Proposal> {
        self.trial.as_ref().map(|trial| &trial.proposal)
    }

    /// The last measurement, and what limited the job then.
    pub fn pace(&self) -> Option<(&Measurement, &Bottleneck)> {
        self.pace.as_ref().map(|(measured, bottleneck)| (measured, bottleneck))
    }

    fn may_propose(&self, now: Duration) -> bool {
        self.proposed_at.is_none_or(|last| now >= last + BETWEEN_PROPOSALS)
    }

    fn model(&self, measured: &Measurement, sample: &Sample) -> QueueingModel {
        QueueingModel::fit(measured, sample, self.unseen.unwrap_or(0.0))
    }

    /// Follows an open proposal to its end.
    fn follow(&mut self, trial: Trial, sample: &Sample, measured: Option<&Measurement>, now: Duration) -> Decision {
        match trial.progress(sample, now) {
            Progress::Proposed | Progress::Open => self.trial = Some(trial),
            Progress::Dropped => {}
            Progress::Ended(state) => self.ban(&trial, state, sample, now),
            Progress::Done => {
                self.bans.found_room(trial.peak);
                return self.judge(trial, sample, measured, now);
            }
        }
        Decision::default()
    }

    /// Compares promise and result.
    fn judge(&mut self, trial: Trial, sample: &Sample, measured: Option<&Measurement>, now: Duration) -> Decision {
        if trial.promise.is_none() {
            return Decision::default();
        }
        let Some((measured, result)) = measured.and_then(|measured| Some((measured, trial.result(measured)?))) else {
            self.trial = Some(trial);
            return Decision::default();
        };
        if !result.taken_back {
            if trial.is_surprise(measured) {
                self.unseen = trial.unseen(measured, sample);
            }
            return Decision { result: Some(result), proposal: None };
        }
        self.bans.ban(trial.to, now);
        let evidence = Evidence::Trial(result.clone());
        let back = Proposal::new(sample, trial.from, trial.hot, Purpose::TakeBack, evidence);
        let proposal = self.propose(back, trial.from, trial.hot, None, sample, now);
        Decision { result: Some(result), proposal: Some(proposal) }
    }

    /// Notes why the controller ended a plan without success.
    fn ban(&mut self, trial: &Trial, state: PlanState, sample: &Sample, now: Duration) {
        let was_tight = self.bans.room(trial.proposed_at).is_some();
        if state == PlanState::NoRoom {
            self.bans.no_room(present_total(sample), now);
        }
        match trial.proposal.purpose {
            // With too little room known, the next proposal for memory makes room first.
            Purpose::Memory if state == PlanState::NoRoom && !was_tight => {}
            Purpose::Memory => self.bans.ban_memory(now),
            Purpose::Throughput | Purpose::Savings | Purpose::TakeBack => self.bans.ban(trial.to, now),
        }
    }

    /// Gives pods more memory before they need it.
    fn keep_memory(&mut self, sample: &Sample, horizon: Horizon, now: Duration) -> Option<Proposal> {
        if !self.bans.allow_memory(now) {
            return None;
        }
        let (proposal, to) = self.memory.proposal(sample, horizon, self.bans.room(now).is_some())?;
        Some(self.propose(proposal, to, None, None, sample, now))
    }

    fn improve(&mut self, sample: &Sample, measured: &Measurement, now: Duration) -> Option<Proposal> {
        let model = self.model(measured, sample);
        let (here, room) = (Ceiling::from(present_total(sample)), self.bans.room(now));
        let has_room = |layout: Layout| {
            let total = layout.total(sample, model.busiest);
            room.is_none_or(|room| room.fits(total) || here.fits(total))
        };
        let is_allowed = |layout| self.bans.allow(layout, now) && has_room(layout);
        let change = choose(&model, &self.history.excess(&model, sample), sample, measured.error, is_allowed)?;
        let purpose = if change.gains { Purpose::Throughput } else { Purpose::Savings };
        if purpose == Purpose::Savings && measured.length < SAVINGS_WINDOW {
            return None;
        }
        if let Some(first) = self.keep_memory(sample, Horizon::of_growth(change.rate / measured.rate), now) {
            return Some(first);
        }
        let (_, bottleneck) = self.pace.clone()?;
        let evidence = Evidence::Throughput { measured: measured.clone(), bottleneck };
        let hot = model.busiest.filter(|_| change.layout.hot.is_some());
        let proposal = Proposal::new(sample, change.layout, hot, purpose, evidence);
        let promise = Promise { before: measured.rate, error: measured.error, expected: change.rate };
        Some(self.propose(proposal, change.layout, hot, Some(promise), sample, now))
    }

    fn propose(
        &mut self,
        mut proposal: Proposal,
        to: Layout,
        hot: Option<usize>,
        promise: Option<Promise>,
        sample: &Sample,
        now: Duration,
    ) -> Proposal {
        proposal.expected = promise.map(|promise| promise.expected);
        let present = hot.and_then(|position| sample.measured_servers().get(position));
        let from = Layout { hot: present.map(|pod| pod.allotment.millicores), ..Layout::of(sample) };
        let successors = proposal.migrate.iter().map(|migration| Allotment::from(&migration.resources));
        let peak = successors.fold(to.total(sample, None), Allotment::plus);
        self.trial = Some(Trial { proposal: proposal.clone(), proposed_at: now, from, to, hot, peak, promise });
        self.proposed_at = Some(now);
        proposal
    }
}
