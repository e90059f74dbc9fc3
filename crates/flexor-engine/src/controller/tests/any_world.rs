//! A world of pods that carries out what the controller decides, and lets the story do the rest.
//!
//! [`World<false>`] shows the controller everything at once. [`World<true>`] lags as a cluster does ([`super::lag`]).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use flexor_model::{
    CleanPods, CriticalNodes, DnsLabel, EndPolicy, FailureBudget, IdRule, Job, JobUid, MigratePod, Pattern, Plan,
    PlanOrigin, PodTemplate, Program, Rank, ReplicaRange, Resources, Role, RoleChange, RoleKind, RoleName, RoleNaming,
    RolePriority, RoleSize, Sizing, Strategy, UnixTime,
};
use serde_json::json;

use super::lag::Lag;
use crate::controller::*;
use crate::nodes::{self, ProgramExit};

/// The world of one job.
#[derive(Debug, Clone)]
pub(super) struct World<const LAGS: bool> {
    pub(super) job: Job,
    pub(super) generation: u64,
    pub(super) deleting: bool,
    pub(super) status: JobStatus,
    pub(super) pods: Vec<ObservedPod>,
    pub(super) services: BTreeSet<String>,
    pub(super) plans: Vec<ObservedPlan>,
    /// The servers that keep nothing any more, as the master says.
    pub(super) released: BTreeSet<String>,
    pub(super) closed: Option<Cause>,
    /// What the cluster's planner says; none where it does not plan the job.
    pub(super) planned: Option<Option<JobAssignment>>,
    pub(super) events: Vec<Event>,
    pub(super) now: UnixTime,
    pub(super) job_is_gone: bool,
    uids: u64,
    /// Pods begin to run by themselves.
    pub(super) starts: bool,
    /// Pods that are deleted take until the next moment to go.
    pub(super) lingers: bool,
    /// The pods that were created, as they were desired.
    pub(super) desired_pods: Vec<DesiredPod>,
    /// How many more actions are carried out, over all passes, before the controller is killed once.
    pub(super) killed_after: Option<usize>,
    /// Why the creation of pods is refused at present.
    pub(super) refuses: Option<String>,
    /// What the executor remembers; lost when the controller is killed.
    pub(super) executor: ExecutorState,
    /// The executor keeps a status that may wait to itself, until another is written or the controller is killed.
    pub(super) defers: bool,
    /// The status that was written, where `status` is one that waits.
    written: Option<JobStatus>,
    /// What the controller sees in a world that lags.
    lag: Lag,
}

/// Why an action was not carried out. The pass ends, and the next one begins from what is then observed.
#[derive(Debug)]
pub(super) enum Refused {
    /// The object was written since the controller read it.
    Conflict,
    /// A pod of this name is terminating.
    Terminating,
    /// The API server refuses the pod.
    Create,
}

pub(super) fn name(role: &str) -> RoleName {
    role.parse().unwrap()
}

fn role(kind: RoleKind, role: &str, size: RoleSize, ids: IdRule) -> Role {
    let template = json!({ "spec": { "containers": [{ "name": "main", "command": ["train"],
        "resources": { "requests": { "memory": "1Gi" } } }] } });
    Role {
        name: name(role),
        kind,
        size,
        program: if kind == RoleKind::Master { Program::FlexorMaster } else { Program::Foreign },
        template: PodTemplate::new(template, "main").unwrap(),
        priority: RolePriority::FromTemplate,
        failures: FailureBudget::PerNode(2),
        critical: CriticalNodes::Usual,
        naming: RoleNaming {
            pod: Pattern::of("{job}-{role}-{id}"),
            ids,
            labels: BTreeMap::from([("rank".to_owned(), Pattern::of("{rank}"))]),
        },
        service: None,
        ports: Vec::new(),
        env: Vec::new(),
        leading_args: Vec::new(),
    }
}

impl<const LAGS: bool> World<LAGS> {
    /// A job of so many workers, one to five, under a master.
    pub(super) fn of(workers: u32, ids: IdRule) -> Self {
        let one_to_five = ReplicaRange::new(1, 5).unwrap();
        let job = Job {
            name: "j".parse().unwrap(),
            namespace: None,
            dialect: "test".to_owned(),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            strategy: if ids == IdRule::Rank { Strategy::AllReduce } else { Strategy::Custom },
            roles: vec![
                role(RoleKind::Master, "master", RoleSize::fixed(1), IdRule::Rank),
                role(RoleKind::Worker, "worker", RoleSize::manual(workers, one_to_five).unwrap(), ids),
            ],
            sizing: Sizing::Manual,
            ceiling: Resources::default(),
            end: EndPolicy { clean_pods: CleanPods::None, ..EndPolicy::default() },
            suspended: false,
            ps_replication_factor: 1,
            checkpoints: None,
        };
        Self {
            job,
            generation: 1,
            deleting: false,
            status: JobStatus::default(),
            pods: Vec::new(),
            services: BTreeSet::new(),
            plans: Vec::new(),
            released: BTreeSet::new(),
            closed: None,
            planned: None,
            events: Vec::new(),
            now: UnixTime::from_secs(1_000_000),
            job_is_gone: false,
            uids: 0,
            starts: true,
            lingers: false,
            desired_pods: Vec::new(),
            killed_after: None,
            refuses: None,
            executor: ExecutorState::default(),
            defers: false,
            written: None,
            lag: Lag::default(),
        }
    }

