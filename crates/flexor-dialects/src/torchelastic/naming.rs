//! Names of pods and services and labels, as users of TorchElastic's controller know them.
//!
//! One headless service names all workers of a job. The original made one per pod.

use std::collections::BTreeMap;

use flexor_model::{IdRule, Pattern, RoleNaming, ServiceRule, ServiceScope};

/// The role of the job's master.
pub(super) const MASTER: &str = "master";

pub(super) fn of_worker() -> RoleNaming {
    RoleNaming { pod: Pattern::of("{job}-worker-{id}"), ids: IdRule::Rank, labels: labels() }
}

/// The headless service that gives the workers their names.
pub(super) fn worker_service() -> ServiceRule {
    ServiceRule {
        name: Pattern::of("{job}-worker"),
        scope: ServiceScope::Role,
        selector: ["group-name", "job-name", "replica-type"].map(str::to_owned).into(),
        ports: Vec::new(),
    }
}

pub(super) fn of_master() -> RoleNaming {
    RoleNaming { pod: Pattern::of("{job}-master"), ids: IdRule::Rank, labels: labels() }
}

/// The service in front of the master.
pub(super) fn master_service() -> ServiceRule {
    crate::master::service("{job}-master", &["group-name", "job-name", "replica-type"])
}

fn labels() -> BTreeMap<String, Pattern> {
    [
        ("group-name", "elastic.pytorch.org"),
        ("job-name", "{job}"),
        ("replica-type", "{role}"),
        ("replica-index", "{id}"),
    ]
    .map(|(key, value)| (key.to_owned(), Pattern::of(value)))
    .into()
}
