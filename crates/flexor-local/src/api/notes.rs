//! Notes about jobs and pods that run as processes of one machine, which `flexor describe` shows.
//!
//! Names of services do not resolve here, and two programs that listen on one port of all addresses conflict. Neither
//! happens on Kubernetes, which has no notes.

mod listeners;
mod services;

use std::collections::BTreeMap;

use flexor_engine::controller::PodPhase;
use flexor_model::RoleName;
use serde_json::{Value, json};

use self::listeners::Listening;
use self::services::{Service, mentions};
use super::objects::Object;
use super::processes::Processes;
use crate::cluster::{Cluster, ClusterEvent, ClusterView, JobKey, JobRecord, PodRecord};

/// Words in the error of a program whose port is in use.
const IN_USE: [&str; 2] = ["in use", "EADDRINUSE"];

/// The facts about a pod from which notes are made.
struct PodFacts {
    job: JobKey,
    name: String,
    address: String,
    /// None once it has ended.
    supervisor: Option<i32>,
    /// Notes about services of the job that its containers name.
    mentions: Vec<String>,
}

/// A program that found its port in use.
struct PortConflict {
    job: JobKey,
    pod: String,
    error: String,
}

/// The notes about the jobs and pods of a namespace, or of all namespaces if that is empty.
pub(super) async fn list(cluster: &Cluster, namespace: &str) -> Vec<Object> {
    let (mut jobs, pods, conflicts) = cluster.read(|all| {
        let mut jobs: Vec<(JobKey, Value)> = Vec::new();
        let mut mentioned: BTreeMap<(&JobKey, &RoleName), Vec<String>> = BTreeMap::new();
        for job in all.jobs.values() {
            let services = services::of(job, all);
            for role in &job.job.roles {
                let mentions = mentions(role.template.json(), &services, &job.key.namespace);
                mentioned.insert((&job.key, &role.name), mentions);
            }
            jobs.push((job.key.clone(), of_job(job, &services, all)));
        }
        let pods = all.pods.values().map(|pod| {
            let mentions = mentioned.get(&(&pod.meta.job, &pod.meta.desired.role)).cloned();
            facts(pod, mentions.unwrap_or_default())
        });
        (jobs, pods.collect::<Vec<_>>(), port_conflicts(all))
    });
    let supervisors: Vec<Option<i32>> = pods.iter().map(|pod| pod.supervisor).collect();
    // Reading all processes of a thousand pods takes a moment, so it gets a thread of its own.
    let read = tokio::task::spawn_blocking(move || {
        let processes = Processes::now();
        let family =
            |supervisor: Option<i32>| supervisor.map(|pid| processes.family(pid, |_| false)).unwrap_or_default();
        listeners::on_all_addresses(&supervisors.into_iter().map(family).collect::<Vec<_>>())
    });
    let listening = read.await.unwrap_or_default();
    let mut objects = Vec::new();
    for (key, json) in &mut jobs {
        let of_job = conflicts.iter().filter(|conflict| conflict.job == *key);
        let notes = of_job.flat_map(|conflict| {
            let pod = &conflict.pod;
            port_holders(conflict, &pods, &listening).into_iter().map(move |note| format!("pod {pod}: {note}"))
        });
        json["notes"] = notes.collect::<Vec<_>>().into();
        objects.push(object("Job", key.name.as_str(), key, std::mem::take(json)));
    }
    for (index, pod) in pods.iter().enumerate() {
        let mut notes = pod.mentions.clone();
        notes.extend(port_notes(index, &pods, &listening));
        let of_pod = conflicts.iter().filter(|conflict| conflict.job == pod.job && conflict.pod == pod.name);
        notes.extend(of_pod.flat_map(|conflict| port_holders(conflict, &pods, &listening)));
        objects.push(object("Pod", &pod.name, &pod.job, json!({ "job": pod.job.name, "notes": notes })));
    }
    objects.retain(|object| namespace.is_empty() || object.json["about"]["namespace"] == namespace);
    objects
}

fn object(kind: &str, name: &str, job: &JobKey, mut json: Value) -> Object {
    json["apiVersion"] = "flexor.dev/v1".into();
    json["kind"] = "Notes".into();
    json["about"] = json!({ "kind": kind, "name": name, "namespace": job.namespace });
    Object { id: format!("{kind}/{}/{name}", job.namespace), json }
}

/// The addresses of a job's master and its services.
fn of_job(job: &JobRecord, services: &[Service], all: &ClusterView<'_>) -> Value {
    let master = job.places.values().find(|place| place.is_master).map(|place| {
        let pod = all.pods.values().find(|pod| pod.meta.job == job.key && pod.meta.address == place.address);
        let at = place.ports.iter().find(|(name, _)| name.as_str() == "grpc").map(|(_, at)| at.to_string());
        json!({ "pod": pod.map(|pod| &pod.meta.desired.name), "address": at })
    });
    let services = services.iter().map(|service| json!({ "name": service.name, "address": service.address() }));
    json!({ "master": master, "services": services.collect::<Vec<_>>() })
}

