//! The services of a job: names that would resolve on Kubernetes, and the addresses to use here instead.

use std::collections::BTreeMap;

use flexor_model::{DnsLabel, PodIdentity, Program, RoleName};
use serde_json::Value;

use crate::cluster::{ClusterView, JobRecord, PodRecord};

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Service {
    pub name: String,
    /// Of its pods.
    pub addresses: Vec<String>,
}

impl Service {
    /// The addresses to use instead of its name.
    pub(super) fn address(&self) -> String {
        if self.addresses.is_empty() { "<none>".to_owned() } else { self.addresses.join(", ") }
    }
}

/// The services of a job, by name.
pub(super) fn of(job: &JobRecord, all: &ClusterView<'_>) -> Vec<Service> {
    let mut found: BTreeMap<&str, Vec<String>> = job.services.iter().map(|name| (name.as_str(), Vec::new())).collect();
    let targets = job.status.targets.iter();
    let replicas: BTreeMap<RoleName, u32> = targets.map(|(role, target)| (role.clone(), target.replicas)).collect();
    let mut pods: Vec<&PodRecord> =
        all.pods.values().filter(|pod| pod.meta.job == job.key && !pod.is_deleting()).collect();
    pods.sort_by_key(|pod| pod.meta.desired.rank);
    for pod in pods {
        let Some(role) = job.job.roles.iter().find(|role| role.name == pod.meta.desired.role) else { continue };
        let Some(rule) = &role.service else { continue };
        let identity = PodIdentity {
            job: &job.key.name,
            namespace: &job.key.namespace,
            uid: &job.uid,
            role: &role.name,
            id: pod.meta.desired.id,
            rank: pod.meta.desired.rank,
            relaunches: 0,
            replicas: &replicas,
        };
        let port = rule.ports.first().map(|port| port.port);
        if let Some(addresses) = found.get_mut(rule.name.fill(&identity).as_str()) {
            addresses.push(address(pod, role.program == Program::FlexorMaster, port));
        }
    }
    found.into_iter().map(|(name, addresses)| Service { name: name.to_owned(), addresses }).collect()
}

/// Where a pod is reached: a master on the port that it was given, others on the one that their service would have.
fn address(pod: &PodRecord, is_master: bool, port: Option<u16>) -> String {
    let given = pod.meta.ports.iter().find(|(name, _)| name.as_str() == "grpc").map(|(_, at)| at.to_string());
    match (given.filter(|_| is_master), port) {
        (Some(given), _) => given,
        (None, Some(port)) => format!("{}:{port}", pod.meta.address),
        (None, None) => pod.meta.address.to_string(),
    }
}

/// Notes about services that the containers of a template name, and which do not resolve here.
pub(super) fn mentions(template: &Value, services: &[Service], namespace: &DnsLabel) -> Vec<String> {
    let mut notes = Vec::new();
    let spec = &template["spec"];
    for container in list(&spec["initContainers"]).chain(list(&spec["containers"])) {
        let name = container["name"].as_str().unwrap_or_default();
        let mut texts: Vec<(String, &str)> = Vec::new();
        for variable in list(&container["env"]) {
            let (Some(variable), Some(value)) = (variable["name"].as_str(), variable["value"].as_str()) else {
                continue;
            };
            texts.push((format!("variable {variable}"), value));
        }
        for (field, what) in [("command", "command"), ("args", "argument")] {
            texts.extend(list(&container[field]).filter_map(Value::as_str).map(|word| (what.to_owned(), word)));
        }
        for (what, text) in texts {
            for service in services.iter().filter(|service| names(text, &service.name, namespace.as_str())) {
                let found = service.address();
                notes.push(format!(
                    "{what} of container {name} names the service {}, which does not resolve here; its address is {found}",
                    service.name
                ));
            }
        }
    }
    notes
}

/// Whether a text names a service: `NAME`, `NAME.NAMESPACE` or more of it, and not as a part of another name.
fn names(text: &str, service: &str, namespace: &str) -> bool {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    text.match_indices(service).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let rest = &text[at + service.len()..];
        let is_in_path = before == Some('/') && !text[..at].ends_with("//");
        let is_begin = before.is_none_or(|c| !is_of_name(c) && c != '.') && !is_in_path;
        let is_end = match rest.strip_prefix('.') {
            Some(domain) => domain.strip_prefix(namespace).is_some_and(|rest| !rest.starts_with(is_of_name)),
            None => !rest.starts_with(is_of_name),
        };
        is_begin && is_end
    })
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_service_is_recognised_by_its_whole_name() {
        for (text, is_named) in [
            ("mnist-worker-0", true),
            ("mnist-worker-0:3333", true),
            ("tcp://mnist-worker-0.default.svc.cluster.local:29500", true),
            ("--master=mnist-worker-0.default:1", true),
            ("a,mnist-worker-0.default.svc", true),
            ("mnist-worker-01", false),
            ("my-mnist-worker-0", false),
            ("mnist-worker-0.other", false),
            ("mnist-worker-0.defaults", false),
            ("/data/mnist-worker-0/log", false),
        ] {
            assert_eq!(names(text, "mnist-worker-0", "default"), is_named, "{text}");
        }
    }

    #[test]
    fn a_note_names_the_address_of_a_service() {
        let template = json!({ "spec": { "containers": [{
            "name": "main",
            "command": ["python", "--store", "mnist-master.default"],
            "env": [{ "name": "PEER", "value": "mnist-worker-0:3333" }, { "name": "OTHER", "value": "example.org" }],
        }] } });
        let service = |name: &str, at: &[&str]| Service {
            name: name.to_owned(),
            addresses: at.iter().map(ToString::to_string).collect(),
        };
        let services = [service("mnist-master", &["127.0.0.2:50001"]), service("mnist-worker-0", &[])];
        let notes = mentions(&template, &services, &"default".parse().unwrap());
        assert_eq!(
            notes,
            [
                "variable PEER of container main names the service mnist-worker-0, which does not resolve here; its \
                 address is <none>",
                "command of container main names the service mnist-master, which does not resolve here; its address is \
                 127.0.0.2:50001",
            ]
        );
    }
}
