//! Names, labels, services and variables of a role's pods, as data.
//!
//! A dialect fills these rules in. The controller makes names and services of them, the renderer labels and variables.
//! Nothing behind the dialects knows how a dialect names things.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{DnsLabel, Field, JobName, JobUid, NodeId, Pattern, PortName, Rank, RoleName};

/// How a role's pods are named and labelled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RoleNaming {
    pub pod: Pattern,
    pub ids: IdRule,
    pub labels: BTreeMap<String, Pattern>,
}

/// Where the id in a pod's name comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum IdRule {
    /// The next id that the role has never used. A replacement has a new name and inherits the rank.
    Increasing,
    /// The rank itself. A replacement has the name of its predecessor.
    Rank,
}

/// A service in front of a role's pods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceRule {
    pub name: Pattern,
    pub scope: ServiceScope,
    /// Keys of the role's labels that select the pods. The service carries these labels too.
    pub selector: Vec<String>,
    /// Empty for a headless service, which only gives names.
    pub ports: Vec<NamedPort>,
}

/// The pods that one service selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ServiceScope {
    /// One pod. The service is removed with it.
    Pod,
    /// One rank of the role. A replacement inherits the address.
    Rank,
    /// All pods of the role.
    Role,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedPort {
    pub name: PortName,
    pub port: u16,
}

/// One environment variable of a role's main containers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvRule {
    pub name: String,
    pub value: EnvValue,
}

/// Where the value of an environment variable comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EnvValue {
    /// This text. Nothing in it is expanded.
    Literal(String),
    /// A text whose gaps are filled for each pod.
    Text(Pattern),
    /// `HOST:PORT` at which the pod reaches a role: the role's service, an address of this machine, or the pod's own
    /// sidecar. The renderer's context knows which.
    Address {
        role: RoleName,
        /// A port of the role's service.
        port: PortName,
    },
    /// A field of the pod itself, such as `status.podIP`.
    PodField(String),
    /// TensorFlow's cluster description: the addresses of all tasks, and which task the pod is.
    TfConfig,
    /// The host of the pod's own sidecar, for a command line that adds this port itself. The sidecar serves its store
    /// there too. The variable is left out of pods without a sidecar, and where the kernel chooses a sidecar's ports.
    SidecarHost { port: u16 },
}

/// One argument of a role's main containers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ArgRule {
    /// This text. Nothing in it is expanded.
    Literal(String),
    /// A text whose gaps are filled for each pod.
    Text(Pattern),
}

/// A pod's identity in its job, which fills the gaps of patterns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodIdentity<'a> {
    pub job: &'a JobName,
    pub namespace: &'a DnsLabel,
    /// The job's unique id.
    pub uid: &'a JobUid,
    pub role: &'a RoleName,
    /// The number in the pod's name.
    pub id: NodeId,
    pub rank: Rank,
    /// How many pods filled this slot before.
    pub relaunches: u32,
    /// Target replicas of each role when the pod is created.
    pub replicas: &'a BTreeMap<RoleName, u32>,
}

impl PodIdentity<'_> {
    /// The text for one gap. A role that the job does not have counts zero replicas.
    pub fn get(&self, field: &Field) -> String {
        match field {
            Field::Job => self.job.to_string(),
            Field::Namespace => self.namespace.to_string(),
            Field::Uid => self.uid.to_string(),
            Field::Role => self.role.lower(),
            Field::Id => self.id.to_string(),
            Field::Rank => self.rank.to_string(),
            Field::Relaunches => self.relaunches.to_string(),
            Field::Replicas(roles) => {
                let counts = roles.iter().filter_map(|role| self.replicas.get(role));
                counts.fold(0_u32, |sum, count| sum.saturating_add(*count)).to_string()
            }
        }
    }
}

impl EnvRule {
    /// A variable with exactly this value.
    pub fn literal(name: &str, value: impl ToString) -> Self {
        Self { name: name.to_owned(), value: EnvValue::Literal(value.to_string()) }
    }

    /// A variable whose value has gaps.
    ///
    /// # Panics
    ///
    /// As [`Pattern::of`].
    pub fn text(name: &str, pattern: &'static str) -> Self {
        Self { name: name.to_owned(), value: EnvValue::Text(Pattern::of(pattern)) }
    }

    /// A variable taken from the pod itself.
    pub fn pod_field(name: &str, field: &str) -> Self {
        Self { name: name.to_owned(), value: EnvValue::PodField(field.to_owned()) }
    }

    /// A variable with the address of a role.
    pub fn address(name: &str, role: RoleName, port: PortName) -> Self {
        Self { name: name.to_owned(), value: EnvValue::Address { role, port } }
    }

    /// A variable with the host of the pod's sidecar, which serves this port too.
    pub fn sidecar_host(name: &str, port: u16) -> Self {
        Self { name: name.to_owned(), value: EnvValue::SidecarHost { port } }
    }
}

impl ArgRule {
    /// An argument with gaps.
    ///
    /// # Panics
    ///
    /// As [`Pattern::of`].
    pub fn text(pattern: &'static str) -> Self {
        Self::Text(Pattern::of(pattern))
    }
}

impl NamedPort {
    /// A port that stands in the program itself.
    ///
    /// # Panics
    ///
    /// If the name is none that Kubernetes takes for a port.
    pub fn of(name: &str, port: u16) -> Self {
        Self { name: name.parse().expect("names of ports in the program are names of ports"), port }
    }
}

#[cfg(test)]
impl PodIdentity<'static> {
    /// An identity for tests. Its parts are leaked.
    pub(crate) fn example(job: &str, role: &str, id: u32, rank: u32) -> Self {
        PodIdentity {
            job: Box::leak(Box::new(job.parse().unwrap())),
            namespace: Box::leak(Box::new("default".parse().unwrap())),
            uid: Box::leak(Box::new(JobUid::from("7c0f"))),
            role: Box::leak(Box::new(role.parse().unwrap())),
            id: NodeId(id),
            rank: Rank(rank),
            relaunches: 0,
            replicas: Box::leak(Box::new([("worker".parse().unwrap(), 4)].into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_filled_from_the_identity() {
        let pattern =
            Pattern::of("{role}/{id}/{rank} of {replicas:worker+ps}+{replicas:ps} in {namespace} {uid} {relaunches}");
        assert_eq!(pattern.fill(&PodIdentity::example("j", "Worker", 5, 2)), "worker/5/2 of 4+0 in default 7c0f 0");
    }
}
