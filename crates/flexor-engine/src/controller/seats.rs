//! Who sits where: every place of a role has one pod, from when it is wanted until its work is done.
//!
//! A pod that has ended is looked at once ([`SeatRecord::settled`]): what follows from its end is written down, and only
//! then is it removed or replaced. A pod that somebody takes away, or that is gone without a word, is an infrastructure
//! loss: it costs nothing, and its place is filled again. All of this is told here, and by nobody else.

use std::time::Duration;

use flexor_model::{FailureBudget, IdRule, NodeId, Quantity, Rank, Reason, Resources, Role, RoleKind};

use super::migration::Migration;
use super::status::{SeatEnd, SeatRecord};
use super::{Action, Draft, PodPhase, PodSeen, PodWish, counted};
use crate::Because;
use crate::nodes::{self, Decision, Deletion, ExitKind, NodeHistory, Observed, Outcome, Relaunch, Rules};

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
        self.running(role) >= self.replicas(role) as usize
    }

    /// How many pods of a role run.
    pub(super) fn running(&self, role: &Role) -> usize {
        let pods = self.places.of_role(&role.name);
        pods.filter(|pod| pod.phase == PodPhase::Running && !pod.deleting).count()
    }

    fn fill(&mut self, role: &Role, rank: Rank) {
        let mut seat = self.take_seat(role, rank);
        self.migrate(role, rank, &mut seat);
        let coming = seat.migration.as_ref().and_then(Migration::successor);
        let pods = self.places.at(&role.name, rank).iter().copied().filter(|pod| Some(pod.id) != coming);
        let (current, others): (Vec<&PodSeen>, Vec<&PodSeen>) = pods.partition(|pod| pod.id == seat.id);
        for pod in others.into_iter().filter(|pod| !pod.deleting) {
            let holder = self.pod_name(role, seat.id, rank, seat.relaunches);
            let because = if pod.id > seat.id {
                Because::new(Reason::NodeRemoved, format!("{holder} stays in the place that it was to take"))
            } else {
                Because::new(Reason::PodReplaced, format!("{holder} has taken its place"))
            };
            self.delete(pod, because);
        }
        match current.first() {
            Some(pod) if pod.has_ended() => self.after_end(role, &mut seat, pod),
            Some(pod) if pod.deleting => self.after_loss(role, &mut seat, Some(pod)),
            // What was settled is the end of one before it.
            Some(_) => (seat.seen, seat.settled) = (true, None),
            None if seat.end.is_some() => {}
            None => {
                if seat.seen {
                    self.after_loss(role, &mut seat, None);
                }
                let has_successor = self.places.at(&role.name, rank).iter().any(|pod| pod.id == seat.id);
                match self.run_is_over(role) {
                    _ if has_successor => {}
                    Some(because) => {
                        self.tell(because.clone());
                        seat.end = Some(SeatEnd { succeeded: true, fails_job: false, because });
                    }
                    None => self.make(role, rank, &mut seat),
                }
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
        let exit = nodes::classify(&end_of(pod));
        // A master is needed as long as the job is: how it ended does not matter.
        let is_server = matches!(role.kind, RoleKind::Master | RoleKind::ParameterServer);
        let exit = match exit.kind {
            ExitKind::Succeeded if is_server => nodes::Exit { kind: ExitKind::Killed, detail: exit.detail },
            _ => exit,
        };
        let ran = pod.finished_at.zip(pod.started_at).map_or(Duration::ZERO, |(end, start)| end.saturating_sub(start));
        let rules = Rules::of(role, pod.rank, self.observed.job.strategy, &self.planned(role, &seat.resources));
        let of_role = matches!(role.failures, FailureBudget::PerRole(_));
        let counted = self.status.roles.get(&role.name).map_or(0, |seats| seats.counted);
        let history = if of_role { NodeHistory { counted, ..seat.history.clone() } } else { seat.history.clone() };
        let decision = nodes::decide(&history, &exit, ran, &rules);
        let after = history.after(&decision, ran, &rules.back_off);
        if of_role && let Some(seats) = self.status.roles.get_mut(&role.name) {
            seats.counted = after.counted;
        }
        seat.history = after;
        if self.given_up().is_some() && !is_server && matches!(decision, Decision::Relaunch(_)) {
            // It stays to be looked at: what it has to say about its end is what the job fails with.
            let because =
                Because::new(Reason::RetriesExhausted, format!("{exit}; its master has given the program up"));
            self.tell_of(&pod.name, because.clone());
            seat.end = Some(SeatEnd { succeeded: false, fails_job: false, because });
            return;
        }
        if let (Decision::Relaunch(_), Some(because)) = (&decision, self.run_is_over(role)) {
            self.tell_of(&pod.name, because.clone());
            seat.end = Some(SeatEnd { succeeded: true, fails_job: false, because });
            return;
        }
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
        seat.more_memory = relaunch.memory.or(seat.more_memory);
        match role.naming.ids {
            IdRule::Rank if pod.deleting => {}
            IdRule::Rank => self.delete(pod, Because::new(Reason::PodReplaced, "it is started again under its name")),
            IdRule::Increasing => self.replace(role, seat),
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
        let again = "its place is filled again, which costs nothing";
        match pod {
            Some(pod) => {
                seat.settled = Some(pod.uid.clone());
                let exit = nodes::classify(&end_of(pod));
                self.tell_of(&pod.name, Because::new(exit.kind.reason(), format!("{}; {again}", exit.detail)));
            }
            None => {
                let gone = format!("pod {} of {} is gone without a word; {again}", seat.id, role.name);
                self.tell(Because::new(Reason::PodDeleted, gone));
            }
        }
        seat.relaunches += 1;
        if role.naming.ids == IdRule::Increasing {
            self.replace(role, seat);
        }
    }

    /// Why a node of a role is not needed any more: the program has ended well on another, and its master lets nobody
    /// meet any more. A node that was lost in that moment would only find the door closed.
    fn run_is_over(&self, role: &Role) -> Option<Because> {
        let trains = matches!(role.kind, RoleKind::Worker | RoleKind::Chief);
        let closed = self
            .observed
            .closed
            .filter(|closed| trains && matches!(closed.reason, Reason::RunFinished | Reason::ClosedByNode))?;
        let seats = self.status.roles.get(&role.name)?;
        let has_succeeded = seats.seats.values().any(|seat| seat.end.as_ref().is_some_and(|end| end.succeeded));
        let detail = format!("the program has ended well elsewhere, and the run is over: {closed}");
        has_succeeded.then(|| Because::new(Reason::RunOver, detail))
    }

    fn make(&mut self, role: &Role, rank: Rank, seat: &mut SeatRecord) {
        if let Some(at) = seat.not_before.filter(|at| *at > self.now) {
            return self.wake(at);
        }
        seat.not_before = None;
        let because = match seat.relaunches {
            0 => Because::new(
                Reason::PodWanted,
                format!("{} is to have {}", role.name, counted(self.replicas(role) as usize, "replica")),
            ),
            times => Because::new(
                Reason::PodWanted,
                format!("its place is filled again ({})", counted(times as usize, "restart")),
            ),
        };
        let memory = self.create(role, rank, seat, (seat.id, &seat.resources), because);
        seat.history.memory = memory;
    }

    /// Has a pod made for a place, with this number, that asks for this. The memory that it asks for.
    pub(super) fn create(
        &mut self,
        role: &Role,
        rank: Rank,
        seat: &SeatRecord,
        (id, of_place): (NodeId, &Resources),
        because: Because,
    ) -> Option<Quantity> {
        let replicas = self.all_replicas();
        let (name, labels) = {
            let place = self.seat(role, id, rank, seat.relaunches, &replicas);
            let labels = role.naming.labels.iter().map(|(key, pattern)| (key.clone(), pattern.fill(&place)));
            (role.naming.pod.fill(&place), labels.collect())
        };
        let resources = self.planned(role, of_place);
        let asked = self.memory_asked(role, of_place);
        let memory = seat.grown_memory(asked);
        self.act(Action::CreatePod(Box::new(PodWish {
            name,
            role: role.name.clone(),
            id,
            rank,
            relaunches: seat.relaunches,
            labels,
            replicas,
            resources,
            memory,
            because,
        })));
        memory.or(asked)
    }

    /// What the pod of a place is called.
    pub(super) fn pod_name(&self, role: &Role, id: NodeId, rank: Rank, relaunches: u32) -> String {
        let replicas = self.all_replicas();
        role.naming.pod.fill(&self.seat(role, id, rank, relaunches, &replicas))
    }

    fn take_seat(&mut self, role: &Role, rank: Rank) -> SeatRecord {
        let seats = self.status.roles.entry(role.name.clone()).or_default();
        if let Some(seat) = seats.seats.get(&rank) {
            return seat.clone();
        }
        // A pod that is there already was made by somebody before us: its number is taken over.
        let found = self.places.at(&role.name, rank).iter().filter(|pod| !pod.deleting).map(|pod| pod.id).max();
        let mut seat = SeatRecord::new(found.unwrap_or(NodeId(rank.0)));
        match (role.naming.ids, found) {
            (IdRule::Increasing, None) => seat.id = self.next_id(role),
            (IdRule::Increasing, Some(id)) => seats.next_id = seats.next_id.max(id.0 + 1),
            (IdRule::Rank, _) => {}
        }
        // One that was going before the seat was there was taken away with a seat before it, and is no loss of this one.
        let going = self.places.at(&role.name, rank).iter().find(|pod| pod.deleting && pod.id == seat.id);
        seat.settled = going.map(|pod| pod.uid.clone());
        seat.history.memory = self.memory_asked(role, &seat.resources);
        seat
    }

    fn put_seat(&mut self, role: &Role, rank: Rank, seat: SeatRecord) {
        self.status.roles.entry(role.name.clone()).or_default().seats.insert(rank, seat);
    }

    /// Who is lost is replaced by its successor where there is one, else by one with the next number.
    fn replace(&mut self, role: &Role, seat: &mut SeatRecord) {
        if !seat.give_to_successor() {
            (seat.id, seat.seen) = (self.next_id(role), false);
        }
    }

    /// The next number that no pod of the role has had.
    pub(super) fn next_id(&mut self, role: &Role) -> NodeId {
        let seats = self.status.roles.entry(role.name.clone()).or_default();
        let id = seats.next_id.max(self.places.next_id(&role.name));
        seats.next_id = id + 1;
        NodeId(id)
    }
}

/// What is known of the end of a pod that is not settled. Had the controller deleted it, it would be.
pub(super) fn end_of(pod: &PodSeen) -> Observed {
    let deletion = if pod.deleting { Some(Deletion::Others) } else { pod.end.deletion };
    Observed { deletion, ..pod.end.clone() }
}