fn facts(pod: &PodRecord, mentions: Vec<String>) -> PodFacts {
    let meta = &pod.meta;
    PodFacts {
        job: meta.job.clone(),
        name: meta.desired.name.clone(),
        address: meta.address.to_string(),
        supervisor: pod.supervisor.map(|(pid, _)| pid),
        mentions,
    }
}

/// The last port conflicts of pods that do not run.
fn port_conflicts(all: &ClusterView<'_>) -> Vec<PortConflict> {
    let is_of = |pod: &PodRecord, event: &ClusterEvent| {
        pod.meta.job == event.job && event.pod.as_ref() == Some(&pod.meta.desired.name)
    };
    let mut found: BTreeMap<(JobKey, String), String> = BTreeMap::new();
    for event in all.events {
        let is_conflict = IN_USE.iter().any(|words| event.cause.message.contains(words));
        let Some(pod) = event.pod.as_ref().filter(|_| is_conflict && all.jobs.contains_key(&event.job)) else {
            continue;
        };
        let runs = |record: &PodRecord| is_of(record, event) && record.phase() == PodPhase::Running;
        if !all.pods.values().any(runs) {
            found.insert((event.job.clone(), pod.clone()), event.cause.message.clone());
        }
    }
    found.into_iter().map(|((job, pod), error)| PortConflict { job, pod, error }).collect()
}

/// Notes about the ports of all addresses that a pod listens on.
fn port_notes(index: usize, pods: &[PodFacts], listening: &[Listening]) -> Vec<String> {
    let own = &pods[index];
    let others = || listening.iter().filter(|one| one.owner != index);
    let mut notes = Vec::new();
    for Listening { port, pid, .. } in listening.iter().filter(|one| one.owner == index) {
        let sharers: Vec<&Listening> = others().filter(|other| other.port == *port).collect();
        if sharers.is_empty() {
            notes.push(format!(
                "process {pid} listens on port {port} of all addresses, so that no other pod can have it; \
                 {}:{port} would be its own",
                own.address
            ));
        }
        for other in sharers {
            let pod = &pods[other.owner];
            notes.push(format!(
                "process {pid} and process {} of pod {} both listen on port {port} of all addresses: either may get what \
                 is meant for the other; have them listen on {}:{port} and {}:{port}",
                other.pid, pod.name, own.address, pod.address
            ));
        }
    }
    notes
}

/// Notes about the processes that may hold the port of a conflict: those on a port that its error names, or else all.
fn port_holders(conflict: &PortConflict, pods: &[PodFacts], listening: &[Listening]) -> Vec<String> {
    let is_other = |one: &&Listening| pods[one.owner].name != conflict.pod || pods[one.owner].job != conflict.job;
    let others: Vec<&Listening> = listening.iter().filter(is_other).collect();
    let named: Vec<&Listening> =
        others.iter().copied().filter(|one| contains_number(&conflict.error, one.port)).collect();
    let shown = if named.is_empty() { others } else { named };
    let line = |one: &Listening| {
        let PodFacts { name, address, .. } = &pods[one.owner];
        let (pid, port) = (one.pid, one.port);
        format!(
            "its program found an address in use: process {pid} of pod {name} listens on port {port} of all addresses; \
             have programs listen on the address of their pod, {address}:{port} there"
        )
    };
    shown.into_iter().map(line).collect()
}

/// Whether a text contains a number as a whole word.
fn contains_number(text: &str, number: u16) -> bool {
    text.split(|c: char| !c.is_ascii_digit()).any(|digits| digits.parse() == Ok(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> JobKey {
        JobKey { namespace: "default".parse().unwrap(), name: "job".parse().unwrap() }
    }

    fn pod(name: &str, address: &str) -> PodFacts {
        let (name, address) = (name.to_owned(), address.to_owned());
        PodFacts { job: key(), name, address, supervisor: None, mentions: Vec::new() }
    }

    #[test]
    fn two_programs_on_one_port_of_all_addresses_are_both_named_in_one_line() {
        let pods = [pod("a", "127.0.0.2"), pod("b", "127.0.0.3")];
        let listening = [Listening { owner: 0, port: 8000, pid: 7 }, Listening { owner: 1, port: 8000, pid: 9 }];
        assert_eq!(
            port_notes(0, &pods, &listening),
            [
                "process 7 and process 9 of pod b both listen on port 8000 of all addresses: either may get what is meant \
              for the other; have them listen on 127.0.0.2:8000 and 127.0.0.3:8000"
            ]
        );
    }

    #[test]
    fn a_port_conflict_names_the_process_that_holds_the_port() {
        let pods = [pod("a", "127.0.0.2"), pod("b", "127.0.0.3"), pod("c", "127.0.0.4")];
        let listening = [Listening { owner: 0, port: 8000, pid: 7 }, Listening { owner: 2, port: 9000, pid: 8 }];
        let notes = |error: &str| {
            let conflict = PortConflict { job: key(), pod: "b".to_owned(), error: error.to_owned() };
            port_holders(&conflict, &pods, &listening)
        };
        let one = notes("exit code 1: OSError: [Errno 98] Address already in use: ('0.0.0.0', 8000)");
        assert!(one.len() == 1 && one[0].contains("process 7 of pod a listens on port 8000"), "{one:?}");
        assert_eq!(notes("exit code 1: Address already in use").len(), 2);
    }
}
