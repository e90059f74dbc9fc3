//! What EDL accepts in a `TrainingJob` and nothing uses, and what stands in the wrong place.

use std::collections::BTreeMap;

use flexor_model::{Reason, is_accelerator};

use super::{TrainingJobSpec, convert::ALPHA_GPU};
use crate::{
    Finding, FlexorOptions,
    resource_hints::field_of,
    wire_resources::{ResourceList, ResourceRequirements},
};

/// A warning for each.
pub(super) fn of_job(spec: &TrainingJobSpec) -> Vec<Finding> {
    let mut findings = Vec::new();
    let master = spec.master.as_ref();
    let pserver = spec.pserver.as_ref();
    let unused = [
        (
            FlexorOptions::copies(spec.flexor.as_ref()) > 1,
            "spec.flexor.psReplicationFactor",
            "servers of TrainingJobs keep one copy of each parameter",
        ),
        (
            master.is_some_and(|m| m.etcd_endpoint.is_some()),
            "spec.master.etcd-endpoint",
            "the job's master needs no etcd",
        ),
        (spec.trainer.etcd_endpoint.is_some(), "spec.trainer.etcd-endpoint", "the job's master needs no etcd"),
        (spec.trainer.replica_spec.is_some(), "spec.trainer.replicaSpec", "pods are made from image and resources"),
        (
            pserver.is_some_and(|p| p.replica_spec.is_some()),
            "spec.pserver.replicaSpec",
            "pods are made from image and resources",
        ),
        (
            master.is_some_and(|m| m.replica_spec.is_some()),
            "spec.master.replicaSpec",
            "pods are made from image and resources",
        ),
        (
            pserver.is_some_and(|p| p.min_instance != p.max_instance),
            "spec.pserver.max-instance",
            "min-instance servers are started; the planner moves trainers only",
        ),
    ];
    for (_, field, help) in unused.into_iter().filter(|(there, _, _)| *there) {
        findings.push(Finding::new(Reason::FieldUnused, field, "nothing uses this field").help(help));
    }
    if spec.trainer.passes.is_some() {
        let finding = if spec.passes.is_some() {
            Finding::new(Reason::FieldUnused, "spec.trainer.passes", "spec.passes is used instead")
        } else {
            Finding::new(Reason::FieldMisplaced, "spec.trainer.passes", "is read, but belongs to spec")
        };
        findings.push(finding.help("write it as spec.passes"));
    }
    for (old, new, there, both) in [
        ("HostNetwork", "host_network", spec.host_network_2017.is_some(), spec.host_network.is_some()),
        ("Volumes", "volumes", spec.volumes_2017.is_some(), spec.volumes.is_some()),
    ] {
        let field = format!("spec.{old}");
        match (there, both) {
            (false, _) => {}
            (true, false) => findings.push(
                Finding::new(Reason::FieldMisplaced, field, "is read, but is spelt as in 2017")
                    .help(format!("write {new}")),
            ),
            (true, true) => findings.push(
                Finding::new(Reason::FieldUnused, field, format!("spec.{new} is used instead")).help("leave it out"),
            ),
        }
    }
    findings.extend(gpus(spec));
    for (name, resources) in [
        ("trainer", Some(spec.trainer.resources.as_ref())),
        ("pserver", pserver.map(|pserver| pserver.resources.as_ref())),
    ] {
        let asks = |r: &ResourceRequirements| r.requests.is_some() || r.limits.is_some();
        if resources.is_some_and(|resources| !resources.is_some_and(asks)) {
            findings.push(
                Finding::new(Reason::NoResources, format!("spec.{name}"), "asks for no resources")
                    .help("the planner can only size what says how large it is: set resources.requests"),
            );
        }
    }
    findings
}

/// Accelerators are given out whole and for good, so what is asked for is what may be used.
fn gpus(spec: &TrainingJobSpec) -> Vec<Finding> {
    let roles = [
        ("trainer", spec.trainer.resources.as_ref()),
        ("pserver", spec.pserver.as_ref().and_then(|pserver| pserver.resources.as_ref())),
        ("master", spec.master.as_ref().and_then(|master| master.resources.as_ref())),
    ];
    roles
        .into_iter()
        .filter_map(|(role, resources)| Some((role, resources?)))
        .flat_map(|(role, r)| gpus_of(role, r))
        .collect()
}

fn gpus_of(role: &str, resources: &ResourceRequirements) -> Vec<Finding> {
    let quantity = |list: &Option<ResourceList>, name: &str| list.as_ref()?.get(name)?.parse().ok();
    let mut findings = Vec::new();
    for (part, list) in [("limits", &resources.limits), ("requests", &resources.requests)] {
        for name in list.iter().flat_map(BTreeMap::keys).filter(|name| is_accelerator(name)) {
            let field = field_of(&format!("spec.{role}.resources.{part}"), name);
            if name == ALPHA_GPU {
                let message = "this name is gone from Kubernetes; nvidia.com/gpu is asked for instead";
                findings.push(Finding::new(Reason::ValueReplaced, field, message).help("write nvidia.com/gpu"));
            } else if part == "requests" && quantity(&resources.limits, name) != quantity(list, name) {
                let message = "accelerators must be requested and limited alike";
                let finding = Finding::new(Reason::SuspiciousQuantity, field, message);
                findings.push(finding.help("write the same number in limits"));
            }
        }
    }
    findings
}
