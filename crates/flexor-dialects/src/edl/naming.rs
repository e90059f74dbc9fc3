//! Names of pods, labels and ports, as EDL's users know them.
//!
//! The original let Kubernetes name its pods at random. Ours are `JOB-trainer-0`, `JOB-trainer-1`, ….

use flexor_model::{IdRule, NamedPort, Pattern, RoleNaming, ServiceRule};

use super::TrainingJobSpec;

const FIRST_PORT: i32 = 7164;

/// The names of a role's pods. The label `selector` selects them.
pub(super) fn of(selector: &str) -> RoleNaming {
    RoleNaming {
        pod: Pattern::of("{job}-{role}-{id}"),
        ids: IdRule::Increasing,
        labels: [(selector.to_owned(), Pattern::of("{job}"))].into(),
    }
}

/// The service in front of the master.
pub(super) fn master_service() -> ServiceRule {
    crate::master::service("{job}-master", &["paddle-job-master"])
}

/// The first port of trainers and servers.
pub(super) fn first_port(spec: &TrainingJobSpec) -> i32 {
    spec.port.unwrap_or(FIRST_PORT)
}

/// The ports of trainers and servers: one for each dense and each sparse channel.
pub(super) fn ports(spec: &TrainingJobSpec) -> Vec<NamedPort> {
    let first = first_port(spec);
    let channels = spec.ports_num.unwrap_or(1) + spec.ports_num_for_sparse.unwrap_or(1);
    (first..first + channels)
        .filter_map(|port| u16::try_from(port).ok())
        .map(|port| NamedPort::of(&format!("jobport-{port}"), port))
        .collect()
}
