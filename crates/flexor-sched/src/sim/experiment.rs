//! What an experiment consists of, and the two published cases.

use std::fmt;

use serde::Serialize;

/// An experiment: a cluster, jobs that are submitted one after the other, perhaps an online service, and a policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Experiment {
    pub name: String,
    /// Cores of each node.
    pub nodes: Vec<u32>,
    /// What the system's own pods take of each node, in thousandths of a core.
    pub standing_load: u32,
    /// The jobs, in the order of submission.
    pub jobs: Vec<Submission>,
    /// The service that shares the cluster.
    pub online: Option<OnlineService>,
    /// The policy that sizes the jobs.
    pub policy: Policy,
    /// Seconds that a bound pod of a job takes to end.
    pub grace: u32,
    /// Seconds from binding until a pod runs.
    pub start_latency: u32,
    /// The pods that the scheduler binds in a second.
    pub binds_per_second: u32,
    /// The last second.
    pub end: u32,
}

/// A job, and when it comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Submission {
    /// The second in which it is submitted.
    pub second: u32,
    /// What it asks for.
    pub shape: JobShape,
    /// Trainer-seconds after which it has succeeded; without them it never ends.
    pub work: Option<u64>,
}

/// Pods of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct JobShape {
    /// Cores of the master.
    pub master_cores: u32,
    /// Parameter servers.
    pub servers: u32,
    /// Cores of each of them.
    pub server_cores: u32,
    /// Cores of each trainer.
    pub trainer_cores: u32,
    /// The trainers that it is submitted with under [`Policy::Off`].
    pub fixed: u32,
    /// The trainers that it is submitted with under EDL.
    pub submitted: u32,
    /// The fewest trainers.
    pub min: u32,
    /// The most trainers.
    pub max: u32,
}

/// An online service whose replicas are set by hand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OnlineService {
    /// Cores of each pod.
    pub cores: u32,
    /// Pods that run before the first second.
    pub replicas: u32,
    /// Seconds that a pod takes to end.
    pub grace: u32,
    /// Second and replicas of each change.
    pub steps: Vec<(u32, u32)>,
}

/// What sizes the jobs, and how the scheduler's queue is ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// Every job asks for its fixed number of trainers.
    Off,
    /// EDL's autoscaler of 2017, with its defects.
    Edl,
    /// The same, with a scheduler queue in the order of priorities.
    EdlWithPriority,
    /// The planner of this crate, with the pod priorities and node hints that it asks for.
    Planned,
}

impl Policy {
    /// All policies, in the order of reports.
    pub const ALL: [Self; 4] = [Self::Off, Self::Edl, Self::EdlWithPriority, Self::Planned];
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Off => "off",
            Self::Edl => "EDL 2017",
            Self::EdlWithPriority => "EDL with pod priority",
            Self::Planned => "Flexor",
        })
    }
}

/// 2348 cores on 133 nodes, the only split into two neighbouring sizes.
fn published_nodes() -> Vec<u32> {
    [vec![18; 87], vec![17; 46]].concat()
}

/// So many equal jobs, one every few seconds.
fn equal_jobs(count: u32, first: u32, gap: u32, shape: JobShape) -> Vec<Submission> {
    (0..count).map(|job| Submission { second: first + gap * job, shape, work: None }).collect()
}

impl JobShape {
    fn published(fixed: u32, submitted: u32) -> Self {
        Self { master_cores: 1, servers: 10, server_cores: 4, trainer_cores: 5, fixed, submitted, min: 2, max: 60 }
    }

    fn tutorial(fixed: u32, min: u32, max: u32) -> Self {
        Self { master_cores: 1, servers: 2, server_cores: 1, trainer_cores: 1, fixed, submitted: min, min, max }
    }
}

impl Experiment {
    /// Case 1: twenty jobs, one every twelve seconds.
    pub fn case1(policy: Policy, grace: u32) -> Self {
        Self {
            name: "case1".to_owned(),
            nodes: published_nodes(),
            standing_load: 380,
            jobs: equal_jobs(20, 5, 12, JobShape::published(60, 2)),
            online: None,
            policy,
            grace,
            start_latency: 3,
            binds_per_second: 25,
            end: 550,
        }
    }

    /// Case 2: six jobs beside Nginx, which goes from 400 pods to 100 and back.
    pub fn case2(policy: Policy, grace: u32) -> Self {
        let steps = vec![(110, 300), (203, 200), (296, 100), (389, 200), (482, 300), (575, 400)];
        Self {
            name: "case2".to_owned(),
            jobs: equal_jobs(6, 3, 8, JobShape::published(15, 15)),
            online: Some(OnlineService { cores: 3, replicas: 400, grace: 2, steps }),
            end: 690,
            ..Self::case1(policy, grace)
        }
    }

    /// The first plan of the experiment, as the tutorial describes it: 240 cores, and two jobs of 1-core trainers.
    pub fn tutorial(policy: Policy, grace: u32) -> Self {
        let job = |second, shape| Submission { second, shape, work: None };
        Self {
            name: "tutorial".to_owned(),
            nodes: vec![6; 40],
            standing_load: 0,
            jobs: vec![job(5, JobShape::tutorial(100, 50, 500)), job(65, JobShape::tutorial(200, 50, 200))],
            end: 300,
            ..Self::case1(policy, grace)
        }
    }

    /// All cores of the cluster.
    pub fn cores(&self) -> u32 {
        self.nodes.iter().sum()
    }
}
