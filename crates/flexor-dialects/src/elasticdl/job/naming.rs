//! Names of pods and services, labels and ports, as ElasticDL's users know them.
//!
//! The names are those of 0.2.0rc2, which the tutorial shows: `elasticdl-JOB-master`, `elasticdl-JOB-ps-0`,
//! `elasticdl-JOB-worker-4`. A replaced server keeps its number; a worker that replaces another gets the next one.

use std::collections::BTreeMap;

use flexor_model::{
    EnvRule, EnvValue, IdRule, NamedPort, Pattern, RoleNaming, ServiceRule, ServiceScope, ports::PARAMETER_SERVER,
};

use crate::master;

/// The port of a worker.
pub const WORKER_PORT: u16 = 3333;

const APP: (&str, &str) = ("app", "elasticdl");
const JOB: (&str, &str) = ("elasticdl-job-name", "{job}");
const TYPE: (&str, &str) = ("elasticdl-replica-type", "{role}");
const INDEX: (&str, &str) = ("elasticdl-replica-index", "{id}");
/// ElasticDL has no label that a replacement inherits, so this one is ours.
const RANK: (&str, &str) = ("flexor.dev/rank", "{rank}");

/// How the addresses of workers behave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WorkerAddress {
    /// Each worker has its own, which ends with it.
    PerPod,
    /// A replacement takes over the address, which TF_CONFIG needs.
    Inherited,
}

/// Names, service, ports and variables of a role.
pub(super) struct Names {
    pub(super) naming: RoleNaming,
    pub(super) service: Option<ServiceRule>,
    pub(super) ports: Vec<NamedPort>,
    pub(super) env: Vec<EnvRule>,
}

pub(super) fn master() -> Names {
    Names {
        naming: RoleNaming {
            pod: Pattern::of("elasticdl-{job}-master"),
            ids: IdRule::Rank,
            labels: labels(&[APP, JOB, TYPE, INDEX]),
        },
        service: None,
        ports: master::ports(),
        env: vec![EnvRule::pod_field("MY_POD_IP", "status.podIP")],
    }
}

pub(super) fn servers(address: WorkerAddress) -> Names {
    Names {
        naming: RoleNaming {
            pod: Pattern::of("elasticdl-{job}-ps-{id}"),
            ids: IdRule::Rank,
            labels: labels(&[APP, JOB, TYPE, INDEX]),
        },
        service: Some(ServiceRule {
            name: Pattern::of("elasticdl-{job}-ps-{rank}"),
            scope: ServiceScope::Rank,
            // The number of a server is its rank.
            selector: keys(&[APP, JOB, TYPE, INDEX]),
            ports: vec![grpc(PARAMETER_SERVER)],
        }),
        ports: vec![grpc(PARAMETER_SERVER)],
        env: tf_config(address),
    }
}

pub(super) fn workers(address: WorkerAddress) -> Names {
    let (labelled, name, scope, selector) = match address {
        WorkerAddress::PerPod => (
            labels(&[APP, JOB, TYPE, INDEX]),
            "elasticdl-{job}-worker-{id}",
            ServiceScope::Pod,
            keys(&[APP, JOB, TYPE, INDEX]),
        ),
        WorkerAddress::Inherited => (
            labels(&[APP, JOB, TYPE, INDEX, RANK]),
            "elasticdl-{job}-worker-{rank}",
            ServiceScope::Rank,
            keys(&[APP, JOB, TYPE, RANK]),
        ),
    };
    Names {
        naming: RoleNaming {
            pod: Pattern::of("elasticdl-{job}-worker-{id}"),
            ids: IdRule::Increasing,
            labels: labelled,
        },
        service: Some(ServiceRule { name: Pattern::of(name), scope, selector, ports: vec![grpc(WORKER_PORT)] }),
        ports: vec![grpc(WORKER_PORT)],
        env: tf_config(address),
    }
}

fn labels(labels: &[(&str, &'static str)]) -> BTreeMap<String, Pattern> {
    labels.iter().map(|(key, value)| ((*key).to_owned(), Pattern::of(value))).collect()
}

fn keys(labels: &[(&str, &str)]) -> Vec<String> {
    labels.iter().map(|(key, _)| (*key).to_owned()).collect()
}

fn grpc(port: u16) -> NamedPort {
    NamedPort::of("grpc", port)
}

fn tf_config(address: WorkerAddress) -> Vec<EnvRule> {
    match address {
        WorkerAddress::PerPod => Vec::new(),
        WorkerAddress::Inherited => vec![EnvRule { name: "TF_CONFIG".to_owned(), value: EnvValue::TfConfig }],
    }
}