    /// The same with a parameter server of ours, where numbers only grow.
    pub(super) fn with_server() -> Self {
        let mut world = Self::of(2, IdRule::Increasing);
        let any = ReplicaRange::at_least(1);
        let mut servers = role(RoleKind::ParameterServer, "ps", RoleSize::manual(1, any).unwrap(), IdRule::Increasing);
        let template = json!({ "spec": { "containers": [{ "name": "main", "command": ["flexor", "ps"] }] } });
        servers.template = PodTemplate::new(template, "main").unwrap();
        servers.program = Program::FlexorPs;
        world.job.strategy = Strategy::ParameterServer;
        world.job.roles.insert(1, servers);
        world
    }

    /// Lets the controller work until it has nothing to do and sees everything.
    pub(super) fn settle(&mut self) {
        for _ in 0..if LAGS { 5_000 } else { 100 } {
            if self.job_is_gone {
                return;
            }
            let view = if LAGS { self.lagging_view() } else { View::of(self) };
            let pass = view.reconcile(self.now);
            if pass.actions.is_empty() && self.is_current(&view) {
                return;
            }
            if self.is_older_than_own_writes(&view) {
                continue;
            }
            for action in pass.actions {
                match self.killed_after.as_mut() {
                    Some(0) => {
                        self.killed_after = None;
                        self.restart();
                        break;
                    }
                    Some(left) => *left -= 1,
                    None => {}
                }
                if self.carry_out(action, &view).is_err() {
                    break;
                }
            }
        }
        panic!("the controller does not come to rest: {:?}", self.look().actions);
    }

    /// So much time passes, with whatever the controller does meanwhile.
    pub(super) fn pass(&mut self, seconds: u64) {
        self.settle();
        let until = self.now + Duration::from_secs(seconds);
        while self.now < until {
            let going = self.pods.iter().any(|pod| pod.deleting).then(|| self.now + Duration::from_secs(1));
            // Nothing happens before the controller wants to look again.
            let next = self.look().requeue_at.into_iter().chain(going).min().unwrap_or(until);
            self.now = next.max(self.now + Duration::from_millis(1)).min(until);
            self.pods.retain(|pod| !pod.deleting);
            self.settle();
        }
    }

    /// A pass of the controller that sees everything.
    pub(super) fn look(&self) -> Reconciliation {
        View::of(self).reconcile(self.now)
    }

    /// What the controller sees next: each list moves on by itself, and none goes back.
    fn lagging_view(&mut self) -> View {
        let mut now = View::of(self);
        now.version = self.lag.version_of(&now);
        self.lag.publish(now);
        let mut view = self.lag.view();
        view.executor = self.executor.clone();
        self.executor.outstanding.retain(|name| view.pods.iter().all(|pod| pod.name != *name));
        view
    }

    fn is_current(&self, view: &View) -> bool {
        !LAGS || View { version: view.version, ..View::of(self) } == *view
    }

    /// The executor remembers what it wrote, and carries out nothing that was decided on an older status.
    fn is_older_than_own_writes(&self, view: &View) -> bool {
        LAGS && self.lag.is_older_than_own_writes(view)
    }

    /// Another process takes over. Its lists are incomplete at first, and then as fresh as they can be.
    fn restart(&mut self) {
        self.executor = ExecutorState::default();
        if let Some(written) = self.written.take() {
            self.status = written;
        }
        let mut partial = View::of(self);
        partial.pods.truncate(partial.pods.len() / 2);
        partial.services.clear();
        partial.executor.is_listing = true;
        assert_eq!(partial.reconcile(self.now), Reconciliation::default(), "an incomplete list decides nothing");
        let mut now = View::of(self);
        now.version = self.lag.version_of(&now);
        self.lag.publish(now);
        self.lag.restart();
    }

