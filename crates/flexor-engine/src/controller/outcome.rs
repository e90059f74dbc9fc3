//! How far the job is: what its pods make of it.

use std::time::Duration;

use flexor_model::{Reason, Role, RoleKind};

use super::status::{Phase, SeatEnd};
use super::{Draft, PodPhase};
use crate::Because;

impl Draft<'_> {
    /// Whether the job runs, has succeeded, or has failed.
    pub(super) fn judge(&mut self) {
        let runs = self.observed.pods.iter().any(|pod| pod.phase != PodPhase::Pending && self.is_worker(pod));
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
        let ends =
            self.status.roles.values().flat_map(|seats| seats.seats.values()).filter_map(|seat| seat.end.as_ref());
        if let Some(end) = ends.clone().find(|end| end.fails_job) {
            return Some(end.because.clone());
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
        let because = Because::new(Reason::JobSucceeded, format!("the program has ended well on {count} nodes"));
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

    fn is_worker(&self, pod: &super::PodSeen) -> bool {
        self.deciding_roles().iter().any(|role| role.name == pod.role)
    }
}
