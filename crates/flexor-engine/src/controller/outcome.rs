//! The phase of a job, as its pods decide it.

use std::time::Duration;

use flexor_model::{LONGEST_SECONDS, Reason, Role, RoleKind, UnixTime};

use super::slots::end_of;
use super::status::{Phase, SlotEnd};
use super::{Action, Event, ObservedPod, Planning, PodPhase, Reconciler, counted};
use crate::{Cause, nodes};

/// How long pods have to end by themselves after the master has given the program up.
const LAST_WORDS: Duration = Duration::from_secs(10);

impl<'a> Reconciler<'a> {
    /// Why the master has given the program up, if it has. A relaunched pod could not join any more.
    pub(super) fn given_up(&self) -> Option<&'a Cause> {
        self.observed.closed.filter(|closed| closed.reason == Reason::RestartsExhausted)
    }
}

impl Reconciler<'_> {
    /// Decides whether the job runs, has succeeded, or has failed.
    pub(super) fn judge(&mut self) {
        let has_run = |role: &&Role| self.pods.of_role(&role.name).any(|pod| pod.phase != PodPhase::Pending);
        let runs = self.deciding_roles().iter().any(has_run);
        if runs && self.status.started_at.is_none() {
            self.status.started_at = Some(self.now);
        }
        if self.status.phase != Phase::Running && (runs || self.status.started_at.is_some()) {
            self.enter(Phase::Running, running());
        }
        self.show_obstacle();
        if let Some((phase, cause)) = self.failure().map(|cause| (Phase::Failed, cause)).or_else(|| self.success()) {
            self.status.finished_at = Some(self.now);
            self.record(cause.clone());
            self.enter(phase, cause);
        }
    }

    /// Says in the status what the job lacks, for as long as one of its pods cannot be created or started.
    fn show_obstacle(&mut self) {
        let is_obstacle = |cause: &Cause| {
            matches!(
                cause.reason,
                Reason::CreateRefused | Reason::Unschedulable | Reason::MissingReference | Reason::JobHeld
            )
        };
        let shown = self.status.cause.as_ref().filter(|cause| is_obstacle(cause)).map(|cause| cause.reason);
        match self.refused.take().or_else(|| self.held().cloned()).or_else(|| self.waiting_pods()) {
            Some(cause) => {
                if shown != Some(cause.reason) {
                    // The refused creation of another pod may end the pass, so the event comes first.
                    self.actions.insert(0, Action::Record(Event { pod: None, cause: cause.clone() }));
                }
                self.status.cause = Some(cause);
            }
            None if shown.is_some() => self.status.cause = (self.status.phase == Phase::Running).then(running),
            None => {}
        }
    }

    /// What keeps pods from being started: the first of them, and how many others wait for the same reason.
    fn waiting_pods(&self) -> Option<Cause> {
        let waiting = || self.observed.pods.iter().filter(|pod| !pod.deleting && pod.pending.is_some());
        let first = waiting().min_by_key(|pod| (&pod.role, pod.rank))?;
        let cause = first.pending.as_ref()?;
        let same = |pod: &&ObservedPod| pod.pending.as_ref().is_some_and(|other| other.reason == cause.reason);
        let who = match waiting().filter(same).count() - 1 {
            0 => format!("{} waits", first.name),
            others => format!("{} and {others} more wait", first.name),
        };
        let advice = match cause.reason {
            Reason::Unschedulable => "; free room, add a node, or let the job request less",
            _ => "",
        };
        Some(Cause::new(cause.reason, format!("{who}: {}{advice}", cause.message.trim_end_matches('.'))))
    }

    pub(super) fn enter(&mut self, phase: Phase, cause: Cause) {
        self.status.phase = phase;
        self.status.cause = Some(cause);
    }

    /// Why the job fails, if it does.
    fn failure(&mut self) -> Option<Cause> {
        let deadline = self.observed.job.end.deadline_seconds.map(bounded);
        if let Some(deadline) = deadline.and_then(|limit| Some(self.status.started_at? + limit)) {
            if deadline <= self.now {
                let message =
                    format!("it did not end within {} s", self.observed.job.end.deadline_seconds.unwrap_or(0));
                return Some(Cause::new(Reason::JobDeadlineExceeded, message));
            }
            self.requeue(deadline);
        }
        if let Some(cause) = self.shortage() {
            return Some(cause);
        }
        let ends =
            self.status.roles.values().flat_map(|slots| slots.slots.values()).filter_map(|slot| slot.end.as_ref());
        if let Some(end) = ends.clone().find(|end| end.fails_job) {
            return Some(end.cause.clone());
        }
        if let Some(closed) = self.given_up() {
            return self.after_last_words(closed);
        }
        for role in self.deciding_roles() {
            let Some(slots) = self.status.roles.get(&role.name) else { continue };
            let failed: Vec<&SlotEnd> =
                slots.slots.values().filter_map(|slot| slot.end.as_ref()).filter(|end| !end.succeeded).collect();
            let left = slots.slots.len() - failed.len();
            let least = (role.size.allowed().min().max(1) as usize).min(self.replicas(role) as usize);
            let first = self.first_failed(role).and_then(|pod| slots.slots.get(&pod.rank)?.end.as_ref());
            let first = first.filter(|end| !end.succeeded).or(failed.last().copied());
            if let Some(first) = first.filter(|_| left < least) {
                let message = format!("{left} of at least {least} {} are left: {}", role.name, first.cause);
                return Some(Cause::new(Reason::TooFewLeft, message));
            }
        }
        None
    }

    /// The master has given the program up: its pods have a moment to end by themselves and to leave their error.
    fn after_last_words(&mut self, closed: &Cause) -> Option<Cause> {
        let until = *self.status.given_up_at.get_or_insert(self.now) + LAST_WORDS;
        let workers = || self.deciding_roles().into_iter().flat_map(|role| self.pods.of_role(&role.name));
        if until > self.now && workers().any(|pod| !pod.has_ended() && !pod.deleting) {
            self.requeue(until);
            return None;
        }
        let roles = self.deciding_roles().into_iter();
        let first = roles.filter_map(|role| self.first_failed(role)).min_by_key(|pod| order_of_failure(pod));
        let message = match first {
            Some(pod) => format!("{}: {}", closed.message, nodes::classify(&end_of(pod)).detail),
            None => closed.message.clone(),
        };
        Some(Cause::new(closed.reason, message))
    }

    /// The pod of a role whose program failed first. Failures that follow from it come later or name a lost peer.
    fn first_failed(&self, role: &Role) -> Option<&ObservedPod> {
        let failed = self.pods.of_role(&role.name).filter(|pod| pod.phase == PodPhase::Failed);
        failed.min_by_key(|pod| order_of_failure(pod))
    }

    /// Why the job is stopped early: for longer than it waits, fewer of its pods ran than it needs.
    fn shortage(&mut self) -> Option<Cause> {
        let limit = bounded(self.observed.job.end.shortage_seconds?);
        let short = self.deciding_roles().into_iter().find_map(|role| {
            let slots = self.status.roles.get(&role.name);
            let done =
                slots.into_iter().flat_map(|slots| slots.slots.values()).filter(|slot| slot.end.is_some()).count();
            let running = self.running(role);
            let least = role.size.allowed().min().max(1).min(self.replicas(role).max(1)) as usize;
            (running + done < least).then(|| format!("{running} of at least {least} {} have run", role.name))
        });
        let Some(short) = short else {
            self.status.short_since = None;
            return None;
        };
        let until = *self.status.short_since.get_or_insert(self.now) + limit;
        if until <= self.now {
            let message = format!("{short} for the last {} s, as long as the job waits at most", limit.as_secs());
            return Some(Cause::new(Reason::ShortTooLong, message));
        }
        self.requeue(until);
        None
    }

    /// Whether the program has ended well wherever it had to.
    fn success(&self) -> Option<(Phase, Cause)> {
        // A pod that the planner has not placed yet may have work left.
        if matches!(self.observed.planning, Planning::Undecided) || self.held().is_some() {
            return None;
        }
        let mut count = 0;
        for role in self.deciding_roles() {
            let slots = self.status.roles.get(&role.name)?;
            if slots.slots.len() < self.replicas(role) as usize {
                return None;
            }
            for slot in slots.slots.values() {
                count += usize::from(slot.end.as_ref()?.succeeded);
            }
        }
        let cause =
            Cause::new(Reason::JobSucceeded, format!("the program has ended well on {}", counted(count, "node")));
        (count > 0).then_some((Phase::Succeeded, cause))
    }

    /// The roles that decide about the job: those that train, or all but its servers if none trains.
    fn deciding_roles(&self) -> Vec<&Role> {
        let roles = &self.observed.job.roles;
        let trains = |role: &&Role| matches!(role.kind, RoleKind::Worker | RoleKind::Chief) && self.replicas(role) > 0;
        let deciding: Vec<&Role> = roles.iter().filter(trains).collect();
        let serves = |role: &&Role| matches!(role.kind, RoleKind::Master | RoleKind::ParameterServer);
        if deciding.is_empty() { roles.iter().filter(|role| !serves(role)).collect() } else { deciding }
    }
}

/// Sort key of failed pods: the smallest is the cause of the others.
fn order_of_failure(pod: &ObservedPod) -> (bool, bool, Option<UnixTime>) {
    let error = pod.end.error.as_deref();
    (error.is_none(), error.is_some_and(nodes::is_consequence), pod.end.failed_at.or(pod.finished_at))
}

fn running() -> Cause {
    Cause::new(Reason::JobRunning, "its first worker runs")
}

/// The length of a time that a job asks for.
fn bounded(seconds: u64) -> Duration {
    Duration::from_secs(seconds.min(LONGEST_SECONDS))
}