    fn carry_out(&mut self, action: Action, view: &View) -> Result<(), Refused> {
        match action {
            Action::SetStatus(status) => {
                if LAGS {
                    self.lag.write_status(view, &View::of(self))?;
                }
                (self.status, self.written) = (*status, None);
            }
            Action::NoteStatus(status) if self.defers => {
                let written = std::mem::replace(&mut self.status, *status);
                self.written.get_or_insert(written);
            }
            Action::NoteStatus(status) => return self.carry_out(Action::SetStatus(status), view),
            Action::SetPlanStatus { plan, status } => {
                let actual = self.plans.iter_mut().find(|known| known.plan.name.as_str() == plan);
                let actual = actual.ok_or(Refused::Conflict)?;
                let seen = view.plans.iter().find(|known| known.plan.name.as_str() == plan);
                if seen != Some(&*actual) {
                    return Err(Refused::Conflict);
                }
                actual.status = status;
                self.lag.write_plan(actual);
            }
            Action::CreatePod(desired) => return self.create_pod(*desired),
            Action::DeletePod { name, uid, force, .. } => {
                let pod = self.pods.iter_mut().find(|pod| (&pod.name, &pod.uid) == (&name, &uid));
                match pod {
                    None => assert!(LAGS, "{name} is gone already"),
                    Some(pod) if self.lingers && !force => {
                        assert!(LAGS || !pod.deleting, "{name} is terminating already");
                        pod.deleting = true;
                    }
                    Some(_) => self.pods.retain(|pod| pod.uid != uid),
                }
            }
            Action::CreateService(desired) => assert!(self.services.insert(desired.name) || LAGS),
            Action::DeleteService { name } => assert!(self.services.remove(&name) || LAGS),
            Action::Record(event) | Action::RecordLoss { event, .. } => self.events.push(event),
            Action::DeleteJob { .. } => self.job_is_gone = true,
        }
        Ok(())
    }

    fn create_pod(&mut self, desired: DesiredPod) -> Result<(), Refused> {
        if let Some(there) = self.pods.iter().find(|pod| pod.name == desired.name) {
            assert!(LAGS, "{} is there already", desired.name);
            // All pods of this world are the job's own.
            return if there.deleting { Err(Refused::Terminating) } else { Ok(()) };
        }
        if let Some(message) = self.refuses.clone() {
            let attempts = self.executor.refused.get(&desired.name).map_or(0, |refused| refused.attempts) + 1;
            let refused = RefusedCreate { message, tried_at: self.now, attempts };
            self.executor.refused.insert(desired.name, refused);
            return Err(Refused::Create);
        }
        self.executor.refused.remove(&desired.name);
        if LAGS && self.lag.remembers_creations() {
            self.executor.outstanding.insert(desired.name.clone());
        }
        self.uids += 1;
        self.desired_pods.push(desired.clone());
        self.pods.push(ObservedPod {
            name: desired.name,
            uid: format!("pod-{}", self.uids),
            role: desired.role,
            id: desired.id,
            rank: desired.rank,
            phase: if self.starts { PodPhase::Running } else { PodPhase::Pending },
            deleting: false,
            overdue: false,
            pending: None,
            end: nodes::ObservedExit::default(),
            started_at: Some(self.now),
            finished_at: None,
        });
        Ok(())
    }

    pub(super) fn pod(&mut self, name: &str) -> &mut ObservedPod {
        let all: Vec<String> = self.pods.iter().map(|pod| pod.name.clone()).collect();
        self.pods.iter_mut().find(|pod| pod.name == name).unwrap_or_else(|| panic!("no {name} in {all:?}"))
    }

    /// The program of a pod ends with this code.
    pub(super) fn exits(&mut self, name: &str, code: i32) {
        let now = self.now;
        let pod = self.pod(name);
        pod.phase = if code == 0 { PodPhase::Succeeded } else { PodPhase::Failed };
        pod.end.exit = Some(ProgramExit::Code(code));
        pod.finished_at = Some(now);
    }

    /// The program of a pod uses more memory than it may.
    pub(super) fn runs_out_of_memory(&mut self, name: &str) {
        self.pod(name).end.container_reason = Some("OOMKilled".to_owned());
        self.exits(name, 137);
    }

    /// The cluster takes a pod away for something more important; it is gone in the next moment.
    pub(super) fn makes_room(&mut self, name: &str) {
        let pod = self.pod(name);
        pod.deleting = true;
        pod.end.pod_reason = Some("Preempted".to_owned());
        pod.end.error = Some("k-worker-0 is more important".to_owned());
    }

    /// Whether there is room for pods to run; those that waited for it begin.
    pub(super) fn let_pods_start(&mut self, starts: bool) {
        self.starts = starts;
        for pod in self.pods.iter_mut().filter(|pod| starts && pod.phase == PodPhase::Pending) {
            pod.phase = PodPhase::Running;
        }
    }

    /// Somebody deletes a pod; it is gone when the controller next looks.
    pub(super) fn vanishes(&mut self, name: &str) {
        self.pod(name);
        self.pods.retain(|pod| pod.name != name);
    }

    /// A plan for the workers is made.
    pub(super) fn scale_workers(&mut self, plan: &str, workers: u32) {
        self.plan_for(plan, RoleChange { replicas: Some(workers), resources: Resources::default() });
    }

