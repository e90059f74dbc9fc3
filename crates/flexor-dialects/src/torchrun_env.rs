//! The variables that steer stock torchrun, for every dialect whose pods run it.
//!
//! torchrun reads `PET_*` where its command line says nothing, so the user's command is left alone. The launchers of
//! TorchElastic up to 0.2.0 read no variables. Jobs with an etcd of their own, which only those need, get arguments too.

use flexor_model::{ArgRule, EnvRule, MOST_REPLICAS, PortName, ReplicaRange, RoleName};

/// Settings of every torchrun that meets at a master.
const FIXED: [(&str, &str); 4] = [
    ("PET_RDZV_BACKEND", "c10d"),
    // The sidecar has an address of the pod, so torchrun would take itself for the store's host. A launcher that waits
    // for others waits for up to a week.
    ("PET_RDZV_CONF", "is_host=false,join_timeout=604800"),
    // torchrun charges a restart when a lost peer makes its own workers fail. The master counts the program's failures.
    ("PET_MAX_RESTARTS", "1000"),
    // Without this, torch keeps the address of a dead rank 0.
    ("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1"),
];

/// The variables with which a torchrun that is started by hand meets at a master.
pub fn variables(nnodes: &str, id: &str, endpoint: &str) -> Vec<(&'static str, String)> {
    let given = [("PET_NNODES", nnodes), ("PET_RDZV_ID", id), ("PET_RDZV_ENDPOINT", endpoint)];
    given.into_iter().chain(FIXED).map(|(name, value)| (name, value.to_owned())).collect()
}

/// The rendezvous of the workers.
pub(crate) enum Rendezvous<'a> {
    /// At the store of the job's master.
    Master(RoleName),
    /// At an etcd of the user's own.
    Etcd(&'a str),
}

/// The variables of a job with this range of nodes.
pub(crate) fn of(nodes: ReplicaRange, rendezvous: Rendezvous<'_>) -> Vec<EnvRule> {
    let mut env = vec![EnvRule::literal("PET_NNODES", nnodes(nodes))];
    match rendezvous {
        Rendezvous::Master(role) => {
            // A master serves one job, and knows its run by the job's name.
            env.push(EnvRule::text("PET_RDZV_ID", "{job}"));
            env.push(EnvRule::address("PET_RDZV_ENDPOINT", role, store_port()));
            env.extend(FIXED.iter().map(|(name, value)| EnvRule::literal(name, *value)));
        }
        Rendezvous::Etcd(endpoint) => {
            // Not the job's name: a recreated job must not meet the state that its predecessor left in etcd.
            env.push(EnvRule::text("PET_RDZV_ID", "{uid}"));
            env.extend([EnvRule::literal("PET_RDZV_BACKEND", "etcd"), EnvRule::literal("PET_RDZV_ENDPOINT", endpoint)]);
        }
    }
    env
}

/// The arguments that TorchElastic's controller puts before the user's, in its order.
pub(crate) fn etcd_args(nodes: ReplicaRange, endpoint: &str) -> Vec<ArgRule> {
    vec![
        ArgRule::Literal("--rdzv_backend=etcd".to_owned()),
        ArgRule::Literal(format!("--rdzv_endpoint={endpoint}")),
        // The same id as in the variables, where the original has the job's name.
        ArgRule::text("--rdzv_id={uid}"),
        ArgRule::Literal(format!("--nnodes={}", nnodes(nodes))),
    ]
}

/// `MIN:MAX`, as torchrun's `--nnodes` takes it.
fn nnodes(nodes: ReplicaRange) -> String {
    let least = nodes.min().max(1);
    // An open range needs some maximum. No round waits for it: the master knows how many nodes are expected.
    let most = nodes.max().unwrap_or(MOST_REPLICAS).max(least);
    format!("{least}:{most}")
}

fn store_port() -> PortName {
    "store".parse().expect("store is the name of a port")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn torchrun_is_never_asked_for_less_than_one_node() {
        let first = |nodes| of(nodes, Rendezvous::Etcd("e:1")).remove(0);
        assert_eq!(first(ReplicaRange::exactly(0)), EnvRule::literal("PET_NNODES", "1:1"));
        assert_eq!(first(ReplicaRange::new(2, 4).unwrap()), EnvRule::literal("PET_NNODES", "2:4"));
        assert_eq!(first(ReplicaRange::at_least(2)), EnvRule::literal("PET_NNODES", "2:16384"));
    }

    #[test]
    fn arguments_say_what_the_variables_say() {
        let args = etcd_args(ReplicaRange::new(1, 2).unwrap(), "etcd-{0}:2379");
        let literal = |text: &str| ArgRule::Literal(text.to_owned());
        let expected = [
            literal("--rdzv_backend=etcd"),
            literal("--rdzv_endpoint=etcd-{0}:2379"),
            ArgRule::text("--rdzv_id={uid}"),
            literal("--nnodes=1:2"),
        ];
        assert_eq!(args, expected);
    }

    #[test]
    fn a_job_meets_at_its_own_master_by_name_and_in_a_shared_etcd_by_uid() {
        let id =
            |rendezvous| of(ReplicaRange::exactly(1), rendezvous).into_iter().find(|rule| rule.name == "PET_RDZV_ID");
        let master = Rendezvous::Master("master".parse().unwrap());
        assert_eq!(id(master), Some(EnvRule::text("PET_RDZV_ID", "{job}")));
        assert_eq!(id(Rendezvous::Etcd("e:1")), Some(EnvRule::text("PET_RDZV_ID", "{uid}")));
    }
}
