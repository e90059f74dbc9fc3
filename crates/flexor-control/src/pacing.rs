//! Pacing: when the actions of a reconciliation are executed, and which of them together.
//!
//! It stands between the decision and the executor, and protects an API server from large jobs: status writes of one job
//! are limited, pods are created in batches that grow, and a large batch gets one event. Pure: `now` is an argument. It
//! drops no action; what it holds back is decided again later.

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, VecDeque};
use std::num::NonZero;
use std::time::Duration;

use flexor_engine::Cause;
use flexor_engine::controller::{Action, Event, Reconciliation};
use flexor_model::{Rank, Reason, RoleName, UnixTime};

/// The limits of one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pacing {
    /// Most status writes in any second; none means no limit.
    pub status_writes_per_second: Option<NonZero<u32>>,
    /// Batches of pods double from 1 up to this size.
    pub largest_batch: NonZero<usize>,
    /// A pass that creates more pods than this records one event per batch instead of one per pod.
    pub most_pod_events: usize,
    /// The event about a lost pod waits this long for the replacement, whose event then says both; zero: each has its
    /// own.
    pub merge_losses_within: Duration,
}

/// The pacing of one job, with the status writes that it remembers.
#[derive(Debug, Clone)]
pub struct Pacer {
    limits: Pacing,
    /// The times of the last status writes, oldest first: as many as are allowed in a second.
    writes: VecDeque<UnixTime>,
}

/// What to execute in this pass.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Paced {
    /// One after the other. The first that fails ends the pass.
    pub steps: Vec<Step>,
    /// When to reconcile again if nothing changes before.
    pub requeue_at: Option<UnixTime>,
}

/// Actions that do not depend on one another. Several of them are pods to create, and the events between them.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    pub actions: Vec<Action>,
    pub creation_events: CreationEvents,
}

/// How the creation of pods is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CreationEvents {
    PerPod,
    PerBatch,
}

impl Pacing {
    /// For an API server that others use too.
    pub const CLUSTER: Self = Self {
        status_writes_per_second: NonZero::new(5),
        largest_batch: NonZero::new(512).expect("512 is not 0"),
        most_pod_events: 50,
        merge_losses_within: Duration::from_secs(3),
    };
}

impl Pacer {
    pub fn new(limits: Pacing) -> Self {
        Self { limits, writes: VecDeque::new() }
    }

    /// The steps of a pass. What comes after a status write may depend on it, so the write is held back together with the
    /// other actions of the pass. Only pods that do not depend on it are created meanwhile.
    pub fn pace(&mut self, reconciliation: Reconciliation, now: UnixTime) -> Paced {
        let Reconciliation { actions, requeue_at, free_creates } = reconciliation;
        if actions.iter().any(|action| matches!(action, Action::SetStatus(_))) {
            let allowed_at = self.next_write(&actions);
            if allowed_at > now {
                let requeue_at = Some(requeue_at.map_or(allowed_at, |at| at.min(allowed_at)));
                return Paced { steps: self.batch(only_free(actions, &free_creates)), requeue_at };
            }
            self.note_write(now);
        }
        Paced { steps: self.batch(actions), requeue_at }
    }

    /// When these actions may write the status. A write that pods or plans wait for may come at once, while the limit of
    /// the second allows it. A write that only informs keeps the mean distance, so that it leaves room for the others.
    fn next_write(&self, actions: &[Action]) -> UnixTime {
        let Some(limit) = self.limits.status_writes_per_second else { return UnixTime::EPOCH };
        let informs =
            |action: &Action| matches!(action, Action::SetStatus(_) | Action::Record(_) | Action::RecordLoss { .. });
        let second_over = match self.writes.front() {
            Some(first) if self.writes.len() >= limit.get() as usize => *first + Duration::from_secs(1),
            Some(_) | None => UnixTime::EPOCH,
        };
        match self.writes.back() {
            Some(last) if actions.iter().all(informs) => second_over.max(*last + Duration::from_secs(1) / limit.get()),
            Some(_) | None => second_over,
        }
    }

    fn note_write(&mut self, now: UnixTime) {
        let Some(limit) = self.limits.status_writes_per_second else { return };
        while self.writes.len() >= limit.get() as usize {
            self.writes.pop_front();
        }
        self.writes.push_back(now);
    }

    fn batch(&self, actions: Vec<Action>) -> Vec<Step> {
        let is_create = |action: &Action| matches!(action, Action::CreatePod(_));
        let created = actions.iter().filter(|action| is_create(action)).count();
        let creation_events =
            if created > self.limits.most_pod_events { CreationEvents::PerBatch } else { CreationEvents::PerPod };
        let mut steps: Vec<Step> = Vec::new();
        // The pods that the last step has room for, and the size of the batch after it.
        let (mut room, mut size): (usize, usize) = (0, 1);
        for action in actions {
            match (&action, steps.last_mut()) {
                (Action::CreatePod(_), Some(batch)) if room > 0 => {
                    room -= 1;
                    batch.actions.push(action);
                    continue;
                }
                // An event between two pods of a batch does not end it.
                (Action::Record(_) | Action::RecordLoss { .. }, Some(batch)) if room > 0 => {
                    batch.actions.push(action);
                    continue;
                }
                (Action::CreatePod(_), _) => {
                    room = size - 1;
                    size = size.saturating_mul(2).min(self.limits.largest_batch.get());
                }
                (_, _) => room = 0,
            }
            steps.push(Step { actions: vec![action], creation_events });
        }
        steps
    }
}

/// The creations of these pods, and the losses that they make good.
fn only_free(actions: Vec<Action>, free: &BTreeSet<String>) -> Vec<Action> {
    let is_free = |name: &String| free.contains(name);
    let slots: BTreeSet<(RoleName, Rank)> = actions
        .iter()
        .filter_map(|action| match action {
            Action::CreatePod(pod) if is_free(&pod.name) => Some((pod.role.clone(), pod.rank)),
            _ => None,
        })
        .collect();
    let goes_on = |action: &Action| match action {
        Action::CreatePod(pod) => is_free(&pod.name),
        Action::RecordLoss { role, rank, .. } => slots.contains(&(role.clone(), *rank)),
        _ => false,
    };
    actions.into_iter().filter(goes_on).collect()
}

/// A pod that was created, and the loss that it makes good.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CreatedPod {
    pub(crate) name: String,
    pub(crate) cause: Cause,
    pub(crate) loss: Option<Cause>,
}

/// The event for pods of one batch that were created, in their order.
pub(crate) fn creation_event(pods: &[CreatedPod]) -> Option<Event> {
    match pods {
        [] => None,
        [CreatedPod { name, cause, loss }] => {
            let message = loss.iter().fold(cause.message.clone(), |message, loss| format!("{message}: {loss}"));
            Some(Event { pod: Some(name.clone()), cause: Cause::new(cause.reason, message) })
        }
        [first, .., last] => {
            let created = format!("created {} pods: {} … {}", pods.len(), first.name, last.name);
            let losses: Vec<&Cause> = pods.iter().filter_map(|pod| pod.loss.as_ref()).collect();
            let message = match losses.first() {
                Some(loss) => format!("{created}; {} in place of lost ones: {loss}", losses.len()),
                None => created,
            };
            Some(Event { pod: None, cause: Cause::new(Reason::PodWanted, message) })
        }
    }
}
