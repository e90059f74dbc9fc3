//! Drives the cluster's planner: from what is observed of all jobs, pods and nodes to an assignment for each job.
//!
//! [`flexor_sched::plan`] has no memory. This driver remembers what it has asked for and does not observe yet: pods that a
//! job's controller is about to create or to delete. It also keeps promises, the budget of swaps and the back-off of jobs
//! whose surplus does not start. It does no I/O: the operator and the laptop cluster feed it, and hand each
//! [`JobAssignment`] to the controller of its job.

mod decisions;
mod job;
mod pause;
mod refusals;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use flexor_engine::Cause;
use flexor_engine::controller::{JobAssignment, Place, RoleAssignment};
use flexor_model::{Rank, Resources, RoleName, UnixTime};
use flexor_sched::{
    ClusterPlan, JobKey, Location, Node, NodeName, PlanInput, Pod, PodSlot, Promise, SizedJob, SizedRole, SwapBudget,
};

use self::decisions::Decisions;
use self::pause::Pause;
use self::refusals::Refusals;

pub use job::{PlannedJob, may_be_planned, planned_job, planning_of};

/// Surplus that does not run after this is given up, and so is the room of pods that were refused all the time.
const START_WITHIN: Duration = Duration::from_secs(60);
/// Shares are settled in steps of this length: every step ends a few pods, as the budget allows.
const SETTLE_EVERY: Duration = Duration::from_secs(2);

/// Why a job is held is said anew after this.
const SAY_EVERY: Duration = Duration::from_secs(10);

/// A pod that holds room, or of a planned job that has ended.
#[derive(Debug, Clone)]
pub struct ClusterPod {
    pub uid: String,
    pub requests: Resources,
    pub location: Location,
    pub terminating: bool,
    /// Its program has ended. Such a pod is of interest only if a planned job owns it.
    pub ended: bool,
    /// Since when it waits to run; none once it runs.
    pub waits_since: Option<UnixTime>,
    /// The planned job that it belongs to.
    pub owner: Option<PodSlot>,
}

/// The planner with its memory.
#[derive(Debug, Default)]
pub struct ClusterPlanner {
    budget: SwapBudget,
    planned_at: Option<UnixTime>,
    promises: Vec<Promise>,
    /// Pods that a controller is to create.
    asked: BTreeMap<Slot, Asked>,
    /// The uids of pods that a controller is to delete.
    ending: BTreeSet<String>,
    /// Jobs that do not grow for a while, because their surplus did not start.
    pauses: BTreeMap<JobKey, Pause>,
    refusals: Refusals,
    assignments: BTreeMap<JobKey, Arc<JobAssignment>>,
    /// When it was said last why a job is held.
    said_at: BTreeMap<JobKey, UnixTime>,
}

/// A slot of a job, in the order of jobs, roles and ranks.
type Slot = (JobKey, RoleName, Rank);

#[derive(Debug, Clone)]
struct Asked {
    node: NodeName,
    since: UnixTime,
}

/// The roles of all jobs: there may be thousands of jobs, and every pod asks for its own.
struct Roles<'a>(HashMap<(&'a JobKey, &'a RoleName), &'a SizedRole>);

impl<'a> Roles<'a> {
    fn of(jobs: &'a [PlannedJob]) -> Self {
        let of = |job: &'a PlannedJob| {
            let key = &job.sized.key;
            job.sized.roles.iter().map(move |role| ((key, &role.name), role))
        };
        Self(jobs.iter().flat_map(of).collect())
    }

    fn get(&self, job: &JobKey, role: &RoleName) -> Option<&'a SizedRole> {
        self.0.get(&(job, role)).copied()
    }

    fn min(&self, job: &JobKey, role: &RoleName) -> u32 {
        self.get(job, role).map_or(0, |role| role.min)
    }

    fn is_surplus(&self, pod: &Pod) -> bool {
        let role = pod.owner.as_ref().and_then(|owner| Some((self.get(&owner.job, &owner.role)?, owner.rank)));
        role.is_some_and(|(role, rank)| rank.0 >= role.min)
    }
}

