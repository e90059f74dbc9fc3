//! The neutral job: what every dialect is turned into, and all that the engine ever sees.

use serde::{Deserialize, Serialize};

use crate::{DnsLabel, JobName, Resources, Role, RoleKind};

/// An elastic training job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Its name.
    pub name: JobName,
    /// Its namespace, where the manifest names one.
    pub namespace: Option<DnsLabel>,
    /// The dialect it was written in.
    pub dialect: String,
    /// How its processes share the work.
    pub strategy: Strategy,
    /// Its roles, in the order in which they are started.
    pub roles: Vec<Role>,
    /// Who decides how large it is.
    pub sizing: Sizing,
    /// What all its pods together may not exceed when Flexor sizes it; empty means no ceiling of its own.
    pub ceiling: Resources,
    /// When it ends and what is left behind.
    pub end: EndPolicy,
    /// Whether it waits to be admitted.
    pub suspended: bool,
}

/// How the processes of a job share the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Strategy {
    /// Workers push to and pull from servers.
    ParameterServer,
    /// Workers talk to each other.
    AllReduce,
    /// One process.
    Local,
    /// The program knows; Flexor keeps the roles running.
    Custom,
}

/// Who decides how large a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Sizing {
    /// The user alone.
    Manual,
    /// The job's own master, from what it measures.
    Job,
    /// The cluster's planner, for all jobs together.
    Cluster,
}

/// When a job ends and what is left behind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndPolicy {
    /// Which pods are removed at the end.
    pub clean_pods: CleanPods,
    /// After how many seconds the finished job itself is removed.
    pub remove_after_seconds: Option<u32>,
    /// After how many seconds a running job is failed.
    pub deadline_seconds: Option<u64>,
    /// How many failures of the program the whole job is forgiven.
    pub failure_limit: Option<u32>,
}

/// Which pods are removed when a job has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CleanPods {
    /// All of them.
    All,
    /// Those that still run.
    Running,
    /// None.
    None,
}

impl Job {
    /// The role of this kind, where the job has one.
    pub fn role(&self, kind: RoleKind) -> Option<&Role> {
        self.roles.iter().find(|role| role.kind == kind)
    }

    /// The longest name that will be generated for one of its objects.
    pub fn longest_name(&self) -> usize {
        let overhead = self.roles.iter().map(|role| role.naming.overhead(&role.name)).max().unwrap_or(0);
        self.name.as_str().len() + overhead
    }
}

impl Default for EndPolicy {
    /// Nothing is removed and nothing is limited.
    fn default() -> Self {
        Self { clean_pods: CleanPods::None, remove_after_seconds: None, deadline_seconds: None, failure_limit: None }
    }
}
