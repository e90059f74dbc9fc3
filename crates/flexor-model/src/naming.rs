//! How the things of a role are called: pods, services, labels, ports, environment.
//!
//! All of it is data that a dialect fills in; the engine and the operator only fill the gaps of the patterns.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{DnsLabel, Field, JobName, NodeId, Pattern, Rank, RoleName};

/// The naming rules of one role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleNaming {
    /// The name of a pod.
    pub pod: Pattern,
    /// Where a pod's number comes from.
    pub ids: IdRule,
    /// The service in front of the role's pods, where the dialect has one.
    pub service: Option<ServiceRule>,
    /// Labels of pods and services, by key.
    pub labels: BTreeMap<String, Pattern>,
    /// Ports that the main container declares.
    pub ports: Vec<PodPort>,
    /// Variables added to the main container, before those of the user's template, which win.
    pub env: Vec<EnvRule>,
}

/// Where the number in a pod's name comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum IdRule {
    /// The next number never used in this role; a replacement has a new name and inherits the rank.
    Increasing,
    /// The rank itself: a replacement has the same name as what it replaces.
    Rank,
}

/// A service made for a role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceRule {
    /// Its name.
    pub name: Pattern,
    /// What it stands in front of.
    pub scope: ServiceScope,
    /// The port; none for a headless service that only gives names.
    pub port: Option<u16>,
}

/// What a service stands in front of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ServiceScope {
    /// One rank of the role: a replacement inherits the address.
    Rank,
    /// All pods of the role under one headless name.
    Role,
}

/// A port of the main container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodPort {
    /// Its name.
    pub name: DnsLabel,
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
pub enum EnvValue {
    /// A text with gaps.
    Text(Pattern),
    /// A field of the pod itself, such as `status.podIP`.
    PodField(String),
    /// TensorFlow's cluster description, written when the addresses of the servers are known.
    TfConfig,
}

/// One pod's place in a job: what the gaps of its patterns are filled from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seat<'a> {
    /// The job.
    pub job: &'a JobName,
    /// The namespace it runs in.
    pub namespace: &'a DnsLabel,
    /// The job's unique id.
    pub uid: &'a str,
    /// The role.
    pub role: &'a RoleName,
    /// The number in the pod's name.
    pub id: NodeId,
    /// The pod's place in its role.
    pub rank: Rank,
    /// How many replicas each role starts with.
    pub replicas: &'a BTreeMap<RoleName, u32>,
}

impl Seat<'_> {
    /// What fills one gap. A role that the job does not have counts zero replicas.
    pub fn get(&self, field: &Field) -> String {
        match field {
            Field::Job => self.job.to_string(),
            Field::Namespace => self.namespace.to_string(),
            Field::Uid => self.uid.to_owned(),
            Field::Role => self.role.lower(),
            Field::Id => self.id.to_string(),
            Field::Rank => self.rank.to_string(),
            Field::Replicas(role) => self.replicas.get(role).copied().unwrap_or(0).to_string(),
        }
    }
}

impl RoleNaming {
    /// How many characters the longest generated name has beyond the job's name.
    pub fn overhead(&self, role: &RoleName) -> usize {
        let service = self.service.as_ref().map_or(0, |service| service.name.overhead(role));
        self.pod.overhead(role).max(service)
    }
}

#[cfg(test)]
impl Seat<'static> {
    /// A seat for tests; its parts are leaked.
    pub(crate) fn example(job: &str, role: &str, id: u32, rank: u32) -> Self {
        Seat {
            job: Box::leak(Box::new(job.parse().unwrap())),
            namespace: Box::leak(Box::new("default".parse().unwrap())),
            uid: "7c0f",
            role: Box::leak(Box::new(role.parse().unwrap())),
            id: NodeId(id),
            rank: Rank(rank),
            replicas: Box::leak(Box::new([("worker".parse().unwrap(), 4)].into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_filled_from_the_seat() {
        let pattern: Pattern =
            "{role}/{id}/{rank} of {replicas:worker}+{replicas:ps} in {namespace} {uid}".parse().unwrap();
        assert_eq!(pattern.fill(&Seat::example("j", "Worker", 5, 2)), "worker/5/2 of 4+0 in default 7c0f");
    }
}