impl ClusterPlanner {
    /// What was assigned to a job last.
    pub fn assignment(&self, job: &JobKey) -> Option<Arc<JobAssignment>> {
        self.assignments.get(job).cloned()
    }

    /// Plans. Returns the jobs whose assignment has changed, and when to plan again if nothing changes before.
    pub fn plan(
        &mut self,
        nodes: &[Node],
        pods: &[ClusterPod],
        jobs: &[PlannedJob],
        now: UnixTime,
    ) -> (Vec<JobKey>, Option<UnixTime>) {
        let roles = Roles::of(jobs);
        self.forget(pods, jobs, &roles, now);
        self.note_replacements(pods, &roles, now);
        self.note_refusals(jobs, &roles, now);
        let planned = jobs.iter().filter(|job| !self.refusals.rests(&job.sized.key, now));
        let sized: Vec<SizedJob> = planned.map(|job| self.sized(job, now)).collect();
        let of_planner = self.pods(pods, &roles, now);
        self.accrue(&of_planner, &roles, now);
        let available = self.budget.available();
        let decided = flexor_sched::plan(&PlanInput {
            nodes,
            pods: &of_planner,
            jobs: &sized,
            promises: &self.promises,
            swaps: available,
        });
        self.carry_out(&decided, pods, now);
        let changed = self.assign(&decided, pods, jobs, &roles, now);
        let may_settle = decided.swaps > 0 || available == 0;
        (changed, self.next_at(pods, &sized, may_settle, now))
    }

    /// Forgets what is no longer there, and takes in what a job brings that is seen for the first time.
    fn forget(&mut self, pods: &[ClusterPod], jobs: &[PlannedJob], roles: &Roles<'_>, now: UnixTime) {
        let known: HashSet<&JobKey> = jobs.iter().map(|job| &job.sized.key).collect();
        self.promises.retain(|promise| known.contains(&promise.job));
        let needs_pod =
            |(job, role, rank): &Slot| roles.get(job, role).is_some_and(|role| !role.finished.contains(rank));
        self.asked.retain(|slot, _| needs_pod(slot));
        self.pauses.retain(|job, pause| known.contains(job) && pause.counts(now));
        self.refusals.forget(&known, now);
        self.assignments.retain(|job, _| known.contains(job));
        self.said_at.retain(|job, _| known.contains(job));
        for job in jobs.iter().filter(|job| !self.assignments.contains_key(&job.sized.key)) {
            self.promises.extend(job.promised.iter().cloned());
        }
        let there: HashSet<&str> = pods.iter().map(|pod| pod.uid.as_str()).collect();
        self.ending.retain(|uid| there.contains(uid.as_str()));
        let created = pods.iter().filter(|pod| !pod.terminating && !pod.ended && !self.ending.contains(&pod.uid));
        for slot in created.filter_map(slot_of) {
            self.asked.remove(&slot);
        }
    }

    /// The replacement of a pod whose program has ended keeps its slot and its node. So does that of a lost pod in a role
    /// that does not grow any more because others have done their work: it may hold the last of it.
    fn note_replacements(&mut self, pods: &[ClusterPod], roles: &Roles<'_>, now: UnixTime) {
        for pod in pods.iter().filter(|pod| (pod.ended || pod.terminating) && !self.ending.contains(&pod.uid)) {
            let Some((slot, node)) = slot_of(pod).zip(pod.location.node()) else { continue };
            let Some(role) = roles.get(&slot.0, &slot.1) else { continue };
            let stays = if pod.terminating { !role.finished.is_empty() } else { true };
            if stays && !role.finished.contains(&slot.2) {
                self.asked.entry(slot).or_insert_with(|| Asked { node: node.clone(), since: now });
            }
        }
    }

    /// A job whose base was refused all the time keeps the pods that it has. The room for the others is free for now.
    fn note_refusals(&mut self, jobs: &[PlannedJob], roles: &Roles<'_>, now: UnixTime) {
        let overdue = self
            .asked
            .iter()
            .filter(|((job, role, rank), asked)| rank.0 < roles.min(job, role) && now >= asked.since + START_WITHIN);
        let overdue: BTreeSet<JobKey> = overdue.map(|((job, ..), _)| job.clone()).collect();
        for job in jobs.iter().filter(|job| overdue.contains(&job.sized.key)) {
            if let Some(message) = &job.refused {
                self.refusals.note(&job.sized.key, message, now);
            }
        }
        let Self { asked, promises, refusals, .. } = self;
        asked.retain(|(job, ..), _| !refusals.rests(job, now));
        promises.retain(|promise| !refusals.rests(&promise.job, now));
    }

