//! What the pods, services, labels and ports of an ElasticDL job are called.
//!
//! The names are those of 0.2.0rc2, which the tutorial shows: `elasticdl-JOB-master`, `elasticdl-JOB-ps-0`,
//! `elasticdl-JOB-worker-4`. A server keeps its number for life; a worker that replaces another gets the next one.

use std::collections::BTreeMap;

use flexor_model::{EnvRule, EnvValue, IdRule, Pattern, PodPort, RoleNaming, ServiceRule, ServiceScope};

/// Where the master is called.
pub const MASTER_PORT: u16 = 50001;
/// Where a parameter server is called.
pub const PS_PORT: u16 = 2222;
/// Where a worker is called.
pub const WORKER_PORT: u16 = 3333;

/// How the addresses of workers behave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WorkerAddress {
    /// Each worker has its own, which ends with it.
    PerPod,
    /// A replacement takes over the address, which TF_CONFIG needs.
    Inherited,
}

pub(super) fn master() -> RoleNaming {
    RoleNaming {
        pod: pattern("elasticdl-{job}-master"),
        ids: IdRule::Rank,
        service: None,
        labels: labels(),
        ports: ports(MASTER_PORT),
        env: vec![EnvRule { name: "MY_POD_IP".to_owned(), value: EnvValue::PodField("status.podIP".to_owned()) }],
    }
}

pub(super) fn servers(address: WorkerAddress) -> RoleNaming {
    RoleNaming {
        pod: pattern("elasticdl-{job}-ps-{id}"),
        ids: IdRule::Rank,
        service: Some(ServiceRule {
            name: pattern("elasticdl-{job}-ps-{rank}"),
            scope: ServiceScope::Rank,
            port: Some(PS_PORT),
        }),
        labels: labels(),
        ports: ports(PS_PORT),
        env: tf_config(address),
    }
}

pub(super) fn workers(address: WorkerAddress) -> RoleNaming {
    let service = match address {
        WorkerAddress::PerPod => "elasticdl-{job}-worker-{id}",
        WorkerAddress::Inherited => "elasticdl-{job}-worker-{rank}",
    };
    RoleNaming {
        pod: pattern("elasticdl-{job}-worker-{id}"),
        ids: IdRule::Increasing,
        service: Some(ServiceRule { name: pattern(service), scope: ServiceScope::Rank, port: Some(WORKER_PORT) }),
        labels: labels(),
        ports: ports(WORKER_PORT),
        env: tf_config(address),
    }
}

fn labels() -> BTreeMap<String, Pattern> {
    [
        ("app", "elasticdl"),
        ("elasticdl-job-name", "{job}"),
        ("elasticdl-replica-type", "{role}"),
        ("elasticdl-replica-index", "{id}"),
    ]
    .map(|(key, value)| (key.to_owned(), pattern(value)))
    .into()
}

fn ports(port: u16) -> Vec<PodPort> {
    vec![PodPort { name: "grpc".parse().expect("grpc is a DNS label"), port }]
}

fn tf_config(address: WorkerAddress) -> Vec<EnvRule> {
    match address {
        WorkerAddress::PerPod => Vec::new(),
        WorkerAddress::Inherited => vec![EnvRule { name: "TF_CONFIG".to_owned(), value: EnvValue::TfConfig }],
    }
}

fn pattern(text: &str) -> Pattern {
    text.parse().expect("the patterns of this file have only gaps that are known")
}
