//! How users of TorchElastic's controller know their pods, labels and variables.

use std::collections::BTreeMap;

use flexor_model::{EnvRule, EnvValue, IdRule, Pattern, ReplicaRange, RoleNaming, ServiceRule, ServiceScope};

const STORE_PORT: u16 = 29400;

/// The nodes.
///
/// torchrun is steered by `PET_*` variables of the launcher's container alone; the original prefixed the arguments of
/// every container in the pod, so that sidecars broke.
pub(super) fn of_worker(range: ReplicaRange, own_etcd: Option<&str>) -> RoleNaming {
    let text = |name: &str, value: Pattern| EnvRule { name: name.to_owned(), value: EnvValue::Text(value) };
    let mut env = vec![
        text("PET_NNODES", Pattern::literal(format!("{}:{}", range.min(), range.max()))),
        // The original used the job's name, so that a job made anew met the rendezvous of its predecessor.
        text("PET_RDZV_ID", Pattern::of("{uid}")),
    ];
    match own_etcd {
        Some(endpoint) => env.extend([
            text("PET_RDZV_BACKEND", Pattern::literal("etcd")),
            text("PET_RDZV_ENDPOINT", Pattern::literal(endpoint)),
        ]),
        None => env.extend([
            text("PET_RDZV_BACKEND", Pattern::literal("c10d")),
            text("PET_RDZV_ENDPOINT", Pattern::of("{job}-master:29400")),
            // Without it torch caches the address of a rank 0 that has died.
            text("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", Pattern::literal("1")),
        ]),
    }
    RoleNaming {
        pod: Pattern::of("{job}-worker-{id}"),
        ids: IdRule::Rank,
        service: Some(ServiceRule { name: Pattern::of("{job}-worker"), scope: ServiceScope::Role, port: None }),
        labels: labels("worker"),
        ports: Vec::new(),
        env,
    }
}

/// The job's master, which holds the rendezvous.
pub(super) fn of_master() -> RoleNaming {
    RoleNaming {
        pod: Pattern::of("{job}-master"),
        ids: IdRule::Rank,
        service: Some(ServiceRule {
            name: Pattern::of("{job}-master"),
            scope: ServiceScope::Rank,
            port: Some(STORE_PORT),
        }),
        labels: labels("master"),
        ports: Vec::new(),
        env: Vec::new(),
    }
}

fn labels(role: &'static str) -> BTreeMap<String, Pattern> {
    [("group-name", "elastic.pytorch.org"), ("job-name", "{job}"), ("replica-type", role), ("replica-index", "{id}")]
        .into_iter()
        .map(|(key, value)| (key.to_owned(), Pattern::of(value)))
        .collect()
}
