//! The neutral job: every dialect is turned into it, and the engine sees nothing else.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{DnsLabel, EnvValue, JobName, LABEL_MAX, Resources, Role, RoleKind};

/// An elastic training job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Job {
    /// The name of its object.
    pub name: JobName,
    /// Its namespace, where the manifest names one.
    pub namespace: Option<DnsLabel>,
    /// The dialect of its manifest. Only `flexor-dialects` looks at it.
    pub dialect: String,
    /// Labels of the job that its pods carry too.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the job that its pods carry too.
    pub annotations: BTreeMap<String, String>,
    /// How its processes share the work.
    pub strategy: Strategy,
    /// Its roles, in the order in which they are started.
    pub roles: Vec<Role>,
    /// Who scales those roles that may be scaled automatically.
    pub sizing: Sizing,
    /// What all its pods together may not exceed when Flexor sizes it; empty means no ceiling of its own.
    pub ceiling: Resources,
    /// When it is ended, and what is removed then.
    pub end: EndPolicy,
    /// Its user holds it back: none of its pods runs.
    pub suspended: bool,
    /// On how many parameter servers each partition is kept.
    #[serde(default = "one_copy", skip_serializing_if = "is_one_copy")]
    pub ps_replication_factor: u32,
    /// Where and how often the parameters are checkpointed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoints: Option<Checkpoints>,
}

/// Checkpoints of the parameters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Checkpoints {
    /// A folder that all parameter servers reach.
    pub folder: String,
    /// The seconds between two checkpoints.
    pub every_seconds: u32,
    /// How many checkpoints are kept; 0 keeps all.
    pub keep: u32,
}

fn one_copy() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_one_copy(copies: &u32) -> bool {
    *copies == 1
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
    /// The program decides; Flexor keeps the roles running.
    Custom,
}

/// Who scales a job: the user alone, if no role may be scaled automatically.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Sizing {
    /// The user alone.
    Manual,
    /// The job's own master, from what it measures.
    Job,
    /// The cluster's planner, for all jobs together. It holds a job, also one of a fixed size, until it fits whole.
    Cluster,
}

/// When a job is ended, and what is removed then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndPolicy {
    /// Which pods are removed at the end.
    pub clean_pods: CleanPods,
    /// After how many seconds the finished job itself is removed.
    pub remove_after_seconds: Option<u32>,
    /// After how many seconds a running job fails.
    pub deadline_seconds: Option<u64>,
    /// After how many seconds a job fails that had fewer pods than it needs for all that time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shortage_seconds: Option<u64>,
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
        let names = self.roles.iter().flat_map(|role| {
            let service = role.service.as_ref().map(|service| &service.name);
            [Some(&role.naming.pod), service].into_iter().flatten().map(|name| name.overhead(&role.name))
        });
        self.name.as_str().len() + names.max().unwrap_or(0)
    }

    /// The contradictions in this job; none in one that a dialect made.
    ///
    /// Types rule out most contradictions. Those between fields are here, for property tests and `debug_assert!`.
    pub fn contradictions(&self) -> Vec<String> {
        let mut found = Vec::new();
        for role in &self.roles {
            let name = &role.name;
            if self.sizing == Sizing::Manual && role.size.automatically().is_some() {
                found.push(format!("{name} may be scaled automatically, but the job is sized manually"));
            }
            for key in role.service.iter().flat_map(|service| &service.selector) {
                if !role.naming.labels.contains_key(key) {
                    found.push(format!("the service of {name} selects by {key}, which its pods do not carry"));
                }
            }
            for rule in &role.env {
                if let EnvValue::Address { role: wanted, port } = &rule.value {
                    let target = self.roles.iter().find(|role| role.name == *wanted);
                    let ports = target.and_then(|target| target.service.as_ref()).map(|service| &service.ports);
                    if !ports.is_some_and(|ports| ports.iter().any(|named| named.name == *port)) {
                        found.push(format!(
                            "{} of {name} points to port {port} of {wanted}, which is not served",
                            rule.name
                        ));
                    }
                }
            }
        }
        let automatic = self.roles.iter().any(|role| role.size.automatically().is_some());
        if self.sizing == Sizing::Job && !automatic {
            found.push("its master sizes the job, but no role may be scaled automatically".to_owned());
        }
        if self.longest_name() > LABEL_MAX {
            found.push(format!("a name of {} characters would be made", self.longest_name()));
        }
        found
    }
}

impl Strategy {
    /// What a job of this strategy is called in a sentence.
    pub fn as_str(self) -> &'static str {
        match self {
            Strategy::ParameterServer => "parameter-server",
            Strategy::AllReduce => "all-reduce",
            Strategy::Local => "local",
            Strategy::Custom => "custom",
        }
    }
}

impl Default for EndPolicy {
    /// Nothing is removed and nothing is limited.
    fn default() -> Self {
        Self { clean_pods: CleanPods::None, remove_after_seconds: None, deadline_seconds: None, shortage_seconds: None }
    }
}
