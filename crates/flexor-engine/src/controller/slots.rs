//! Who sits where: every place of a role has one pod, from when it is wanted until its work is done.
//!
//! A pod that has ended is looked at once ([`Slot::settled`]): what follows from its end is written down, and only
//! then is it removed or replaced. A pod that somebody takes away, or that is gone without a word, is an infrastructure
//! loss: it costs nothing, and its place is filled again. All of this is told here, and by nobody else.

use std::time::Duration;

use flexor_model::{FailureBudget, IdRule, NodeId, Quantity, Rank, Reason, Resources, Role, RoleKind};

use super::migration::Migration;
use super::status::{Slot, SlotEnd};
use super::{Action, DesiredPod, ObservedPod, PodPhase, Reconciler, counted};
use crate::Cause;
use crate::nodes::{self, Decision, Deletion, ExitKind, NodeHistory, ObservedExit, Outcome, Relaunch, Rules};

impl Reconciler<'_> {
    /// Fills the seats of every role, in the order in which roles are started.
    pub(super) fn reconcile_slots(&mut self) {
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
        let mut slot = self.slot_at(role, rank);
        self.migrate(role, rank, &mut slot);
        let coming = slot.migration.as_ref().and_then(Migration::successor);
        let pods = self.places.at(&role.name, rank).iter().copied().filter(|pod| Some(pod.id) != coming);
        let (current, others): (Vec<&ObservedPod>, Vec<&ObservedPod>) = pods.partition(|pod| pod.id == slot.id);
        for pod in others.into_iter().filter(|pod| !pod.deleting) {
            let holder = self.pod_name(role, slot.id, rank, slot.relaunches);
            let cause = if pod.id > slot.id {
                Cause::new(Reason::NodeRemoved, format!("{holder} stays in the place that it was to take"))
            } else {
                Cause::new(Reason::PodReplaced, format!("{holder} has taken its place"))
            };
            self.delete(pod, cause);
        }
        match current.first() {
            Some(pod) if pod.has_ended() => self.after_end(role, &mut slot, pod),
            Some(pod) if pod.deleting => self.after_loss(role, &mut slot, Some(pod)),
            // What was settled is the end of one before it.
            Some(_) => (slot.seen, slot.settled) = (true, None),
            None if slot.end.is_some() => {}
            None => {
                if slot.seen {
                    self.after_loss(role, &mut slot, None);
                }
                let has_successor = self.places.at(&role.name, rank).iter().any(|pod| pod.id == slot.id);
                match self.run_is_over(role) {
                    _ if has_successor => {}
                    Some(cause) => {
                        self.tell(cause.clone());
                        slot.end = Some(SlotEnd { succeeded: true, fails_job: false, cause });
                    }
                    None => self.make(role, rank, &mut slot),
                }
            }
        }
        self.put_slot(role, rank, slot);
    }

    /// A pod has ended: what follows from that is decided once.
    fn after_end(&mut self, role: &Role, slot: &mut Slot, pod: &ObservedPod) {
        if slot.settled.as_deref() == Some(&*pod.uid) {
            // Its end is written down; where the place is to be filled again, the name has to become free.
            if slot.end.is_none() && !pod.deleting {
                let cause = Cause::new(Reason::PodReplaced, "it is started again under its name");
                self.delete(pod, cause);
            }
            return;
        }
        slot.settled = Some(pod.uid.clone());
        let exit = nodes::classify(&end_of(pod));
        // A master is needed as long as the job is: how it ended does not matter.
        let is_server = matches!(role.kind, RoleKind::Master | RoleKind::ParameterServer);
        let exit = match exit.kind {
            ExitKind::Succeeded if is_server => nodes::Exit { kind: ExitKind::Killed, detail: exit.detail },
            _ => exit,
        };
        let ran = pod.finished_at.zip(pod.started_at).map_or(Duration::ZERO, |(end, start)| end.saturating_sub(start));
        let rules = Rules::of(role, pod.rank, self.observed.job.strategy, &self.planned(role, &slot.resources));
        let of_role = matches!(role.failures, FailureBudget::PerRole(_));
        let counted = self.status.roles.get(&role.name).map_or(0, |slots| slots.counted);
        let history = if of_role { NodeHistory { counted, ..slot.history.clone() } } else { slot.history.clone() };
        let decision = nodes::decide(&history, &exit, ran, &rules);
        let after = history.after(&decision, ran, &rules.back_off);
        if of_role && let Some(slots) = self.status.roles.get_mut(&role.name) {
            slots.counted = after.counted;
        }
        slot.history = after;
        if self.given_up().is_some() && !is_server && matches!(decision, Decision::Relaunch(_)) {
            // It stays to be looked at: what it has to say about its end is what the job fails with.
            let cause = Cause::new(Reason::RetriesExhausted, format!("{exit}; its master has given the program up"));
            self.tell_of(&pod.name, cause.clone());
            slot.end = Some(SlotEnd { succeeded: false, fails_job: false, cause });
            return;
        }
        if let (Decision::Relaunch(_), Some(cause)) = (&decision, self.run_is_over(role)) {
            self.tell_of(&pod.name, cause.clone());
            slot.end = Some(SlotEnd { succeeded: true, fails_job: false, cause });
            return;
        }
        self.tell_of(&pod.name, decision.cause().clone());
        match decision {
            Decision::Relaunch(relaunch) => self.relaunch(role, slot, pod, &relaunch),
            Decision::Final(last) => {
                let (succeeded, fails_job) = (last.outcome == Outcome::Succeeded, last.outcome == Outcome::JobFailed);
                slot.end = Some(SlotEnd { succeeded, fails_job, cause: last.cause });
            }
        }
    }

    fn relaunch(&mut self, role: &Role, slot: &mut Slot, pod: &ObservedPod, relaunch: &Relaunch) {
        slot.relaunches += 1;
        slot.not_before = (!relaunch.after.is_zero()).then(|| self.now + relaunch.after);
        slot.more_memory = relaunch.memory.or(slot.more_memory);
        match role.naming.ids {
            IdRule::Rank if pod.deleting => {}
            IdRule::Rank => self.delete(pod, Cause::new(Reason::PodReplaced, "it is started again under its name")),
            IdRule::Increasing => self.replace(role, slot),
        }
    }

    /// A pod is going or gone. Unless its end was settled before, nobody here wanted that.
    fn after_loss(&mut self, role: &Role, slot: &mut Slot, pod: Option<&ObservedPod>) {
        let is_settled = match pod {
            Some(pod) => slot.settled.as_deref() == Some(&*pod.uid),
            None => slot.settled.is_some(),
        };
        if pod.is_none() {
            (slot.seen, slot.settled) = (false, None);
        }
        if is_settled {
            return;
        }
        let again = "its place is filled again, which costs nothing";
        match pod {
            Some(pod) => {
                slot.settled = Some(pod.uid.clone());
                let exit = nodes::classify(&end_of(pod));
                self.tell_of(&pod.name, Cause::new(exit.kind.reason(), format!("{}; {again}", exit.detail)));
            }
            None => {
                let gone = format!("pod {} of {} is gone without a word; {again}", slot.id, role.name);
                self.tell(Cause::new(Reason::PodDeleted, gone));
            }
        }
        slot.relaunches += 1;
        if role.naming.ids == IdRule::Increasing {
            self.replace(role, slot);
        }
    }

    /// Why a node of a role is not needed any more: the program has ended well on another, and its master lets nobody
    /// meet any more. A node that was lost in that moment would only find the door closed.
    fn run_is_over(&self, role: &Role) -> Option<Cause> {
        let trains = matches!(role.kind, RoleKind::Worker | RoleKind::Chief);
        let closed = self
            .observed
            .closed
            .filter(|closed| trains && matches!(closed.reason, Reason::RunFinished | Reason::ClosedByNode))?;
        let slots = self.status.roles.get(&role.name)?;
        let has_succeeded = slots.slots.values().any(|slot| slot.end.as_ref().is_some_and(|end| end.succeeded));
        let detail = format!("the program has ended well elsewhere, and the run is over: {closed}");
        has_succeeded.then(|| Cause::new(Reason::RunOver, detail))
    }

    fn make(&mut self, role: &Role, rank: Rank, slot: &mut Slot) {
        if let Some(at) = slot.not_before.filter(|at| *at > self.now) {
            return self.wake(at);
        }
        slot.not_before = None;
        let cause = match slot.relaunches {
            0 => Cause::new(
                Reason::PodWanted,
                format!("{} is to have {}", role.name, counted(self.replicas(role) as usize, "replica")),
            ),
            times => Cause::new(
                Reason::PodWanted,
                format!("its place is filled again ({})", counted(times as usize, "restart")),
            ),
        };
        let memory = self.create(role, rank, slot, (slot.id, &slot.resources), cause);
        slot.history.memory = memory;
    }

    /// Has a pod made for a place, with this number, that asks for this. The memory that it asks for.
    pub(super) fn create(
        &mut self,
        role: &Role,
        rank: Rank,
        slot: &Slot,
        (id, of_place): (NodeId, &Resources),
        cause: Cause,
    ) -> Option<Quantity> {
        let replicas = self.all_replicas();
        let (name, labels) = {
            let place = self.identity(role, id, rank, slot.relaunches, &replicas);
            let labels = role.naming.labels.iter().map(|(key, pattern)| (key.clone(), pattern.fill(&place)));
            (role.naming.pod.fill(&place), labels.collect())
        };
        let resources = self.planned(role, of_place);
        let asked = self.memory_asked(role, of_place);
        let memory = slot.grown_memory(asked);
        self.act(Action::CreatePod(Box::new(DesiredPod {
            name,
            role: role.name.clone(),
            id,
            rank,
            relaunches: slot.relaunches,
            labels,
            replicas,
            resources,
            memory,
            cause,
        })));
        memory.or(asked)
    }

    /// What the pod of a place is called.
    pub(super) fn pod_name(&self, role: &Role, id: NodeId, rank: Rank, relaunches: u32) -> String {
        let replicas = self.all_replicas();
        role.naming.pod.fill(&self.identity(role, id, rank, relaunches, &replicas))
    }

    fn slot_at(&mut self, role: &Role, rank: Rank) -> Slot {
        let slots = self.status.roles.entry(role.name.clone()).or_default();
        if let Some(slot) = slots.slots.get(&rank) {
            return slot.clone();
        }
        // A pod that is there already was made by somebody before us: its number is taken over.
        let found = self.places.at(&role.name, rank).iter().filter(|pod| !pod.deleting).map(|pod| pod.id).max();
        let mut slot = Slot::new(found.unwrap_or(NodeId(rank.0)));
        match (role.naming.ids, found) {
            (IdRule::Increasing, None) => slot.id = self.next_id(role),
            (IdRule::Increasing, Some(id)) => slots.next_id = slots.next_id.max(id.0 + 1),
            (IdRule::Rank, _) => {}
        }
        // One that was going before the seat was there was taken away with a seat before it, and is no loss of this one.
        let going = self.places.at(&role.name, rank).iter().find(|pod| pod.deleting && pod.id == slot.id);
        slot.settled = going.map(|pod| pod.uid.clone());
        slot.history.memory = self.memory_asked(role, &slot.resources);
        slot
    }

    fn put_slot(&mut self, role: &Role, rank: Rank, slot: Slot) {
        self.status.roles.entry(role.name.clone()).or_default().slots.insert(rank, slot);
    }

    /// Who is lost is replaced by its successor where there is one, else by one with the next number.
    fn replace(&mut self, role: &Role, slot: &mut Slot) {
        if !slot.give_to_successor() {
            (slot.id, slot.seen) = (self.next_id(role), false);
        }
    }

    /// The next number that no pod of the role has had.
    pub(super) fn next_id(&mut self, role: &Role) -> NodeId {
        let slots = self.status.roles.entry(role.name.clone()).or_default();
        let id = slots.next_id.max(self.places.next_id(&role.name));
        slots.next_id = id + 1;
        NodeId(id)
    }
}

/// What is known of the end of a pod that is not settled. Had the controller deleted it, it would be.
pub(super) fn end_of(pod: &ObservedPod) -> ObservedExit {
    let deletion = if pod.deleting { Some(Deletion::Others) } else { pod.end.deletion };
    ObservedExit { deletion, ..pod.end.clone() }
}
