//! The pure controller in a world without processes: what it says is done at once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use flexor_engine::controller::{
    self, Action, ExecutorState, JobStatus, ObservedJob, ObservedPlan, ObservedPod, Phase, PlanPhase, PlanStatus,
    Planning, PodPhase, Slot,
};
use flexor_engine::nodes::{ObservedExit, ProgramExit};
use flexor_model::{IdRule, Job, JobUid, RoleKind, UnixTime};

use super::history::Act;
use super::plan::{migration_of, plan_for};

/// What all worlds have in common: no times, no unique ids, no words.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    pub phase: Phase,
    /// How many replicas each role is to have.
    pub targets: BTreeMap<String, u32>,
    pub plans: Vec<PlanPhase>,
    /// By role and rank.
    pub slots: BTreeMap<(String, u32), SlotState>,
    /// Those that are there.
    pub pods: BTreeSet<(String, String)>,
}

/// What a slot of a role has come to.
#[derive(Debug, Clone, PartialEq)]
pub struct SlotState {
    /// The number of its pod.
    id: u32,
    /// How often it was filled again.
    relaunches: u32,
    /// How many failures count.
    failures: u32,
    /// Whether it ended well, once it has ended.
    ended: Option<bool>,
    /// Whether its pod was observed, unless it has ended. A pod that is gone and was not observed is no loss.
    seen: bool,
}

impl State {
    pub fn of<'a>(
        status: &JobStatus,
        plans: impl Iterator<Item = &'a PlanStatus>,
        pods: impl Iterator<Item = (String, PodPhase)>,
    ) -> Self {
        let slot = |slot: &Slot| SlotState {
            id: slot.id.0,
            relaunches: slot.relaunches,
            failures: slot.history.counted,
            ended: slot.end.as_ref().map(|end| end.succeeded),
            seen: slot.seen || slot.end.is_some(),
        };
        let slots = status.roles.iter().flat_map(|(role, slots)| {
            slots.slots.iter().map(move |(rank, record)| ((role.to_string(), rank.0), slot(record)))
        });
        Self {
            phase: status.phase,
            targets: status.targets.iter().map(|(role, target)| (role.to_string(), target.replicas)).collect(),
            plans: plans.map(|plan| plan.phase).collect(),
            slots: slots.collect(),
            pods: pods.map(|(name, phase)| (name, format!("{phase:?}"))).collect(),
        }
    }

    /// What a controller remembers of it that is killed between any two actions. Where a replacement has the name of
    /// the lost pod, the controller may forget the loss: losses cost nothing, so they need not be written before the
    /// replacement is created.
    pub fn after_kills(mut self, ids: IdRule) -> Self {
        if ids == IdRule::Rank {
            self.slots.values_mut().for_each(|slot| slot.relaunches = 0);
        }
        self
    }
}

pub struct Pure {
    job: Job,
    status: JobStatus,
    pods: Vec<ObservedPod>,
    services: BTreeSet<String>,
    plans: Vec<ObservedPlan>,
    now: UnixTime,
    /// How often each pod was created, by name.
    creations: BTreeMap<String, u32>,
}

impl Pure {
    pub fn new(job: Job) -> Self {
        let (status, now) = (JobStatus::default(), UnixTime::from_secs(1_000_000));
        let (services, creations) = (BTreeSet::new(), BTreeMap::new());
        Self { job, status, pods: Vec::new(), services, plans: Vec::new(), now, creations }
    }

    pub fn state(&self) -> State {
        let pods = self.pods.iter().map(|pod| (pod.name.clone(), pod.phase));
        State::of(&self.status, self.plans.iter().map(|plan| &plan.status), pods)
    }

    /// How often each pod was created, by name.
    pub fn creations(&self) -> &BTreeMap<String, u32> {
        &self.creations
    }