    /// A plan for the workers is made that says this.
    pub(super) fn plan_for(&mut self, plan: &str, change: RoleChange) {
        self.plan_for_role(plan, "worker", change);
    }

    pub(super) fn plan_for_role(&mut self, plan: &str, role: &str, change: RoleChange) {
        self.make_plan(plan, BTreeMap::from([(name(role), change)]), Vec::new());
    }

    /// A plan is made by which a pod migrates, to another that asks for this.
    pub(super) fn migrate(&mut self, plan: &str, pod: &str, resources: Resources) {
        self.make_plan(plan, BTreeMap::new(), vec![MigratePod { pod: pod.parse().unwrap(), resources }]);
    }

    fn make_plan(&mut self, plan: &str, roles: BTreeMap<RoleName, RoleChange>, migrate: Vec<MigratePod>) {
        let plan = Plan {
            name: plan.parse().unwrap(),
            namespace: None,
            job: "j".parse().unwrap(),
            origin: PlanOrigin::Manual,
            roles,
            create: Vec::new(),
            remove: Vec::new(),
            migrate,
            gives_back: false,
            message: String::new(),
            server_addresses: Vec::new(),
        };
        self.plans.push(ObservedPlan { plan, created_at: self.now, status: PlanStatus::default() });
    }

    /// The description asks for another number of workers.
    pub(super) fn edit(&mut self, workers: u32) {
        let allowed = self.job.roles[1].size.allowed();
        self.job.roles[1].size = RoleSize::manual(workers, allowed).unwrap();
        self.generation += 1;
    }

    /// The description asks for another number of parameter servers.
    pub(super) fn edit_servers(&mut self, servers: u32) {
        self.job.roles[1].size = RoleSize::manual(servers, ReplicaRange::at_least(1)).unwrap();
        self.generation += 1;
    }

    /// The names of the pods that have not ended.
    pub(super) fn running(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.pods.iter().filter(|pod| !pod.has_ended()).map(|pod| &*pod.name).collect();
        names.sort_unstable();
        names
    }

    pub(super) fn slot(&self, rank: u32) -> &Slot {
        &self.status.roles[&name("worker")].slots[&Rank(rank)]
    }

    /// How the last pod of this name was desired.
    pub(super) fn desired(&self, pod: &str) -> &DesiredPod {
        self.desired_pods.iter().rfind(|desired| desired.name == pod).unwrap()
    }

    /// The phase of a plan, and why.
    pub(super) fn plan(&self, name: &str) -> (PlanPhase, Option<flexor_model::Reason>) {
        let status = &self.plans.iter().find(|seen| seen.plan.name.as_str() == name).unwrap().status;
        (status.phase, status.cause.as_ref().map(|cause| cause.reason))
    }

    pub(super) fn reasons(&self) -> Vec<flexor_model::Reason> {
        self.events.iter().map(|event| event.cause.reason).collect()
    }
}

/// Everything that the controller sees of a job.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct View {
    /// Counts the writes of the job's object.
    pub(super) version: u64,
    pub(super) job: Job,
    pub(super) generation: u64,
    pub(super) deleting: bool,
    pub(super) status: JobStatus,
    pub(super) pods: Vec<ObservedPod>,
    pub(super) services: BTreeSet<String>,
    pub(super) plans: Vec<ObservedPlan>,
    pub(super) released: BTreeSet<String>,
    pub(super) closed: Option<Cause>,
    pub(super) planned: Option<Option<JobAssignment>>,
    pub(super) executor: ExecutorState,
}

impl View {
    fn of<const LAGS: bool>(world: &World<LAGS>) -> Self {
        Self {
            version: 0,
            job: world.job.clone(),
            generation: world.generation,
            deleting: world.deleting,
            status: world.status.clone(),
            pods: world.pods.clone(),
            services: world.services.clone(),
            plans: world.plans.clone(),
            released: world.released.clone(),
            closed: world.closed.clone(),
            planned: world.planned.clone(),
            executor: world.executor.clone(),
        }
    }

    fn reconcile(&self, now: UnixTime) -> Reconciliation {
        let (uid, namespace): (JobUid, DnsLabel) = ("u".into(), "default".parse().unwrap());
        let observed = ObservedJob {
            job: &self.job,
            generation: self.generation,
            uid: &uid,
            namespace: &namespace,
            deleting: self.deleting,
            status: &self.status,
            pods: &self.pods,
            services: &self.services,
            plans: &self.plans,
            released: &self.released,
            closed: self.closed.as_ref(),
            planning: match &self.planned {
                None => Planning::Unplanned,
                Some(None) => Planning::Undecided,
                Some(Some(assignment)) => Planning::Assigned(assignment),
            },
            executor: &self.executor,
        };
        reconcile(&observed, now)
    }
}
