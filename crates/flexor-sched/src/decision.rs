//! The output of the planner: sizes, pods to create and to remove, held jobs, each with its reason.

use std::collections::BTreeMap;
use std::fmt;

use flexor_model::{Rank, RoleName};

use crate::{JobKey, NodeName, Promise, Shortage};

/// The decisions of one plan. Roles and jobs without a change do not appear.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterPlan {
    /// The roles that change, by job and position in the job. Removals of all roles come before creations of any.
    pub roles: Vec<RoleDecision>,
    /// The jobs whose base lacks room, by priority and age.
    pub held: Vec<HeldJob>,
    /// All promises that hold from here on. They replace those of the input.
    pub promises: Vec<Promise>,
    /// The jobs with surplus that did not start in time. Their growth has to pause.
    pub not_started: Vec<JobKey>,
    /// The swaps that were made, to be taken off the budget.
    pub swaps: u32,
}

/// The change of one role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleDecision {
    pub job: JobKey,
    pub role: RoleName,
    /// The target that the driver wrote last.
    pub from: u32,
    /// The target from here on: ranks with a pod, and finished ranks.
    pub to: u32,
    /// Pods to delete, by rank.
    pub remove: Vec<Removal>,
    /// Pods to create, by rank. A rank that is also removed gets a new pod on another node.
    pub create: Vec<Creation>,
}

/// A pod to delete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removal {
    pub rank: Rank,
    /// Why.
    pub rule: Rule,
}

/// A pod to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Creation {
    pub rank: Rank,
    /// Its node. Base pods prefer it; surplus pods require it, because the plan does not hold elsewhere.
    pub node: NodeName,
    /// Whether the rank belongs to the base.
    pub base: bool,
    /// Why.
    pub rule: Rule,
}

/// A job that waits until its base fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldJob {
    pub job: JobKey,
    /// What it lacks.
    pub shortage: Shortage,
}

/// Why pods of a role are created or removed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// The job's base fits as a whole: it starts, or gets back what it lost.
    Base,
    /// There is free room, and no role that could use it is less fulfilled.
    Growth,
    /// A job above its share gave up a pod for it.
    Swap,
    /// It makes room for the base of another job.
    RoomFor(JobKey),
    /// The other job is further below its share.
    SwapTo(JobKey),
    /// Its rank is not below the role's maximum.
    AboveMax,
    /// It did not start in time.
    NotStarted,
    /// Its node is gone, closed or full.
    PlaceGone,
    /// It is gone without a decision of the planner: preempted, evicted or failed.
    Lost,
    /// It exists although the target did not count it.
    Found,
}

impl ClusterPlan {
    /// Whether the plan changes nothing, given the promises that it was made from.
    pub fn changes_nothing(&self, promises: &[Promise]) -> bool {
        let mut known = promises.to_vec();
        known.sort();
        self.roles.is_empty() && self.not_started.is_empty() && self.swaps == 0 && self.promises == known
    }

    /// The decision about a role.
    pub fn role(&self, job: &JobKey, role: &RoleName) -> Option<&RoleDecision> {
        self.roles.iter().find(|decision| decision.job == *job && decision.role == *role)
    }

    /// The pods of a job that wait until their room is free.
    pub fn promises_of<'a>(&'a self, job: &'a JobKey) -> impl Iterator<Item = &'a Promise> {
        self.promises.iter().filter(move |promise| promise.job == *job)
    }

    /// The shortage of a held job.
    pub fn shortage(&self, job: &JobKey) -> Option<&Shortage> {
        self.held.iter().find(|held| held.job == *job).map(|held| &held.shortage)
    }
}

impl RoleDecision {
    /// The change of the target by rule, which adds up to `to - from`. Pods that move to another node cancel out.
    pub fn changes(&self) -> Vec<(Rule, i64)> {
        let mut changes: BTreeMap<Rule, i64> = BTreeMap::new();
        let mut add = |rule: &Rule, pods: i64| *changes.entry(rule.clone()).or_default() += pods;
        self.create.iter().for_each(|creation| add(&creation.rule, 1));
        self.remove.iter().for_each(|removal| add(&removal.rule, -1));
        let explained: i64 = changes.values().sum();
        let unexplained = i64::from(self.to) - i64::from(self.from) - explained;
        if unexplained != 0 {
            let rule = if unexplained < 0 { Rule::Lost } else { Rule::Found };
            *changes.entry(rule).or_default() += unexplained;
        }
        changes.into_iter().filter(|(_, pods)| *pods != 0).collect()
    }
}

impl Rule {
    /// The name of the rule, for events and scale records.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Base => "Base",
            Self::Growth => "Growth",
            Self::Swap => "Swap",
            Self::RoomFor(_) => "RoomFor",
            Self::SwapTo(_) => "SwapTo",
            Self::AboveMax => "AboveMax",
            Self::NotStarted => "NotStarted",
            Self::PlaceGone => "PlaceGone",
            Self::Lost => "Lost",
            Self::Found => "Found",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Base => f.write_str("the base fits"),
            Self::Growth => f.write_str("room is free"),
            Self::Swap => f.write_str("a job above its share gave up room"),
            Self::RoomFor(job) => write!(f, "{job} needs room for its base"),
            Self::SwapTo(job) => write!(f, "{job} is below its share"),
            Self::AboveMax => f.write_str("the role has more pods than its maximum"),
            Self::NotStarted => f.write_str("the pod did not start in time"),
            Self::PlaceGone => f.write_str("the node is gone, closed or full"),
            Self::Lost => f.write_str("the pod was preempted, evicted or failed"),
            Self::Found => f.write_str("the pod exists beside the target"),
        }
    }
}

impl fmt::Display for RoleDecision {
    /// One line: `default/mnist1 trainer 237 -> 184: -53 default/mnist2 needs room for its base`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} -> {}", self.job, self.role, self.from, self.to)?;
        for (at, (rule, pods)) in self.changes().iter().enumerate() {
            let gap = if at == 0 { ": " } else { ", " };
            write!(f, "{gap}{pods:+} {rule}")?;
        }
        Ok(())
    }
}
