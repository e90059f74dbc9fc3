//! The replica slots of each role: every slot has one pod until its work is done.
//!
//! The end of a pod is decided upon once ([`Slot::settled`]). The decision is written to the status before the pod is
//! removed or replaced. A pod that was deleted or is gone without a trace is an infrastructure loss: it is not charged,
//! and its slot is filled again.

use std::time::Duration;

use flexor_model::{FailureBudget, IdRule, NodeId, Quantity, Rank, Reason, Resources, Role, RoleKind, UnixTime};

use super::migration::Migration;
use super::status::{Slot, SlotEnd};
use super::{Action, DesiredPod, Event, ObservedPod, Place, PodPhase, Reconciler, RefusedCreate, counted};
use crate::Cause;
use crate::nodes::{self, BackOff, Decision, Deletion, ExitKind, NodeHistory, ObservedExit, Outcome, Relaunch, Rules};

/// A creation that is refused is tried again after this at the latest: nothing says when a quota is lifted.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

impl Reconciler<'_> {
    /// Fills the slots of every role, in the order in which roles are started.
    pub(super) fn reconcile_slots(&mut self) {
        let job = self.observed.job;
        let mut servers_run = true;
        for role in &job.roles {
            // Workers connect to parameter servers when they start.
            if servers_run {
                for rank in self.ranks(role) {
                    self.fill(role, rank);
                }
            }
            self.remove_surplus(role);
            servers_run &= role.kind != RoleKind::ParameterServer || self.all_run(role);
        }
    }

    fn all_run(&self, role: &Role) -> bool {
        self.running(role) >= self.replicas(role) as usize
    }

    /// How many pods of a role run and are not terminating.
    pub(super) fn running(&self, role: &Role) -> usize {
        let pods = self.pods.of_role(&role.name);
        pods.filter(|pod| pod.phase == PodPhase::Running && !pod.deleting).count()
    }

    fn fill(&mut self, role: &Role, rank: Rank) {
        let mut slot = self.slot_at(role, rank);
        self.migrate(role, rank, &mut slot);
        let coming = slot.migration.as_ref().and_then(Migration::successor);
        let pods = self.pods.at(&role.name, rank).iter().copied().filter(|pod| Some(pod.id) != coming);
        let (current, others): (Vec<&ObservedPod>, Vec<&ObservedPod>) = pods.partition(|pod| pod.id == slot.id);
        for pod in others {
            let holder = self.pod_name(role, slot.id, rank, slot.relaunches);
            let cause = if pod.id > slot.id {
                Cause::new(Reason::NodeRemoved, format!("{holder} stays in the slot that it was to take"))
            } else {
                Cause::new(Reason::PodReplaced, format!("{holder} has taken its slot"))
            };
            self.delete(pod, cause);
        }
        match current.first() {
            _ if slot.end.is_some() => {}
            Some(pod) if pod.has_ended() => self.after_end(role, &mut slot, pod),
            Some(pod) if pod.deleting => {
                self.after_loss(role, rank, &mut slot, Some(pod));
                self.force_overdue(pod);
            }
            Some(pod) if self.is_moved(role, &pod.uid) => {
                // The controller ends it, so its end is no loss.
                slot.settled = Some(pod.uid.clone());
                self.delete(pod, Cause::new(Reason::NodeRemoved, "its node is gone, closed or full"));
            }
            // The settled pod was an earlier incarnation.
            Some(_) => (slot.seen, slot.settled) = (true, None),
            None => {
                if slot.seen {
                    self.after_loss(role, rank, &mut slot, None);
                }
                let has_successor = self.pods.at(&role.name, rank).iter().any(|pod| pod.id == slot.id);
                match self.run_is_over(role) {
                    _ if has_successor => {}
                    Some(cause) => {
                        self.record(cause.clone());
                        slot.finish(SlotEnd { succeeded: true, fails_job: false, cause });
                    }
                    None => self.make(role, rank, &mut slot),
                }
            }
        }
        self.put_slot(role, rank, slot);
    }

    /// A pod has ended: decides once what follows.
    fn after_end(&mut self, role: &Role, slot: &mut Slot, pod: &ObservedPod) {
        if slot.settled.as_deref() == Some(&*pod.uid) {
            // The slot is filled again once the pod's name is free.
            let cause = Cause::new(Reason::PodReplaced, "it is started again under its name");
            return self.delete(pod, cause);
        }
        slot.settled = Some(pod.uid.clone());
        let exit = nodes::classify(&end_of(pod));
        // A server is needed as long as the job runs, so one that ends well is relaunched too.
        let is_server = matches!(role.kind, RoleKind::Master | RoleKind::ParameterServer);
        let exit = match exit.kind {
            ExitKind::Succeeded if is_server => nodes::Exit { kind: ExitKind::Killed, ..exit },
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
            // The pod stays: its error is what the job fails with.
            let cause = Cause::new(Reason::RetriesExhausted, format!("{exit}; its master has given the program up"));
            self.record_of(&pod.name, cause.clone());
            return slot.finish(SlotEnd { succeeded: false, fails_job: false, cause });
        }
        if let (Decision::Relaunch(_), Some(cause)) = (&decision, self.run_is_over(role)) {
            self.record_of(&pod.name, cause.clone());
            return slot.finish(SlotEnd { succeeded: true, fails_job: false, cause });
        }
        let is_loss = |relaunch: &Relaunch| !relaunch.counted && relaunch.after.is_zero();
        match decision {
            Decision::Relaunch(relaunch) => {
                match is_loss(&relaunch) {
                    true => self.record_loss(role, pod.rank, Some(&pod.name), relaunch.cause.clone()),
                    false => self.record_of(&pod.name, relaunch.cause.clone()),
                }
                self.relaunch(role, slot, pod, &relaunch);
            }
            Decision::Final(last) => {
                self.record_of(&pod.name, last.cause.clone());
                let (succeeded, fails_job) = (last.outcome == Outcome::Succeeded, last.outcome == Outcome::JobFailed);
                slot.finish(SlotEnd { succeeded, fails_job, cause: last.cause });
            }
        }
    }

    fn relaunch(&mut self, role: &Role, slot: &mut Slot, pod: &ObservedPod, relaunch: &Relaunch) {
        slot.relaunches += 1;
        slot.not_before = (!relaunch.after.is_zero()).then(|| self.now + relaunch.after);
        slot.more_memory = relaunch.memory.or(slot.more_memory);
        match role.naming.ids {
            IdRule::Rank => self.delete(pod, Cause::new(Reason::PodReplaced, "it is started again under its name")),
            IdRule::Increasing => self.replace(role, slot),
        }
    }

    /// A pod is terminating or gone. Unless its end was settled before, it was lost.
    fn after_loss(&mut self, role: &Role, rank: Rank, slot: &mut Slot, pod: Option<&ObservedPod>) {
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
        let free = "this costs no retry";
        match pod {
            Some(pod) => {
                slot.settled = Some(pod.uid.clone());
                let exit = nodes::classify(&end_of(pod));
                let cause = Cause::new(exit.kind.reason(), format!("{}; {free}", exit.detail));
                self.record_loss(role, rank, Some(&pod.name), cause);
            }
            None => {
                let gone = format!("pod {} of {} is gone without a trace; {free}", slot.id, role.name);
                self.record_loss(role, rank, None, Cause::new(Reason::PodDeleted, gone));
            }
        }
        slot.relaunches += 1;
        if role.naming.ids == IdRule::Increasing {
            self.replace(role, slot);
        }
    }

    fn record_loss(&mut self, role: &Role, rank: Rank, pod: Option<&str>, cause: Cause) {
        let event = Event { pod: pod.map(str::to_owned), cause };
        self.act(Action::RecordLoss { event, role: role.name.clone(), rank });
    }

    /// Why a pod of a role need not be replaced: the program has ended well in another, and the rendezvous is closed.
    /// A replacement could not join.
    fn run_is_over(&self, role: &Role) -> Option<Cause> {
        let trains = matches!(role.kind, RoleKind::Worker | RoleKind::Chief);
        let closed = self
            .observed
            .closed
            .filter(|closed| trains && matches!(closed.reason, Reason::RunFinished | Reason::ClosedByNode))?;
        let slots = self.status.roles.get(&role.name)?;
        let has_succeeded = slots.slots.values().any(|slot| slot.end.as_ref().is_some_and(|end| end.succeeded));
        let message = format!("the program has ended well elsewhere, and the run is over: {closed}");
        has_succeeded.then(|| Cause::new(Reason::RunOver, message))
    }

    fn make(&mut self, role: &Role, rank: Rank, slot: &mut Slot) {
        let Ok(place) = self.place(role, rank) else { return };
        let name = self.pod_name(role, slot.id, rank, slot.relaunches);
        let retry_at = self.retry_at(&name);
        if let Some(at) = slot.not_before.max(retry_at).filter(|at| *at > self.now) {
            return self.requeue(at);
        }
        slot.not_before = None;
        let cause = match slot.relaunches {
            0 => Cause::new(
                Reason::PodWanted,
                format!("{} is to have {}", role.name, counted(self.replicas(role) as usize, "replica")),
            ),
            times => Cause::new(
                Reason::PodWanted,
                format!("its slot is filled again ({})", counted(times as usize, "restart")),
            ),
        };
        let memory = self.create(role, rank, slot, (slot.id, &slot.resources, place), cause);
        slot.history.memory = memory;
    }

    /// When a pod whose creation was refused is tried again; the job's status says what it lacks until then.
    pub(super) fn retry_at(&mut self, pod: &str) -> Option<UnixTime> {
        let refused = self.observed.executor.refused.get(pod)?;
        Some(self.show_refusal(pod, refused))
    }

    /// Has the job's status say that an object cannot be created. Returns when it is tried again.
    pub(super) fn show_refusal(&mut self, object: &str, refused: &RefusedCreate) -> UnixTime {
        let message = format!("{object} cannot be created: {}", refused.message);
        self.refused.get_or_insert(Cause::new(Reason::CreateRefused, message));
        refused.tried_at + BackOff { longest: LONGEST_PAUSE, ..BackOff::default() }.wait(refused.attempts)
    }

    /// Creates a pod with this id and these resources for a slot, unless that is under way. Returns the memory that it
    /// requests.
    pub(super) fn create(
        &mut self,
        role: &Role,
        rank: Rank,
        slot: &Slot,
        (id, of_slot, place): (NodeId, &Resources, Option<Place>),
        cause: Cause,
    ) -> Option<Quantity> {
        let replicas = self.all_replicas();
        let (name, labels) = {
            let identity = self.identity(role, id, rank, slot.relaunches, &replicas);
            let labels = role.naming.labels.iter().map(|(key, pattern)| (key.clone(), pattern.fill(&identity)));
            (role.naming.pod.fill(&identity), labels.collect())
        };
        let resources = self.planned(role, of_slot);
        let asked = self.memory_asked(role, of_slot);
        let memory = slot.grown_memory(asked);
        // Pods connect to their job's services when they start.
        if self.service_is_refused || self.observed.executor.outstanding.contains(&name) {
            return memory.or(asked);
        }
        let before = self.observed.status.roles.get(&role.name).and_then(|role| role.slots.get(&rank));
        if id == slot.id && before.is_some_and(|before| slot.follows_from(before, role.naming.ids)) {
            self.free_creates.insert(name.clone());
        }
        self.act(Action::CreatePod(Box::new(DesiredPod {
            name,
            role: role.name.clone(),
            id,
            rank,
            relaunches: slot.relaunches,
            labels,
            replicas,
            resources,
            is_limited: self.is_limited(role),
            memory,
            place,
            cause,
        })));
        memory.or(asked)
    }

    /// The name of a slot's pod.
    pub(super) fn pod_name(&self, role: &Role, id: NodeId, rank: Rank, relaunches: u32) -> String {
        let replicas = self.all_replicas();
        role.naming.pod.fill(&self.identity(role, id, rank, relaunches, &replicas))
    }

    fn slot_at(&mut self, role: &Role, rank: Rank) -> Slot {
        let slots = self.status.roles.entry(role.name.clone()).or_default();
        if let Some(slot) = slots.slots.get(&rank) {
            return slot.clone();
        }
        // A pod that exists without a slot was created by an earlier controller: it is adopted with its id.
        let found = self.pods.at(&role.name, rank).iter().filter(|pod| !pod.deleting).map(|pod| pod.id).max();
        let mut slot = Slot::new(found.unwrap_or(NodeId(rank.0)));
        match (role.naming.ids, found) {
            (IdRule::Increasing, None) => slot.id = self.next_id(role),
            (IdRule::Increasing, Some(id)) => slots.next_id = slots.next_id.max(id.0 + 1),
            (IdRule::Rank, _) => {}
        }
        // A pod that terminates before the slot exists belonged to an earlier slot and is no loss of this one.
        let terminating = self.pods.at(&role.name, rank).iter().find(|pod| pod.deleting && pod.id == slot.id);
        slot.settled = terminating.map(|pod| pod.uid.clone());
        slot.history.memory = self.memory_asked(role, &slot.resources);
        slot
    }

    fn put_slot(&mut self, role: &Role, rank: Rank, slot: Slot) {
        self.status.roles.entry(role.name.clone()).or_default().slots.insert(rank, slot);
    }

    /// A lost pod is replaced by its successor if it has one, else by a pod with the next id.
    fn replace(&mut self, role: &Role, slot: &mut Slot) {
        if !slot.give_to_successor() {
            (slot.id, slot.seen) = (self.next_id(role), false);
        }
    }

    /// The next id that no pod of the role has had.
    pub(super) fn next_id(&mut self, role: &Role) -> NodeId {
        let slots = self.status.roles.entry(role.name.clone()).or_default();
        let id = slots.next_id.max(self.pods.next_id(&role.name));
        slots.next_id = id + 1;
        NodeId(id)
    }
}

/// How a pod ended that is not settled. The controller did not delete it: it settles a pod before it deletes it.
pub(super) fn end_of(pod: &ObservedPod) -> ObservedExit {
    let deletion = if pod.deleting { Some(Deletion::Others) } else { pod.end.deletion };
    ObservedExit { deletion, ..pod.end.clone() }
}
