//! From a `ScalePlan` to the neutral plan.

use std::collections::BTreeMap;

use flexor_model::{
    CreatePod, DnsLabel, MigratePod, NodeId, ObjectName, Plan, PlanOrigin, Rank, Reason, Resources, RoleChange,
    RoleName,
};
use serde_json::{Value, json};

use super::{PodMeta, ScalePlan};
use crate::{
    Finding, Reading,
    finding::quoted,
    object_meta,
    resource_hints::{Asker, read_list},
};

/// Labels that say which job a plan is for; `ownerJob` decides.
const JOB_LABELS: [&str; 2] = ["elasticjob-name", "elasticjob.dlrover/name"];

/// The annotation that says what a plan is for.
const PLAN_MESSAGE: &str = "flexor.dev/message";
/// The annotation of a plan that gives its roles back to automatic sizing, and its value.
const SIZING: &str = "flexor.dev/sizing";
const AUTOMATIC: &str = "automatic";

/// The `ScalePlan` that describes a neutral plan for roles and migrations.
pub(super) fn manifest(plan: &Plan, namespace: &DnsLabel) -> Value {
    let resources = |resources: &Resources| -> BTreeMap<String, String> {
        resources.iter().map(|(name, quantity)| (name.to_owned(), quantity.to_string())).collect()
    };
    let roles = plan.roles.iter().map(|(role, change)| {
        let mut spec = json!({});
        if let Some(replicas) = change.replicas {
            spec["replicas"] = replicas.into();
        }
        if !change.resources.is_empty() {
            spec["resource"] = json!(resources(&change.resources));
        }
        (role.to_string(), spec)
    });
    let migrate = plan.migrate.iter().map(|one| json!({ "name": one.pod, "resource": resources(&one.resources) }));
    let mut annotations = serde_json::Map::new();
    if !plan.message.is_empty() {
        annotations.insert(PLAN_MESSAGE.to_owned(), plan.message.clone().into());
    }
    let scale_type = match plan.origin {
        PlanOrigin::Manual => "manual",
        PlanOrigin::Auto => "auto",
    };
    let mut spec = json!({ "ownerJob": plan.job });
    if !plan.roles.is_empty() {
        spec["replicaResourceSpecs"] = roles.collect::<serde_json::Map<_, _>>().into();
    }
    if !plan.migrate.is_empty() {
        spec["migratePods"] = migrate.collect();
    }
    json!({
        "apiVersion": "elastic.iml.github.io/v1alpha1",
        "kind": "ScalePlan",
        "metadata": {
            "name": plan.name,
            "namespace": namespace,
            "labels": { "elasticjob-name": plan.job, "scale-type": scale_type },
            "annotations": annotations,
        },
        "spec": spec,
    })
}

fn annotation(plan: &ScalePlan, name: &str) -> String {
    plan.metadata.annotations.as_ref().and_then(|annotations| annotations.get(name)).cloned().unwrap_or_default()
}

/// The neutral plan that a `ScalePlan` describes.
pub fn to_plan(plan: &ScalePlan) -> Result<Reading<Plan>, Finding> {
    let spec = &plan.spec;
    let mut findings = other_job_named(plan);
    let mut roles = BTreeMap::new();
    for (name, change) in spec.replica_resource_specs.iter().flatten() {
        let path = format!("spec.replicaResourceSpecs.{name}");
        let resources = read_list(change.resource.as_ref(), &format!("{path}.resource"), Asker::Pod, &mut findings)?;
        let replicas = number(change.replicas, &format!("{path}.replicas"))?;
        roles.insert(parsed::<RoleName>(name, &path)?, RoleChange { replicas, resources });
    }
    let subject = Plan {
        name: parsed(plan.metadata.name.as_deref().unwrap_or_default(), "metadata.name")?,
        namespace: object_meta::namespace(&plan.metadata)?,
        job: parsed(&spec.owner_job, "spec.ownerJob")?,
        origin: origin(plan)?,
        roles,
        create: pods(spec.create_pods.as_ref(), "spec.createPods", &mut findings, create)?,
        remove: pods(spec.remove_pods.as_ref(), "spec.removePods", &mut findings, |pod, path, _| pod_name(pod, path))?,
        migrate: pods(spec.migrate_pods.as_ref(), "spec.migratePods", &mut findings, migrate)?,
        gives_back: annotation(plan, SIZING) == AUTOMATIC,
        message: annotation(plan, PLAN_MESSAGE),
        server_addresses: spec.ps_hosts.clone().unwrap_or_default(),
    };
    one_by_one(&subject, &mut findings)?;
    let pods = subject.create.is_empty() && subject.remove.is_empty() && subject.migrate.is_empty();
    if subject.roles.is_empty() && pods && subject.server_addresses.is_empty() {
        findings.push(Finding::new(Reason::FieldUnused, "spec", "the plan changes nothing"));
    }
    Ok(Reading { subject, findings })
}

