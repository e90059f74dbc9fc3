//! Names of pods and services, labels and variables, as DLRover's users know them.
//!
//! Names and the old labels are those of v0.1, which its tutorials show. Pods carry the labels of v0.2 and later too.
//! v0.1's `RDZV_ENDPOINT` was the address of worker 0; here it is the pod's own sidecar. Not carried over: the labels of
//! rack groups.

use std::collections::BTreeMap;

use flexor_model::{
    EnvRule, EnvValue, IdRule, NamedPort, Pattern, ReplicaRange, RoleKind, RoleName, RoleNaming, ServiceRule,
    ServiceScope, Strategy, ports,
};

use crate::torchrun_env::{self, Rendezvous};

/// The role of the job's master.
pub(super) const MASTER: &str = "dlrover-master";
/// The port of TensorFlow's workers.
const WORKER_PORT: u16 = 3333;
/// The port of the rendezvous in manifests of v0.1: `--rdzv_endpoint=$RDZV_ENDPOINT:2222`.
const RENDEZVOUS_PORT: u16 = 2222;

pub(super) fn of(kind: RoleKind, strategy: Strategy, restart_count: u32) -> RoleNaming {
    let mut labels = labels();
    let count = Pattern::number(restart_count);
    labels.insert("restart-count".to_owned(), count);
    if kind == RoleKind::Master {
        labels.insert("app.kubernetes.io/name".to_owned(), Pattern::of("elasticjob"));
        return RoleNaming { pod: Pattern::of("elasticjob-{job}-dlrover-master"), ids: IdRule::Rank, labels };
    }
    // An all-reduce job assigns ranks at each rendezvous, so a replacement may have the old name.
    let ids = if strategy == Strategy::AllReduce { IdRule::Rank } else { IdRule::Increasing };
    RoleNaming { pod: Pattern::of("{job}-edljob-{role}-{id}"), ids, labels }
}

/// The service in front of each rank of a role.
pub(super) fn service(kind: RoleKind) -> ServiceRule {
    let port = if kind == RoleKind::ParameterServer { ports::PARAMETER_SERVER } else { WORKER_PORT };
    ServiceRule {
        name: Pattern::of("{job}-edljob-{role}-{rank}"),
        scope: ServiceScope::Rank,
        selector: ["elasticjob-name", "replica-type", "rank-index"].map(str::to_owned).into(),
        ports: vec![NamedPort::of("grpc", port)],
    }
}

/// The service in front of the master.
pub(super) fn master_service() -> ServiceRule {
    crate::master::service("elasticjob-{job}-dlrover-master", &["elasticjob-name", "replica-type"])
}

fn labels() -> BTreeMap<String, Pattern> {
    [
        ("app", "dlrover"),
        ("elasticjob-name", "{job}"),
        ("replica-type", "{role}"),
        ("replica-index", "{id}"),
        ("rank-index", "{rank}"),
        ("elasticjob.dlrover/name", "{job}"),
        ("elasticjob.dlrover/replica-type", "{role}"),
        ("elasticjob.dlrover/replica-index", "{id}"),
        ("elasticjob.dlrover/rank-index", "{rank}"),
        ("elasticjob.dlrover/relaunch-count", "{relaunches}"),
    ]
    .map(|(key, value)| (key.to_owned(), Pattern::of(value)))
    .into()
}

/// The variables of every pod but the master's. `nodes` is the range of node counts, for the workers only.
pub(super) fn environment(strategy: Strategy, nodes: Option<ReplicaRange>) -> Vec<EnvRule> {
    let master: RoleName = MASTER.parse().expect("the master's role has a good name");
    let grpc = "grpc".parse().expect("grpc is the name of a port");
    let mut rules = vec![
        EnvRule::address("DLROVER_MASTER_ADDR", master.clone(), grpc),
        EnvRule::literal("DLROVER_MASTER_SERVICE_TYPE", "grpc"),
        EnvRule::literal("DLROVER_TRAINING_ELASTIC_MODE", "base"),
        EnvRule::text("ELASTIC_JOB_NAME", "{job}"),
        EnvRule::text("JOB_UID", "{uid}"),
        EnvRule::text("NODE_TYPE", "{role}"),
        EnvRule::text("NODE_ID", "{id}"),
        EnvRule::text("NODE_RANK", "{rank}"),
        // The chief is one of the workers that the user asked for.
        EnvRule::text("NODE_NUM", "{replicas:chief+worker}"),
        EnvRule::text("WORKER_TYPE", "{role}"),
        EnvRule::text("WORKER_ID", "{id}"),
        EnvRule::text("WORKER_RANK", "{rank}"),
        EnvRule::text("WORKER_NUM", "{replicas:chief+worker}"),
        EnvRule::literal("GRPC_ENABLE_FORK_SUPPORT", "false"),
        EnvRule::literal("MONITOR_ENABLED", "true"),
        EnvRule::pod_field("POD_NAME", "metadata.name"),
        EnvRule::pod_field("POD_IP", "status.podIP"),
        EnvRule::pod_field("NODE_IP", "status.hostIP"),
    ];
    match strategy {
        Strategy::AllReduce => {
            // Only workers join the rendezvous.
            if let Some(nodes) = nodes {
                rules.extend([EnvRule::text("RANK", "{rank}"), EnvRule::text("WORLD_SIZE", "{replicas:worker}")]);
                rules.extend(torchrun_env::of(nodes, Rendezvous::Master(master)));
                rules.push(EnvRule::sidecar_host("RDZV_ENDPOINT", RENDEZVOUS_PORT));
            }
        }
        Strategy::ParameterServer => {
            rules.push(EnvRule { name: "TF_CONFIG".to_owned(), value: EnvValue::TfConfig });
        }
        Strategy::Local | Strategy::Custom => {}
    }
    rules
}
