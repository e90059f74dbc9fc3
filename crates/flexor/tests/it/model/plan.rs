//! The plans of histories.

use std::collections::BTreeMap;

use flexor_model::{Job, MigratePod, Plan, PlanOrigin, Resources, RoleChange, RoleKind};

/// The plan of this number.
pub fn plan_for(job: &Job, number: usize, workers: u32) -> Plan {
    let role = job.role(RoleKind::Worker).unwrap().name.clone();
    Plan {
        name: format!("plan-{number}").parse().unwrap(),
        namespace: None,
        job: job.name.clone(),
        origin: PlanOrigin::Manual,
        roles: BTreeMap::from([(role, RoleChange { replicas: Some(workers), resources: Resources::default() })]),
        create: Vec::new(),
        remove: Vec::new(),
        migrate: Vec::new(),
        gives_back: false,
        message: String::new(),
        server_addresses: Vec::new(),
    }
}

/// The plan of this number, by which a pod migrates.
pub fn migration_of(job: &Job, number: usize, pod: &str) -> Plan {
    let migrate = vec![MigratePod { pod: pod.parse().unwrap(), resources: Resources::default() }];
    Plan { roles: BTreeMap::new(), migrate, ..plan_for(job, number, 1) }
}
