//! The steps of a migration: a successor is created beside a pod, with the next id, and takes its slot once it runs.
//!
//! A parameter server leaves first: its master moves its partitions away and reports when none is left. Until the
//! successor has the slot, every failure leaves the pod in it. Each step is recorded in the slot
//! ([`super::migration`]), so a pass may end anywhere.

use std::collections::BTreeSet;
use std::time::Duration;

use flexor_model::{IdRule, Plan, PlanOrigin, Rank, Reason, Role, RoleKind, RoleName};

use super::automatic_plans::OPEN_FOR;
use super::migration::{Migration, MigrationStage};
use super::slots::end_of;
use super::status::Slot;
use super::{ObservedPod, PodPhase, Reconciler};
use crate::Cause;
use crate::nodes::{self, Cost};

/// How long a successor has to start: it may need a new machine and its image.
const TO_START: Duration = Duration::from_secs(600);
/// How many successors that were lost to infrastructure are replaced.
const MOST_LOST: u32 = 3;

/// How far the migrations of a plan are.
pub(super) enum MigrationProgress {
    /// Every pod has its successor and is gone.
    Done,
    /// What is waited for.
    Waiting(Cause),
    /// One pod gets no successor.
    Never(Cause),
}

impl<'a> Reconciler<'a> {
    /// Whether the migrations of a plan can begin: not before its pods exist. An error says why they never can.
    pub(super) fn check_migrations(&self, plan: &Plan) -> Result<bool, String> {
        let mut named = BTreeSet::new();
        for wanted in &plan.migrate {
            let pod = &wanted.pod;
            if !named.insert(pod) {
                return Err(format!("{pod} is to migrate twice"));
            }
            let Some((role, rank)) = self.slot_of(pod.as_str()) else {
                if self.has_missing_slots() {
                    return Ok(false);
                }
                return Err(format!("{} has no pod {pod}", plan.job));
            };
            if let Some(why) = cannot_migrate(role) {
                return Err(format!("{pod} cannot migrate: {why}"));
            }
            let slot = self.status.roles.get(&role.name).and_then(|slots| slots.slots.get(&rank));
            if slot.is_some_and(|slot| slot.end.is_some()) {
                return Err(format!("{pod} cannot migrate: it has ended and is not replaced"));
            }
        }
        Ok(true)
    }

    /// Records in the slots that their pods get successors, with ids that no pod has had.
    pub(super) fn begin_migrations(&mut self, plan: &Plan) {
        for wanted in &plan.migrate {
            let Some((role, rank)) = self.slot_of(wanted.pod.as_str()) else { continue };
            let Some(slot) = self.slot_mut(&role.name, rank).cloned() else { continue };
            let resources = slot.resources.overlaid_by(&wanted.resources);
            // An earlier pass recorded it for this plan, and not for an earlier plan of the same name.
            if slot.migration.is_some_and(|known| known.plan == plan.name.as_str() && known.resources == resources) {
                continue;
            }
            let to = self.next_id(role);
            let migration = Migration {
                plan: plan.name.to_string(),
                pod: wanted.pod.to_string(),
                to,
                seen: false,
                lost: 0,
                resources,
                since: self.now,
                stage: MigrationStage::Coming,
            };
            if let Some(slot) = self.slot_mut(&role.name, rank) {
                slot.migration = Some(migration);
            }
        }
    }

    /// Drops the migrations of plans that are over or gone.
    pub(super) fn drop_migrations(&mut self) {
        let plans = self.observed.plans.iter().filter(|plan| !plan.status.phase.is_over());
        let open: BTreeSet<&str> = plans.map(|plan| plan.plan.name.as_str()).collect();
        for slot in self.status.roles.values_mut().flat_map(|role| role.slots.values_mut()) {
            slot.migration.take_if(|migration| !open.contains(migration.plan.as_str()));
        }
    }