fn other_job_named(plan: &ScalePlan) -> Vec<Finding> {
    let owner = &plan.spec.owner_job;
    let labels = plan.metadata.labels.iter().flatten();
    let others = labels.filter(|(key, value)| JOB_LABELS.contains(&key.as_str()) && *value != owner);
    others
        .map(|(key, value)| {
            let message = format!("says {}, but the plan is for {}", quoted(value), quoted(owner));
            Finding::new(Reason::ValueReplaced, format!("metadata.labels[\"{key}\"]"), message)
                .help("ownerJob decides; write the same name in both")
        })
        .collect()
}

/// A plan without the label was written by a person.
fn origin(plan: &ScalePlan) -> Result<PlanOrigin, Finding> {
    let label = plan.metadata.labels.as_ref().and_then(|labels| labels.get("scale-type"));
    match label.map(String::as_str) {
        None | Some("manual") => Ok(PlanOrigin::Manual),
        Some("auto") => Ok(PlanOrigin::Auto),
        Some(other) => {
            let message = format!("cannot be {}", quoted(other));
            Err(Finding::new(Reason::InvalidValue, "metadata.labels.scale-type", message)
                .help("write manual for a plan of your own"))
        }
    }
}

/// Pods are not created and removed one by one. Whoever writes a plan is told so at once; what DLRover's own master wrote
/// is read, and a job refuses it.
fn one_by_one(plan: &Plan, findings: &mut Vec<Finding>) -> Result<(), Finding> {
    let lists = [("spec.createPods", plan.create.is_empty()), ("spec.removePods", plan.remove.is_empty())];
    for (field, _) in lists.into_iter().filter(|(_, is_empty)| !is_empty) {
        let message = "pods are not created and removed one by one";
        let help = "write how many a role is to have in replicaResourceSpecs";
        match plan.origin {
            PlanOrigin::Manual => return Err(Finding::new(Reason::InvalidValue, field, message).help(help)),
            PlanOrigin::Auto => {
                let message = format!("{message}: a job refuses the plan");
                findings.push(Finding::new(Reason::FieldUnused, field, message).help(help));
            }
        }
    }
    Ok(())
}

fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(text: &str, path: &str) -> Result<T, Finding> {
    text.parse().map_err(|error| Finding::new(Reason::InvalidValue, path, format!("{} {error}", quoted(text))))
}

fn number(number: Option<i32>, path: &str) -> Result<Option<u32>, Finding> {
    number.map(|n| object_meta::count(Some(n), 0, path)).transpose()
}

type MakePod<T> = fn(&PodMeta, &str, &mut Vec<Finding>) -> Result<T, Finding>;

fn pods<T>(
    list: Option<&Vec<PodMeta>>,
    path: &str,
    findings: &mut Vec<Finding>,
    make: MakePod<T>,
) -> Result<Vec<T>, Finding> {
    list.into_iter().flatten().enumerate().map(|(i, pod)| make(pod, &format!("{path}[{i}]"), findings)).collect()
}

fn pod_name(pod: &PodMeta, path: &str) -> Result<ObjectName, Finding> {
    parsed(pod.name.as_deref().unwrap_or_default(), &format!("{path}.name"))
}

fn create(pod: &PodMeta, path: &str, findings: &mut Vec<Finding>) -> Result<CreatePod, Finding> {
    Ok(CreatePod {
        role: parsed(pod.type_.as_deref().unwrap_or_default(), &format!("{path}.type"))?,
        name: pod.name.as_ref().map(|_| pod_name(pod, path)).transpose()?,
        id: number(pod.id, &format!("{path}.id"))?.map(NodeId),
        rank: number(pod.rank_index, &format!("{path}.rankIndex"))?.map(Rank),
        service: pod.service.clone(),
        resources: read_list(pod.resource.as_ref(), &format!("{path}.resource"), Asker::Pod, findings)?,
    })
}

fn migrate(pod: &PodMeta, path: &str, findings: &mut Vec<Finding>) -> Result<MigratePod, Finding> {
    Ok(MigratePod {
        pod: pod_name(pod, path)?,
        resources: read_list(pod.resource.as_ref(), &format!("{path}.resource"), Asker::Pod, findings)?,
    })
}
