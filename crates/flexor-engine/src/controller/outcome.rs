//! How far the job is: what its pods make of it.

use std::time::Duration;

use flexor_model::{Reason, Role, RoleKind};

use super::status::{Phase, SeatEnd};
use super::{Draft, PodPhase, counted};
use crate::{Because, nodes};

/// How long nodes have to end by themselves once nothing can come of the run any more.
const LAST_WORDS: Duration = Duration::from_secs(10);

impl<'a> Draft<'a> {
    /// Why the master has given the program up, if it has. A pod that is started again would find nobody to meet.
    pub(super) fn given_up(&self) -> Option<&'a Because> {
        self.observed.closed.filter(|closed| closed.reason == Reason::RestartsExhausted)
    }
}

impl Draft<'_> {
    /// Whether the job runs, has succeeded, or has failed.
    pub(super) fn judge(&mut self) {
        let has_run = |role: &&Role| self.places.of_role(&role.name).any(|pod| pod.phase != PodPhase::Pending);
        let runs = self.deciding_roles().iter().any(has_run);
        if runs && self.status.started_at.is_none() {
            self.status.started_at = Some(self.now);
        }
        if self.status.phase != Phase::Running && (runs || self.status.started_at.is_some()) {
            self.enter(Phase::Running, Because::new(Reason::JobRunning, "its first worker runs"));
        }
        if let Some((phase, because)) =
            self.failure().map(|because| (Phase::Failed, because)).or_else(|| self.success())
        {
            self.status.finished_at = Some(self.now);
            self.tell(because.clone());
            self.enter(phase, because);
        }
    }

    pub(super) fn enter(&mut self, phase: Phase, because: Because) {
        self.status.phase = phase;
        self.status.because = Some(because);
    }

    /// Why the job cannot be done, if it cannot.
    fn failure(&mut self) -> Option<Because> {
        let deadline = self.observed.job.end.deadline_seconds.map(Duration::from_secs);
        if let Some(deadline) = deadline.and_then(|limit| Some(self.status.started_at? + limit)) {
            if deadline <= self.now {
                let detail = format!("it did not end within {} s", self.observed.job.end.deadline_seconds.unwrap_or(0));
                return Some(Because::new(Reason::JobDeadlineExceeded, detail));
            }
            self.wake(deadline);
        }
        if let Some(because) = self.shortage() {
            return Some(because);
        }
        let ends =
            self.status.roles.values().flat_map(|seats| seats.seats.values()).filter_map(|seat| seat.end.as_ref());
        if let Some(end) = ends.clone().find(|end| end.fails_job) {
            return Some(end.because.clone());
        }
        if let Some(closed) = self.given_up() {
            return self.after_last_words(closed);
        }
        for role in self.deciding_roles() {
            let Some(seats) = self.status.roles.get(&role.name) else { continue };
            let failed: Vec<&SeatEnd> =
                seats.seats.values().filter_map(|seat| seat.end.as_ref()).filter(|end| !end.succeeded).collect();
            let left = seats.seats.len() - failed.len();
            let least = (role.size.allowed().min().max(1) as usize).min(self.replicas(role) as usize);
            if let Some(last) = failed.last().filter(|_| left < least) {
                let detail = format!("{left} of at least {least} {} are left: {}", role.name, last.because);
                return Some(Because::new(Reason::TooFewLeft, detail));
            }
        }
        None
    }

    /// The master has given the program up: its nodes have a moment to end by themselves and to say what went wrong.
    fn after_last_words(&mut self, closed: &Because) -> Option<Because> {
        let until = *self.status.given_up_at.get_or_insert(self.now) + LAST_WORDS;
        let workers = || self.deciding_roles().into_iter().flat_map(|role| self.places.of_role(&role.name));
        if until > self.now && workers().any(|pod| !pod.has_ended() && !pod.deleting) {
            self.wake(until);
            return None;
        }
        let told = workers().filter_map(|pod| Some((pod.finished_at, pod.end.error.as_deref()?)));
        let detail = match told.min_by_key(|(at, _)| *at) {
            Some((_, error)) => format!("{}: {}", closed.detail, nodes::first_words(error)),
            None => closed.detail.clone(),
        };
        Some(Because::new(closed.reason, detail))
    }

    /// Why the job is stopped early: it has not had the nodes that it needs for longer than it is willing to wait.
    fn shortage(&mut self) -> Option<Because> {
        let limit = Duration::from_secs(self.observed.job.end.shortage_seconds?);
        let short = self.deciding_roles().into_iter().find_map(|role| {
            let seats = self.status.roles.get(&role.name);
            let done =
                seats.into_iter().flat_map(|seats| seats.seats.values()).filter(|seat| seat.end.is_some()).count();
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
            let detail = format!("{short} for the last {} s, as long as the job waits at most", limit.as_secs());
            return Some(Because::new(Reason::ShortTooLong, detail));
        }
        self.wake(until);
        None
    }

    /// Whether all the work is done.
    fn success(&self) -> Option<(Phase, Because)> {
        let mut count = 0;
        for role in self.deciding_roles() {
            let seats = self.status.roles.get(&role.name)?;
            if seats.seats.len() < self.replicas(role) as usize {
                return None;
            }
            for seat in seats.seats.values() {
                count += usize::from(seat.end.as_ref()?.succeeded);
            }
        }
        let because =
            Because::new(Reason::JobSucceeded, format!("the program has ended well on {}", counted(count, "node")));
        (count > 0).then_some((Phase::Succeeded, because))
    }

    /// The roles whose work is the job's work: those that train, or all but its servers where none does.
    fn deciding_roles(&self) -> Vec<&Role> {
        let roles = &self.observed.job.roles;
        let trains = |role: &&Role| matches!(role.kind, RoleKind::Worker | RoleKind::Chief) && self.replicas(role) > 0;
        let deciding: Vec<&Role> = roles.iter().filter(trains).collect();
        let serves = |role: &&Role| matches!(role.kind, RoleKind::Master | RoleKind::ParameterServer);
        if deciding.is_empty() { roles.iter().filter(|role| !serves(role)).collect() } else { deciding }
    }
}