    /// How far the migrations of a plan that has begun are.
    pub(super) fn migration_progress(&self, plan: &Plan) -> MigrationProgress {
        let mut waits = None;
        for wanted in &plan.migrate {
            let pod = wanted.pod.as_str();
            let Some((role, rank, migration)) = self.migration_of(plan, pod) else {
                let message = format!("{}: the slot of {pod} is not needed any more", plan.name);
                return MigrationProgress::Never(Cause::new(Reason::PlanSuperseded, message));
            };
            let successor = self.pod_name(role, migration.to, rank, 0);
            let waits_for = match &migration.stage {
                MigrationStage::Failed(cause) => return MigrationProgress::Never(cause.clone()),
                MigrationStage::Coming => {
                    let here = self.pods.at(&role.name, rank).iter().find(|pod| pod.id == migration.to);
                    let to_run = format!("{successor} is to run and take the slot of {pod}");
                    match here.and_then(|here| here.pending.as_ref()) {
                        Some(pending) => Cause::new(pending.reason, format!("{to_run}: {}", pending.message)),
                        None => Cause::new(Reason::PlanBegun, to_run),
                    }
                }
                MigrationStage::TakingOver => {
                    Cause::new(Reason::PodMigrates, format!("{successor} takes over what {pod} keeps"))
                }
                MigrationStage::Done if self.pods.of_role(&role.name).any(|here| here.name == pod) => {
                    Cause::new(Reason::PodReplaced, format!("{successor} has taken the slot of {pod}, which ends"))
                }
                MigrationStage::Done => continue,
            };
            waits = waits.or(Some(waits_for));
        }
        waits.map_or(MigrationProgress::Done, MigrationProgress::Waiting)
    }

    /// Takes the next step of a slot's migration, if there is one.
    pub(super) fn migrate(&mut self, role: &Role, rank: Rank, slot: &mut Slot) {
        let Some(mut migration) = slot.migration.take() else { return };
        let pods = self.pods.at(&role.name, rank).iter().copied();
        let successor = migration.successor().map(|to| pods.clone().find(|pod| pod.id == to));
        let old = pods.clone().find(|pod| pod.id == slot.id && !pod.has_ended());
        match successor {
            None => {}
            Some(_) if slot.end.is_some() => {
                let why = format!("{} has ended before it could be replaced", migration.pod);
                migration.stage = MigrationStage::Failed(Cause::new(Reason::MigrationFailed, why));
            }
            Some(None) if migration.seen => self.lose(role, rank, &mut migration, None),
            Some(None) => {
                let name = self.pod_name(role, migration.to, rank, slot.relaunches);
                if let Some(at) = self.retry_at(&name).filter(|at| *at > self.now) {
                    self.requeue(at);
                    self.await_room(&mut migration, &name, "cannot be created");
                    slot.migration = Some(migration);
                    return;
                }
                let why = format!("it is to take the slot of {}, as the plan {} says", migration.pod, migration.plan);
                let cause = Cause::new(Reason::PodWanted, why);
                self.create(role, rank, slot, (migration.to, &migration.resources, None), cause);
            }
            Some(Some(pod)) if pod.deleting || pod.has_ended() => self.lose(role, rank, &mut migration, Some(pod)),
            Some(Some(pod)) => {
                migration.seen = true;
                if pod.phase == PodPhase::Pending {
                    self.await_start(&mut migration, pod);
                } else {
                    self.take_over(role, &mut migration, pod, old);
                }
            }
        }
        let is_done = migration.stage == MigrationStage::TakingOver && self.has_taken_over(role, &migration, old);
        slot.migration = Some(migration);
        if is_done && slot.give_to_successor() {
            let asked = self.memory_asked(role, &slot.resources);
            slot.history.memory = slot.grown_memory(asked).or(asked);
        }
    }

    /// The successor runs.
    fn take_over(
        &mut self,
        role: &Role,
        migration: &mut Migration,
        successor: &ObservedPod,
        old: Option<&ObservedPod>,
    ) {
        if migration.stage == MigrationStage::Coming && !self.has_taken_over(role, migration, old) {
            let message = format!("it takes over what {} keeps, and then its slot", migration.pod);
            self.record_of(&successor.name, Cause::new(Reason::PodMigrates, message));
        }
        migration.stage = MigrationStage::TakingOver;
    }

    /// Whether the pod can go without losing parameters.
    fn has_taken_over(&self, role: &Role, migration: &Migration, old: Option<&ObservedPod>) -> bool {
        !role.keeps_parameters() || old.is_none() || self.observed.released.contains(&migration.pod)
    }

    /// The successor does not run yet. The wait for it has a limit.
    fn await_start(&mut self, migration: &mut Migration, successor: &ObservedPod) {
        migration.stage = MigrationStage::Coming;
        if let Some(pending) = &successor.pending {
            self.await_room(migration, &successor.name, &pending.message);
            if matches!(migration.stage, MigrationStage::Failed(_)) {
                return;
            }
        }
        let until = migration.since + TO_START;
        if self.now < until {
            return self.requeue(until);
        }
        let pending = successor.pending.as_ref().map(|pending| format!(": {pending}")).unwrap_or_default();
        let why = format!("did not run within {} min{pending}", TO_START.as_secs() / 60);
        fail(migration, &successor.name, &why);
    }

