//! From a `ScalePlan` to the neutral plan.

use std::collections::BTreeMap;

use flexor_model::{NodeId, Plan, PlanOrigin, PodChange, Rank, Reason, RoleChange, RoleName};

use super::{PodMeta, ScalePlan};
use crate::{Finding, metadata, wire_resources::read_list};

/// Labels that say which job a plan is for; `ownerJob` decides.
const JOB_LABELS: [&str; 2] = ["elasticjob-name", "elasticjob.dlrover/name"];

/// The neutral plan.
pub(super) fn to_plan(plan: &ScalePlan, findings: &mut Vec<Finding>) -> Result<Plan, Finding> {
    let spec = &plan.spec;
    let job = spec.owner_job.parse().map_err(|error| {
        Finding::new(Reason::InvalidValue, "spec.ownerJob", format!("`{}` {error}", spec.owner_job))
    })?;
    let labels = plan.metadata.labels.iter().flatten();
    for (key, value) in labels.filter(|(key, value)| JOB_LABELS.contains(&key.as_str()) && **value != spec.owner_job) {
        findings.push(
            Finding::new(
                Reason::ValueReplaced,
                format!("metadata.labels[\"{key}\"]"),
                format!("says `{value}`, but the plan is for `{}`", spec.owner_job),
            )
            .help("ownerJob decides; write the same name in both"),
        );
    }
    let mut roles = BTreeMap::new();
    for (name, change) in spec.replica_resource_specs.iter().flatten() {
        let path = format!("spec.replicaResourceSpecs.{name}");
        let role = role_name(name, &path)?;
        let resources = read_list(change.resource.as_ref(), &format!("{path}.resource"), findings);
        let replicas = change.replicas.and_then(|n| u32::try_from(n).ok());
        roles.insert(role, RoleChange { replicas, resources });
    }
    Ok(Plan {
        name: plan.metadata.name.clone().unwrap_or_default(),
        namespace: metadata::namespace(&plan.metadata)?,
        job,
        origin: origin(plan)?,
        roles,
        create: pods(spec.create_pods.as_ref(), "spec.createPods", findings)?,
        remove: pods(spec.remove_pods.as_ref(), "spec.removePods", findings)?,
        migrate: pods(spec.migrate_pods.as_ref(), "spec.migratePods", findings)?,
        server_addresses: spec.ps_hosts.clone().unwrap_or_default(),
    })
}

/// A plan without the label was written by a person.
fn origin(plan: &ScalePlan) -> Result<PlanOrigin, Finding> {
    let label = plan.metadata.labels.as_ref().and_then(|labels| labels.get("scale-type"));
    match label.map(String::as_str) {
        None | Some("manual") => Ok(PlanOrigin::Manual),
        Some("auto") => Ok(PlanOrigin::Auto),
        Some(other) => {
            Err(Finding::new(Reason::InvalidValue, "metadata.labels.scale-type", format!("cannot be `{other}`"))
                .help("write manual for a plan of your own"))
        }
    }
}

fn role_name(name: &str, path: &str) -> Result<RoleName, Finding> {
    name.parse().map_err(|error| Finding::new(Reason::InvalidValue, path, format!("the role's name {error}")))
}

fn pods(list: Option<&Vec<PodMeta>>, path: &str, findings: &mut Vec<Finding>) -> Result<Vec<PodChange>, Finding> {
    let number = |n: Option<i32>| n.and_then(|n| u32::try_from(n).ok());
    list.into_iter()
        .flatten()
        .enumerate()
        .map(|(i, pod)| {
            let path = format!("{path}[{i}]");
            Ok(PodChange {
                name: pod.name.clone(),
                role: pod.type_.as_deref().map(|role| role_name(role, &format!("{path}.type"))).transpose()?,
                id: number(pod.id).map(NodeId),
                rank: number(pod.rank_index).map(Rank),
                service: pod.service.clone(),
                resources: read_list(pod.resource.as_ref(), &format!("{path}.resource"), findings),
            })
        })
        .collect()
}
