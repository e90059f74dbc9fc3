//! Who sits where: every place of a role has one pod, from when it is wanted until its work is done.
//!
//! A pod that has ended is looked at once ([`SeatRecord::settled`]): what follows from its end is written down, and only
//! then is it removed or replaced. A pod that somebody takes away, or that is gone without a word, is an infrastructure
//! loss: it costs nothing, and its place is filled again.

use std::time::Duration;

use flexor_model::{FailureBudget, IdRule, NodeId, Rank, Reason, Role, RoleKind};

use super::status::{SeatEnd, SeatRecord};
use super::{Action, Draft, PodPhase, PodSeen, PodWish};
use crate::Because;
use crate::nodes::{self, Decision, ExitKind, NodeHistory, Outcome, Relaunch, Rules};

impl Draft<'_> {
    /// Fills the seats of every role, in the order in which roles are started.
    pub(super) fn fill_seats(&mut self) {
        let job = self.observed.job;
        for role in &job.roles {
            for rank in (0..self.replicas(role)).map(Rank) {
                self.fill(role, rank);
            }
            self.take_away_surplus(role);
            // Whoever is told the address of a server had better find it there.
            if role.kind == RoleKind::ParameterServer && !self.all_run(role) {
                break;
            }
        }
    }

    fn all_run(&self, role: &Role) -> bool {
        let running = |pod: &&PodSeen| pod.role == role.name && pod.phase == PodPhase::Running && !pod.deleting;
        self.observed.pods.iter().filter(running).count() >= self.replicas(role) as usize
    }

    fn fill(&mut self, role: &Role, rank: Rank) {
        let observed = self.observed;
        let mut seat = self.take_seat(role, rank);
        let pods = observed.pods.iter().filter(|pod| pod.role == role.name && pod.rank == rank);
        let (current, others): (Vec<&PodSeen>, Vec<&PodSeen>) = pods.partition(|pod| pod.id == seat.id);
        for pod in others.into_iter().filter(|pod| !pod.deleting) {
            let because = Because::new(Reason::PodReplaced, format!("{} has taken its place", seat.id));
            self.delete(pod, because);
        }
        match current.first() {
            Some(pod) if pod.has_ended() => self.after_end(role, &mut seat, pod),
            Some(pod) if pod.deleting => self.after_loss(role, &mut seat, Some(pod)),
            Some(_) => seat.seen = true,
            None if seat.end.is_some() => {}
            None => {
                if seat.seen {
                    self.after_loss(role, &mut seat, None);
                }
                self.make(role, rank, &mut seat);
            }
        }
        self.put_seat(role, rank, seat);
    }

    /// A pod has ended: what follows from that is decided once.
    fn after_end(&mut self, role: &Role, seat: &mut SeatRecord, pod: &PodSeen) {
        if seat.settled.as_deref() == Some(&*pod.uid) {
            // Its end is written down; where the place is to be filled again, the name has to become free.
            if seat.end.is_none() && !pod.deleting {
                let because = Because::new(Reason::PodReplaced, "it is started again under its name");
                self.delete(pod, because);
            }
            return;
        }
        seat.settled = Some(pod.uid.clone());
        let exit = nodes::classify(&pod.end);
        // A master is needed as long as the job is: how it ended does not matter.
        let is_server = matches!(role.kind, RoleKind::Master | RoleKind::ParameterServer);
        let exit = match exit.kind {
            ExitKind::Succeeded if is_server => nodes::Exit { kind: ExitKind::Killed, detail: exit.detail },
            _ => exit,
        };
        let ran = pod.finished_at.zip(pod.started_at).map_or(Duration::ZERO, |(end, start)| end.saturating_sub(start));
        let rules = Rules::of(role, pod.rank, self.observed.job.strategy);
        let of_role = matches!(role.failures, FailureBudget::PerRole(_));
        let counted = self.status.roles.get(&role.name).map_or(0, |seats| seats.counted);
        let history = if of_role { NodeHistory { counted, ..seat.history.clone() } } else { seat.history.clone() };
        let decision = nodes::decide(&history, &exit, ran, &rules);
        let after = history.after(&decision, ran, &rules.back_off);
        if of_role && let Some(seats) = self.status.roles.get_mut(&role.name) {
            seats.counted = after.counted;
        }
        seat.history = after;
        self.tell_of(&pod.name, decision.because().clone());
        match decision {
            Decision::Relaunch(relaunch) => self.relaunch(role, seat, pod, &relaunch),
            Decision::Final(last) => {
                let (succeeded, fails_job) = (last.outcome == Outcome::Succeeded, last.outcome == Outcome::JobFailed);
                seat.end = Some(SeatEnd { succeeded, fails_job, because: last.because });
            }
        }
    }

    fn relaunch(&mut self, role: &Role, seat: &mut SeatRecord, pod: &PodSeen, relaunch: &Relaunch) {
        seat.relaunches += 1;
        seat.not_before = (!relaunch.after.is_zero()).then(|| self.now + relaunch.after);
        match role.naming.ids {
            IdRule::Rank => self.delete(pod, Because::new(Reason::PodReplaced, "it is started again under its name")),
            IdRule::Increasing => self.next_id(role, seat),
        }
    }

    /// A pod is going or gone. Unless its end was settled before, nobody here wanted that.
    fn after_loss(&mut self, role: &Role, seat: &mut SeatRecord, pod: Option<&PodSeen>) {
        let is_settled = match pod {
            Some(pod) => seat.settled.as_deref() == Some(&*pod.uid),
            None => seat.settled.is_some(),
        };
        if pod.is_none() {
            (seat.seen, seat.settled) = (false, None);
        }
        if is_settled {
            return;
        }
        let detail = "its place is filled again, which costs nothing";
        match pod {
            Some(pod) => {
                seat.settled = Some(pod.uid.clone());
                self.tell_of(&pod.name, Because::new(Reason::PodDeleted, format!("somebody deleted it; {detail}")));
            }
            None => {
                let gone = format!("pod {} of {} is gone without a word; {detail}", seat.id, role.name);
                self.tell(Because::new(Reason::PodDeleted, gone));
            }
        }
        seat.relaunches += 1;
        if role.naming.ids == IdRule::Increasing {
            self.next_id(role, seat);
        }
    }

    fn make(&mut self, role: &Role, rank: Rank, seat: &mut SeatRecord) {
        if let Some(at) = seat.not_before.filter(|at| *at > self.now) {
            return self.wake(at);
        }
        seat.not_before = None;
        let replicas = self.all_replicas();
        let (name, labels) = {
            let place = self.seat(role, seat.id, rank, seat.relaunches, &replicas);
            let labels = role.naming.labels.iter().map(|(key, pattern)| (key.clone(), pattern.fill(&place)));
            (role.naming.pod.fill(&place), labels.collect())
        };
        let resources = self.status.targets.get(&role.name).map(|target| target.resources.clone()).unwrap_or_default();
        let because = match seat.relaunches {
            0 => Because::new(Reason::PodWanted, format!("{} is to have {} replicas", role.name, self.replicas(role))),
            times => Because::new(Reason::PodWanted, format!("its place is filled again, for the {times}. time")),
        };
        self.act(Action::CreatePod(Box::new(PodWish {
            name,
            role: role.name.clone(),
            id: seat.id,
            rank,
            relaunches: seat.relaunches,
            labels,
            replicas,
            resources,
            memory: seat.history.memory,
            because,
        })));
    }

    /// The role has become smaller: the highest ranks go.
    fn take_away_surplus(&mut self, role: &Role) {
        let replicas = self.replicas(role);
        let observed = self.observed;
        let mut surplus: Vec<&PodSeen> = observed
            .pods
            .iter()
            .filter(|pod| pod.role == role.name && pod.rank.0 >= replicas && !pod.deleting)
            .collect();
        surplus.sort_by_key(|pod| std::cmp::Reverse(pod.rank));
        for pod in surplus {
            let detail = format!("{} is to have {replicas} replicas", role.name);
            self.delete(pod, Because::new(Reason::NodeRemoved, detail));
        }
        if let Some(seats) = self.status.roles.get_mut(&role.name) {
            seats.seats.retain(|rank, _| rank.0 < replicas);
        }
    }

    pub(super) fn delete(&mut self, pod: &PodSeen, because: Because) {
        self.act(Action::DeletePod { name: pod.name.clone(), uid: pod.uid.clone(), because });
    }

    fn take_seat(&mut self, role: &Role, rank: Rank) -> SeatRecord {
        let seats = self.status.roles.entry(role.name.clone()).or_default();
        if let Some(seat) = seats.seats.get(&rank) {
            return seat.clone();
        }
        // A pod that is there already was made by somebody before us: its number is taken over.
        let found = self.observed.pods.iter().filter(|pod| pod.role == role.name && pod.rank == rank && !pod.deleting);
        let found = found.map(|pod| pod.id).max();
        let mut seat = SeatRecord::new(found.unwrap_or(NodeId(rank.0)));
        match (role.naming.ids, found) {
            (IdRule::Increasing, None) => self.next_id(role, &mut seat),
            (IdRule::Increasing, Some(id)) => seats.next_id = seats.next_id.max(id.0 + 1),
            (IdRule::Rank, _) => {}
        }
        let memory = role.template.main().requests().memory();
        seat.history.memory = memory;
        seat
    }

    fn put_seat(&mut self, role: &Role, rank: Rank, seat: SeatRecord) {
        self.status.roles.entry(role.name.clone()).or_default().seats.insert(rank, seat);
    }

    /// The next number that no pod of the role has had.
    fn next_id(&mut self, role: &Role, seat: &mut SeatRecord) {
        let pods = self.observed.pods.iter().filter(|pod| pod.role == role.name);
        let used = pods.map(|pod| pod.id.0 + 1).max().unwrap_or(0);
        let seats = self.status.roles.entry(role.name.clone()).or_default();
        let id = seats.next_id.max(used);
        seats.next_id = id + 1;
        (seat.id, seat.seen) = (NodeId(id), false);
    }
}
