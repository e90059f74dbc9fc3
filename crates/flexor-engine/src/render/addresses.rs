//! Where the roles of a job are reached, as a pod's variables write it.

use std::collections::BTreeMap;

use flexor_model::{
    DnsLabel, Job, JobUid, NodeId, PodIdentity, PortName, Rank, Role, ServiceRule, ServiceScope, ports,
};

/// `HOST:PORT` of what a pod talks to. Nothing means that it is not known, and the variable is left out.
pub trait Addresses {
    /// A port of a role, by the name that the role's service gives it.
    fn of_role(&self, role: &Role, port: &PortName) -> Option<String>;

    /// One replica of a role, at the first port of the role's service.
    fn of_replica(&self, role: &Role, rank: Rank) -> Option<String>;

    /// The store that the pod's own sidecar serves.
    fn of_sidecar(&self) -> Option<String>;
}

/// Addresses on a cluster: the DNS names of the job's services.
pub struct ServiceAddresses<'a> {
    pub job: &'a Job,
    pub uid: &'a JobUid,
    pub namespace: &'a DnsLabel,
}

impl ServiceAddresses<'_> {
    fn at(&self, role: &Role, rule: &ServiceRule, rank: Rank, port: u16) -> String {
        let replicas = BTreeMap::new();
        let identity = PodIdentity {
            job: &self.job.name,
            namespace: self.namespace,
            uid: self.uid,
            role: &role.name,
            id: NodeId(rank.0),
            rank,
            relaunches: 0,
            replicas: &replicas,
        };
        format!("{}.{}.svc:{port}", rule.name.fill(&identity), self.namespace)
    }
}

impl Addresses for ServiceAddresses<'_> {
    fn of_role(&self, role: &Role, port: &PortName) -> Option<String> {
        let rule = role.service.as_ref()?;
        let number = rule.ports.iter().find(|known| known.name == *port)?.port;
        Some(self.at(role, rule, Rank(0), number))
    }

    fn of_replica(&self, role: &Role, rank: Rank) -> Option<String> {
        let rule = role.service.as_ref()?;
        let is_of_one_rank = match rule.scope {
            ServiceScope::Rank => true,
            ServiceScope::Role => role.size.initial() <= 1,
            // Its name has the pod's id in it, which changes with every replacement.
            ServiceScope::Pod => false,
        };
        let number = rule.ports.first()?.port;
        is_of_one_rank.then(|| self.at(role, rule, rank, number))
    }

    fn of_sidecar(&self) -> Option<String> {
        Some(format!("127.0.0.1:{}", ports::STORE))
    }
}
