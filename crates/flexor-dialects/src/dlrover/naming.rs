//! How DLRover's users know their pods, services, labels and variables.
//!
//! Names and the old labels are those of v0.1, which its tutorials show; the labels of v0.2 and later stand beside them.

use std::collections::BTreeMap;

use flexor_model::{EnvRule, EnvValue, IdRule, Pattern, RoleKind, RoleNaming, ServiceRule, ServiceScope, Strategy};

const MASTER_PORT: u16 = 50001;
const SERVER_PORT: u16 = 2222;
const WORKER_PORT: u16 = 3333;

/// The naming rules of one role.
pub(super) fn of(kind: RoleKind, strategy: Strategy) -> RoleNaming {
    if kind == RoleKind::Master {
        return RoleNaming {
            pod: Pattern::of("elasticjob-{job}-dlrover-master"),
            ids: IdRule::Rank,
            service: Some(ServiceRule {
                name: Pattern::of("elasticjob-{job}-dlrover-master"),
                scope: ServiceScope::Rank,
                port: Some(MASTER_PORT),
            }),
            labels: labels("dlrover-master"),
            ports: Vec::new(),
            env: vec![pod_field("POD_IP", "status.podIP")],
        };
    }
    let port = if kind == RoleKind::ParameterServer { SERVER_PORT } else { WORKER_PORT };
    RoleNaming {
        pod: Pattern::of("{job}-edljob-{role}-{id}"),
        // Ranks of an all-reduce job are handed out at each rendezvous, so a replacement may have the old name.
        ids: if strategy == Strategy::AllReduce { IdRule::Rank } else { IdRule::Increasing },
        service: Some(ServiceRule {
            name: Pattern::of("{job}-edljob-{role}-{rank}"),
            scope: ServiceScope::Rank,
            port: Some(port),
        }),
        labels: labels("{role}"),
        ports: Vec::new(),
        env: environment(strategy),
    }
}

fn labels(role: &'static str) -> BTreeMap<String, Pattern> {
    [
        ("app", "dlrover"),
        ("elasticjob-name", "{job}"),
        ("replica-type", role),
        ("replica-index", "{id}"),
        ("rank-index", "{rank}"),
        ("elasticjob.dlrover/name", "{job}"),
        ("elasticjob.dlrover/replica-type", role),
        ("elasticjob.dlrover/replica-index", "{id}"),
        ("elasticjob.dlrover/rank-index", "{rank}"),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), Pattern::of(value)))
    .collect()
}

fn environment(strategy: Strategy) -> Vec<EnvRule> {
    let mut rules = vec![
        text("DLROVER_MASTER_ADDR", "elasticjob-{job}-dlrover-master:50001"),
        text("ELASTIC_JOB_NAME", "{job}"),
        text("JOB_UID", "{uid}"),
        text("NODE_TYPE", "{role}"),
        text("NODE_ID", "{id}"),
        text("NODE_RANK", "{rank}"),
        text("NODE_NUM", "{replicas:worker}"),
        text("WORKER_TYPE", "{role}"),
        text("WORKER_ID", "{id}"),
        text("WORKER_RANK", "{rank}"),
        text("WORKER_NUM", "{replicas:worker}"),
        text("GRPC_ENABLE_FORK_SUPPORT", "false"),
        pod_field("POD_NAME", "metadata.name"),
        pod_field("POD_IP", "status.podIP"),
        pod_field("NODE_IP", "status.hostIP"),
    ];
    match strategy {
        Strategy::AllReduce => {
            rules.extend([text("RANK", "{rank}"), text("WORLD_SIZE", "{replicas:worker}")]);
        }
        Strategy::ParameterServer => {
            rules.push(EnvRule { name: "TF_CONFIG".to_owned(), value: EnvValue::TfConfig });
        }
        Strategy::Local | Strategy::Custom => {}
    }
    rules
}

fn text(name: &str, value: &'static str) -> EnvRule {
    EnvRule { name: name.to_owned(), value: EnvValue::Text(Pattern::of(value)) }
}

fn pod_field(name: &str, field: &str) -> EnvRule {
    EnvRule { name: name.to_owned(), value: EnvValue::PodField(field.to_owned()) }
}