    /// There is no room for the successor. An automatic plan waits for it only for a minute.
    fn await_room(&mut self, migration: &mut Migration, successor: &str, why: &str) {
        let of_plan = |open: &&super::ObservedPlan| open.plan.name.as_str() == migration.plan;
        let is_automatic =
            self.observed.plans.iter().find(of_plan).is_some_and(|open| open.plan.origin == PlanOrigin::Auto);
        let due = migration.since + OPEN_FOR;
        if !is_automatic {
            return;
        }
        if self.now < due {
            return self.requeue(due);
        }
        let Migration { plan, pod, .. } = &*migration;
        let message = format!("{plan}: no room for {successor} within a minute ({why}); {pod} stays");
        migration.stage = MigrationStage::Failed(Cause::new(Reason::Unschedulable, message));
    }

    /// The successor is gone before it had the slot: another is created, unless its program failed.
    fn lose(&mut self, role: &Role, rank: Rank, migration: &mut Migration, successor: Option<&ObservedPod>) {
        let (name, cost, reason, why) = match successor {
            Some(pod) => {
                let exit = nodes::classify(&end_of(pod));
                (pod.name.clone(), exit.kind.cost(), exit.kind.reason(), exit.detail)
            }
            None => {
                let name = self.pod_name(role, migration.to, rank, 0);
                (name, Cost::Free, Reason::PodDeleted, "is gone without a trace".to_owned())
            }
        };
        if cost != Cost::Free || migration.lost >= MOST_LOST {
            return fail(migration, &name, &format!("has ended: {reason}: {why}"));
        }
        let again = format!("{why}; another is created to take the slot of {}", migration.pod);
        self.record_of(&name, Cause::new(reason, again));
        (migration.to, migration.seen, migration.lost) = (self.next_id(role), false, migration.lost + 1);
        (migration.stage, migration.since) = (MigrationStage::Coming, self.now);
    }

    /// The slot whose pod has this name.
    pub(super) fn slot_of(&self, pod: &str) -> Option<(&'a Role, Rank)> {
        self.observed.job.roles.iter().find_map(|role| {
            let mut slots = self.status.roles.get(&role.name)?.slots.iter();
            let is_it = |(rank, slot): &(&Rank, &Slot)| self.pod_name(role, slot.id, **rank, slot.relaunches) == pod;
            slots.find(is_it).map(|(rank, _)| (role, *rank))
        })
    }

    /// Whether some role has fewer slots than target replicas.
    fn has_missing_slots(&self) -> bool {
        self.observed.job.roles.iter().any(|role| {
            let slots = self.status.roles.get(&role.name).map_or(0, |slots| slots.slots.len());
            slots < self.replicas(role) as usize
        })
    }

    fn migration_of(&self, plan: &Plan, pod: &str) -> Option<(&Role, Rank, &Migration)> {
        self.observed.job.roles.iter().find_map(|role| {
            let mut slots = self.status.roles.get(&role.name)?.slots.iter();
            slots.find_map(|(rank, slot)| {
                let migration = slot.migration.as_ref()?;
                (migration.plan == plan.name.as_str() && migration.pod == pod).then_some((role, *rank, migration))
            })
        })
    }

    fn slot_mut(&mut self, role: &RoleName, rank: Rank) -> Option<&mut Slot> {
        self.status.roles.get_mut(role)?.slots.get_mut(&rank)
    }
}

/// The successor never gets the slot.
fn fail(migration: &mut Migration, successor: &str, why: &str) {
    let pod = &migration.pod;
    let message = format!("{successor}, which was to take the slot of {pod}, {why}; {pod} stays");
    migration.stage = MigrationStage::Failed(Cause::new(Reason::MigrationFailed, message));
}

/// Why no pod of a role can have a successor.
fn cannot_migrate(role: &Role) -> Option<&'static str> {
    match (role.kind, role.naming.ids) {
        (RoleKind::Worker | RoleKind::ParameterServer, IdRule::Increasing) => None,
        (RoleKind::Worker | RoleKind::ParameterServer, IdRule::Rank) => {
            Some("a successor would have its name; delete the pod, and it is made again")
        }
        (RoleKind::Master | RoleKind::Chief | RoleKind::Evaluator | RoleKind::Other, _) => {
            Some("only workers and parameter servers do, since there may be one more of them for a while")
        }
    }
}
