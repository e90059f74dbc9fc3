//! How EDL's users know their pods, labels, ports and variables.
//!
//! The original let Kubernetes number its pods at random; ours are `JOB-trainer-0`, `JOB-trainer-1`, ….

use std::collections::BTreeMap;

use flexor_model::{DnsLabel, EnvRule, EnvValue, IdRule, Pattern, PodPort, RoleNaming, ServiceRule, ServiceScope};

const MASTER_PORT: u16 = 8080;

/// The master.
pub(super) fn of_master(env: Vec<EnvRule>) -> RoleNaming {
    RoleNaming {
        service: Some(ServiceRule {
            name: Pattern::of("{job}-master"),
            scope: ServiceScope::Rank,
            port: Some(MASTER_PORT),
        }),
        ports: vec![PodPort { name: label("master-port"), port: MASTER_PORT }],
        ..of_role("paddle-job-master", Vec::new(), env)
    }
}

/// Trainers and parameter servers, with the ports from `first` on.
pub(super) fn of_role(selector: &str, ports: Vec<u16>, env: Vec<EnvRule>) -> RoleNaming {
    RoleNaming {
        pod: Pattern::of("{job}-{role}-{id}"),
        ids: IdRule::Increasing,
        service: None,
        labels: BTreeMap::from([(selector.to_owned(), Pattern::of("{job}"))]),
        ports: ports.into_iter().map(|port| PodPort { name: label(&format!("jobport-{port}")), port }).collect(),
        env,
    }
}

/// A variable with a value that is known now.
pub(super) fn value(name: &str, value: impl ToString) -> EnvRule {
    EnvRule { name: name.to_owned(), value: EnvValue::Text(Pattern::literal(value.to_string())) }
}

/// A variable that is filled in for each pod.
pub(super) fn pattern(name: &str, pattern: &'static str) -> EnvRule {
    EnvRule { name: name.to_owned(), value: EnvValue::Text(Pattern::of(pattern)) }
}

/// A variable taken from the pod itself.
pub(super) fn pod_field(name: &str, field: &str) -> EnvRule {
    EnvRule { name: name.to_owned(), value: EnvValue::PodField(field.to_owned()) }
}

fn label(text: &str) -> DnsLabel {
    text.parse().expect("a port's name is a label")
}