    fn sized(&self, job: &PlannedJob, now: UnixTime) -> SizedJob {
        let mut sized = job.sized.clone();
        sized.growth_paused |= self.pauses.get(&sized.key).is_some_and(|pause| pause.until > now);
        if let Some(assignment) = self.assignments.get(&sized.key) {
            for role in &mut sized.roles {
                let ranks = assignment.roles.get(&role.name).map_or(0, |role| role.ranks.len());
                role.target = u32::try_from(ranks).unwrap_or(u32::MAX);
            }
        }
        sized
    }

    /// All pods that hold room, with those that are asked for.
    fn pods(&self, pods: &[ClusterPod], roles: &Roles<'_>, now: UnixTime) -> Vec<Pod> {
        let is_overdue = |since: UnixTime| now >= since + START_WITHIN;
        let observed = pods.iter().filter(|pod| !pod.ended).map(|pod| Pod {
            requests: pod.requests.clone(),
            location: pod.location.clone(),
            terminating: pod.terminating || self.ending.contains(&pod.uid),
            overdue: pod.waits_since.is_some_and(is_overdue),
            owner: pod.owner.clone(),
        });
        let asked = self.asked.iter().filter_map(|((job, role, rank), asked)| {
            Some(Pod {
                requests: roles.get(job, role)?.pod.requests.clone(),
                location: Location::Assigned(asked.node.clone()),
                terminating: false,
                overdue: is_overdue(asked.since),
                owner: Some(PodSlot { job: job.clone(), role: role.clone(), rank: *rank }),
            })
        });
        observed.chain(asked).collect()
    }

    fn accrue(&mut self, pods: &[Pod], roles: &Roles<'_>, now: UnixTime) {
        let elapsed = self.planned_at.map_or(Duration::ZERO, |before| now.saturating_sub(before));
        self.planned_at = Some(now);
        let surplus = pods.iter().filter(|pod| !pod.terminating && roles.is_surplus(pod)).count();
        self.budget.accrue(u32::try_from(surplus).unwrap_or(u32::MAX), elapsed);
    }

    /// Notes what the controllers are about to do.
    fn carry_out(&mut self, plan: &ClusterPlan, pods: &[ClusterPod], now: UnixTime) {
        self.budget.spend(plan.swaps);
        self.promises.clone_from(&plan.promises);
        let mut by_slot: HashMap<Slot, Vec<&str>> = HashMap::new();
        for pod in pods.iter().filter(|pod| !pod.terminating && !pod.ended) {
            if let Some(slot) = slot_of(pod) {
                by_slot.entry(slot).or_default().push(&pod.uid);
            }
        }
        for decision in &plan.roles {
            let slot = |rank: Rank| (decision.job.clone(), decision.role.clone(), rank);
            for removal in &decision.remove {
                let slot = slot(removal.rank);
                self.asked.remove(&slot);
                self.ending.extend(by_slot.get(&slot).into_iter().flatten().map(|uid| (*uid).to_owned()));
            }
            for creation in &decision.create {
                let asked = Asked { node: creation.node.clone(), since: now };
                self.asked.insert(slot(creation.rank), asked);
            }
        }
        for job in &plan.not_started {
            self.pauses.insert(job.clone(), Pause::after(self.pauses.get(job).copied(), now));
        }
    }

