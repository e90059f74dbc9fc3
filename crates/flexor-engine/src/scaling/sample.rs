//! The state of a job as its master knows it at one second.
//!
//! All counters only grow during the life of a pod. A pod that was replaced has another uid. Values that cannot be true are
//! caught in [`super::window`].

use std::ops::RangeInclusive;
use std::time::Duration;

use flexor_model::{MOST_REPLICAS, ObjectName, PARTITIONS, ReplicaRange, RoleName};

use super::{Allotment, Ceiling};

/// One second of a job.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Batches accounted for since the job began.
    pub batches: u64,
    /// Pods are as their targets say, servers move no partition, and no plan of anybody is open.
    pub steady: bool,
    /// The role of workers that may be scaled.
    pub workers: ScaledRole,
    /// The role of parameter servers.
    pub servers: ScaledRole,
    /// All pods that train, those of chiefs included.
    pub worker_pods: Vec<PodSample>,
    /// The parameter servers.
    pub server_pods: Servers,
    /// What pods of roles that neither train nor keep parameters request, masters excepted.
    pub others: Allotment,
    /// The cores, in thousandths, that all pods share where nothing limits a single pod. None: every pod is limited to
    /// its allotment.
    pub machine: Option<u64>,
    /// What all pods of the job may request together when they are sized automatically.
    pub ceiling: Ceiling,
    /// What one pod may request so that it still finds a node.
    pub largest_pod: Ceiling,
    /// The latest automatic plan that the controller has seen.
    pub plan: Option<AutomaticPlan>,
}

/// A role whose size may be decided.
#[derive(Debug, Clone, PartialEq)]
pub struct ScaledRole {
    pub name: RoleName,
    /// Target replicas.
    pub replicas: u32,
    /// The range of automatic scaling; none where only the user scales the role.
    pub automatic: Option<ReplicaRange>,
    /// Who else has set the target, such as `the plan deepctr-2`. The role is left alone then.
    pub held_by: Option<String>,
    /// What its next pod would request.
    pub pod: Allotment,
}

/// The parameter servers of a job.
#[derive(Debug, Clone, PartialEq)]
pub enum Servers {
    /// They report their load. In the order of their ranks.
    Measured(Vec<PodSample>),
    /// They are of another program than `flexor ps`, and report nothing.
    Foreign,
}

/// A pod.
#[derive(Debug, Clone, PartialEq)]
pub struct PodSample {
    pub name: ObjectName,
    pub uid: String,
    pub role: RoleName,
    pub allotment: Allotment,
    /// Its last report; none before the first.
    pub load: Option<PodLoad>,
}

/// A report of a pod.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PodLoad {
    /// When the report arrived.
    pub at: Duration,
    /// Processor time since the pod began.
    pub cpu: Duration,
    /// Memory in use.
    pub bytes: u64,
    /// How a worker has spent its time since it began; zero for servers.
    pub times: BatchTimes,
}

/// The time of a worker by what it did.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct BatchTimes {
    pub read: Duration,
    pub pull: Duration,
    pub compute: Duration,
    pub push: Duration,
    pub acknowledge: Duration,
}

/// How far an automatic plan is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AutomaticPlan {
    /// The number in its name. Numbers only grow.
    pub number: u32,
    pub state: PlanState,
}

/// The state of an automatic plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanState {
    Open,
    Succeeded,
    /// Its pods found no room for too long.
    NoRoom,
    /// Refused, superseded or failed otherwise.
    Failed,
}

impl ScaledRole {
    /// The replicas that an automatic plan may give it. The present number is always among them.
    pub(super) fn choices(&self, most: u32) -> RangeInclusive<u32> {
        let now = self.replicas..=self.replicas;
        let Some(range) = self.automatic.filter(|_| self.held_by.is_none()) else { return now };
        let max = range.max().unwrap_or(MOST_REPLICAS).min(most);
        if range.contains(self.replicas) && range.min() <= max { range.min()..=max.max(self.replicas) } else { now }
    }

    /// Whether an automatic plan may change it at all.
    pub(super) fn is_automatic(&self) -> bool {
        self.automatic.is_some() && self.held_by.is_none()
    }
}

impl Sample {
    /// The server pods, none where they report nothing.
    pub(super) fn measured_servers(&self) -> &[PodSample] {
        match &self.server_pods {
            Servers::Measured(pods) => pods,
            Servers::Foreign => &[],
        }
    }

    /// All pods that are measured.
    pub(super) fn pods(&self) -> impl Iterator<Item = &PodSample> {
        self.worker_pods.iter().chain(self.measured_servers())
    }

    /// Pods that train and that the worker role does not count.
    pub(super) fn chiefs(&self) -> u32 {
        let chiefs = self.worker_pods.iter().filter(|pod| pod.role != self.workers.name);
        u32::try_from(chiefs.count()).unwrap_or(u32::MAX)
    }

    pub(super) fn worker_choices(&self) -> RangeInclusive<u32> {
        self.workers.choices(MOST_REPLICAS)
    }

    /// Servers without a measurement are left alone.
    pub(super) fn server_choices(&self) -> RangeInclusive<u32> {
        match &self.server_pods {
            Servers::Measured(pods) if !pods.is_empty() => self.servers.choices(PARTITIONS),
            Servers::Measured(_) | Servers::Foreign => self.servers.replicas..=self.servers.replicas,
        }
    }
}

impl BatchTimes {
    /// The parts with their names, in the order of a batch.
    pub(super) fn parts(self) -> [(&'static str, Duration); 5] {
        let Self { read, pull, compute, push, acknowledge } = self;
        [
            ("reading", read),
            ("pulling", pull),
            ("computing", compute),
            ("pushing", push),
            ("acknowledging", acknowledge),
        ]
    }
}