    pub fn act(&mut self, act: &Act) {
        self.now += Duration::from_secs(1);
        match act {
            Act::Exit(rank, code) => self.ends(*rank, |end| {
                end.exit = Some(ProgramExit::Code(*code));
                end.container_reason = Some(if *code == 0 { "Completed" } else { "Error" }.to_owned());
            }),
            Act::Kill(rank) => self.ends(*rank, |end| {
                end.exit = Some(ProgramExit::Code(137));
                end.container_reason = Some("Error".to_owned());
            }),
            Act::Lose(rank) => self.ends(*rank, |end| end.pod_reason = Some("NodeLost".to_owned())),
            Act::Delete(rank) => {
                let worker = self.worker(*rank).uid.clone();
                self.pods.retain(|pod| pod.uid != worker);
            }
            Act::Scale(workers) => {
                let plan = plan_for(&self.job, self.plans.len(), *workers);
                self.plans.push(ObservedPlan { plan, created_at: self.now, status: PlanStatus::default() });
            }
            Act::Migrate(rank) => {
                let pod = self.worker(*rank).name.clone();
                let plan = migration_of(&self.job, self.plans.len(), &pod);
                self.plans.push(ObservedPlan { plan, created_at: self.now, status: PlanStatus::default() });
            }
        }
    }

    fn ends(&mut self, rank: u32, how: impl FnOnce(&mut ObservedExit)) {
        let now = self.now;
        let worker = self.worker(rank);
        how(&mut worker.end);
        worker.phase =
            if worker.end.exit == Some(ProgramExit::Code(0)) { PodPhase::Succeeded } else { PodPhase::Failed };
        worker.finished_at = Some(now);
    }

    fn worker(&mut self, rank: u32) -> &mut ObservedPod {
        let role = self.job.role(RoleKind::Worker).unwrap().name.clone();
        let is_it = |pod: &&mut ObservedPod| pod.role == role && pod.rank.0 == rank && !pod.has_ended();
        self.pods.iter_mut().find(is_it).unwrap_or_else(|| panic!("no worker {rank}"))
    }

    /// Lets the controller work until it has nothing to do, and time pass where it waits for that.
    pub fn settle(&mut self) {
        let mut waited = false;
        for _ in 0..100 {
            let turn = self.look();
            match (turn.actions.is_empty(), turn.requeue_at) {
                (true, Some(at)) if !waited => (self.now, waited) = (at, true),
                (true, _) => return,
                (false, _) => turn.actions.into_iter().for_each(|action| self.carry_out(action)),
            }
        }
        panic!("the controller does not come to rest");
    }

    fn look(&self) -> controller::Reconciliation {
        let (uid, namespace) = (JobUid::from("u"), "default".parse().unwrap());
        let observed = ObservedJob {
            job: &self.job,
            generation: 1,
            uid: &uid,
            namespace: &namespace,
            deleting: false,
            status: &self.status,
            pods: &self.pods,
            services: &self.services,
            plans: &self.plans,
            released: &BTreeSet::new(),
            closed: None,
            planning: Planning::Unplanned,
            executor: &ExecutorState::default(),
        };
        controller::reconcile(&observed, self.now)
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::SetStatus(status) | Action::NoteStatus(status) => self.status = *status,
            Action::SetPlanStatus { plan, status } => {
                self.plans.iter_mut().find(|seen| seen.plan.name.as_str() == plan).unwrap().status = status;
            }
            Action::CreatePod(desired) => {
                *self.creations.entry(desired.name.clone()).or_default() += 1;
                let number: u32 = self.creations.values().sum();
                self.pods.push(ObservedPod {
                    name: desired.name,
                    uid: format!("pod-{number}"),
                    role: desired.role,
                    id: desired.id,
                    rank: desired.rank,
                    phase: PodPhase::Running,
                    deleting: false,
                    overdue: false,
                    pending: None,
                    end: ObservedExit::default(),
                    started_at: Some(self.now),
                    finished_at: None,
                });
            }
            Action::DeletePod { uid, .. } => self.pods.retain(|pod| pod.uid != uid),
            Action::CreateService(desired) => _ = self.services.insert(desired.name),
            Action::DeleteService { name } => _ = self.services.remove(&name),
            Action::Record(_) | Action::RecordLoss { .. } => {}
            Action::DeleteJob { .. } => panic!("nobody deletes the job"),
        }
    }
}