    /// Makes the assignments anew. Returns the jobs whose assignment has changed.
    fn assign(
        &mut self,
        plan: &ClusterPlan,
        pods: &[ClusterPod],
        jobs: &[PlannedJob],
        roles: &Roles<'_>,
        now: UnixTime,
    ) -> Vec<JobKey> {
        let mut live: HashMap<Slot, &ClusterPod> = HashMap::new();
        let mut moved: HashMap<(JobKey, RoleName), BTreeMap<Rank, String>> = HashMap::new();
        for pod in pods.iter().filter(|pod| !pod.terminating && !pod.ended) {
            let Some(slot) = slot_of(pod) else { continue };
            if self.ending.contains(&pod.uid) {
                moved.entry((slot.0, slot.1)).or_default().insert(slot.2, pod.uid.clone());
            } else {
                live.insert(slot, pod);
            }
        }
        let mut assigned: BTreeMap<(JobKey, RoleName), RoleAssignment> = BTreeMap::new();
        for (job, role, rank) in live.into_keys() {
            assigned.entry((job, role)).or_default().ranks.insert(rank);
        }
        for ((job, role, rank), asked) in &self.asked {
            let min = roles.min(job, role);
            let of_role = assigned.entry((job.clone(), role.clone())).or_default();
            of_role.ranks.insert(*rank);
            of_role.places.insert(*rank, Place { node: asked.node.to_string(), is_base: rank.0 < min });
        }
        for promise in &plan.promises {
            let of_role = assigned.entry((promise.job.clone(), promise.role.clone())).or_default();
            of_role.promised.insert(promise.rank, promise.node.to_string());
        }
        let decisions = Decisions::of(plan, roles);
        let mut changed = Vec::new();
        for job in jobs {
            let key = &job.sized.key;
            let held = self.refusals.cause(key, now).or_else(|| decisions.held(key));
            let held = self.say_held(key, held, now);
            let before = self.assignments.get(key);
            let mut assignment = JobAssignment { held, roles: BTreeMap::new() };
            for role in &job.sized.roles {
                let mut of_role = assigned.remove(&(key.clone(), role.name.clone())).unwrap_or_default();
                of_role.ranks.extend(&role.finished);
                let ending = moved.remove(&(key.clone(), role.name.clone())).unwrap_or_default();
                of_role.moved =
                    ending.into_iter().filter(|(rank, _)| of_role.ranks.contains(rank)).map(|(_, uid)| uid).collect();
                let said = before.and_then(|before| before.roles.get(&role.name)?.cause.clone());
                of_role.cause = decisions.cause(key, &role.name).or(said);
                assignment.roles.insert(role.name.clone(), of_role);
            }
            if before.is_none_or(|before| **before != assignment) {
                changed.push(key.clone());
                self.assignments.insert(key.clone(), Arc::new(assignment));
            }
        }
        changed
    }

    /// The numbers in the cause change with every pod of the cluster; a job that stays held says them anew only now and
    /// then.
    fn say_held(&mut self, job: &JobKey, held: Option<Cause>, now: UnixTime) -> Option<Cause> {
        let said = self.assignments.get(job).and_then(|before| before.held.clone());
        let Some(held) = held else {
            self.said_at.remove(job);
            return None;
        };
        let is_recent = self.said_at.get(job).is_some_and(|at| now < *at + SAY_EVERY);
        match said.filter(|_| is_recent) {
            Some(said) => Some(said),
            None => {
                self.said_at.insert(job.clone(), now);
                Some(held)
            }
        }
    }

    /// When something happens by itself: pods are overdue, a pause ends, the budget has grown.
    fn next_at(&self, pods: &[ClusterPod], jobs: &[SizedJob], may_settle: bool, now: UnixTime) -> Option<UnixTime> {
        let waiting =
            pods.iter().filter(|pod| pod.owner.is_some() && !pod.terminating).filter_map(|pod| pod.waits_since);
        let asked = self.asked.values().map(|asked| asked.since);
        let overdue = waiting.chain(asked).map(|since| since + START_WITHIN);
        let pauses = self.pauses.values().map(|pause| pause.until).chain(self.refusals.ends());
        let elastic = jobs.iter().filter(|job| job.roles.iter().any(|role| role.max > role.min)).count();
        let settle = (may_settle && elastic > 1).then_some(now + SETTLE_EVERY);
        overdue.chain(pauses).chain(settle).filter(|at| *at > now).min()
    }
}

fn slot_of(pod: &ClusterPod) -> Option<Slot> {
    pod.owner.as_ref().map(|owner| (owner.job.clone(), owner.role.clone(), owner.rank))
}
