//! How the pods of a role are called and found, and what they are told: all of it data that a dialect fills in.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{DnsLabel, Field, JobName, JobUid, NodeId, Pattern, PortName, Rank, RoleName};

/// The names of a role's pods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RoleNaming {
    /// The name of a pod.
    pub pod: Pattern,
    /// Where a pod's number comes from.
    pub ids: IdRule,
    /// Labels of the pods, by key.
    pub labels: BTreeMap<String, Pattern>,
}

/// Where the number in a pod's name comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum IdRule {
    /// The next number never used in this role; a replacement has a new name and inherits the rank.
    Increasing,
    /// The rank itself: a replacement has the same name as what it replaces.
    Rank,
}

/// A service made for a role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceRule {
    /// Its name.
    pub name: Pattern,
    /// What it stands in front of.
    pub scope: ServiceScope,
    /// The labels of the role, by key, whose values select the pods. The service carries them too.
    pub selector: Vec<String>,
    /// Its ports; none for a headless service that only gives names.
    pub ports: Vec<NamedPort>,
}

/// What a service stands in front of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ServiceScope {
    /// One pod; it ends with it.
    Pod,
    /// One rank of the role: a replacement inherits the address.
    Rank,
    /// All pods of the role under one name.
    Role,
}

/// A port with a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedPort {
    /// Its name.
    pub name: PortName,
    /// Its number.
    pub port: u16,
}

/// One environment variable of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvRule {
    /// The variable.
    pub name: String,
    /// Where its value comes from.
    pub value: EnvValue,
}

/// Where the value of an environment variable comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EnvValue {
    /// Exactly this text.
    Literal(String),
    /// A text with gaps.
    Text(Pattern),
    /// Host and port at which the pod reaches a role. Where the job runs decides what that is: the role's service, an
    /// address of this machine, or a sidecar in the pod itself.
    Address {
        /// The role.
        role: RoleName,
        /// Which of its ports.
        port: PortName,
    },
    /// A field of the pod itself, such as `status.podIP`.
    PodField(String),
    /// TensorFlow's cluster description, written when the addresses of the servers are known.
    TfConfig,
}

/// One pod's place in a job: what the gaps of its patterns are filled from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodIdentity<'a> {
    /// The job.
    pub job: &'a JobName,
    /// The namespace it runs in.
    pub namespace: &'a DnsLabel,
    /// The job's unique id.
    pub uid: &'a JobUid,
    /// The role.
    pub role: &'a RoleName,
    /// The number in the pod's name.
    pub id: NodeId,
    /// The pod's place in its role.
    pub rank: Rank,
    /// How often this place has been filled again.
    pub relaunches: u32,
    /// How many replicas each role is to have when the pod is made.
    pub replicas: &'a BTreeMap<RoleName, u32>,
}

impl PodIdentity<'_> {
    /// What fills one gap. A role that the job does not have counts zero replicas.
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

    /// A variable that says where a role is reached.
    pub fn address(name: &str, role: RoleName, port: PortName) -> Self {
        Self { name: name.to_owned(), value: EnvValue::Address { role, port } }
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
    /// A seat for tests; its parts are leaked.
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
    fn gaps_are_filled_from_the_seat() {
        let pattern =
            Pattern::of("{role}/{id}/{rank} of {replicas:worker+ps}+{replicas:ps} in {namespace} {uid} {relaunches}");
        assert_eq!(pattern.fill(&PodIdentity::example("j", "Worker", 5, 2)), "worker/5/2 of 4+0 in default 7c0f 0");
    }
}
