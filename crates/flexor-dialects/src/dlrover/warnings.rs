//! What DLRover accepts in an `ElasticJob` and nothing uses.

use flexor_model::Reason;

use super::{ElasticJobSpec, ReplicaSpec};
use crate::Finding;

/// A warning for each field without effect.
pub(super) fn of_job(spec: &ElasticJobSpec) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut unused = |there: bool, field: String, help: &str| {
        if there {
            findings.push(Finding::new(Reason::FieldUnused, field, "nothing uses this field").help(help));
        }
    };
    unused(spec.brain_service.is_some(), "spec.brainService".into(), "Flexor sizes jobs without a brain service");
    unused(
        spec.enable_elastic_scheduling.is_some(),
        "spec.enableElasticScheduling".into(),
        "a role is scaled unless its autoScale is false",
    );
    unused(
        spec.enable_dynamic_sharding.is_some(),
        "spec.enableDynamicSharding".into(),
        "data is always sharded by the master",
    );
    unused(spec.envs.is_some(), "spec.envs".into(), "set the variables in the env of each template's container");
    for (key, _) in spec.resource_limits.iter().flatten() {
        let known = matches!(key.as_str(), "cpu" | "memory" | "gpu");
        unused(!known, format!("spec.resourceLimits.{key}"), "the ceiling is read for cpu, memory and gpu");
    }
    for (name, replica) in &spec.replica_specs {
        findings.extend(of_replica(&format!("spec.replicaSpecs.{name}"), replica));
    }
    findings
}

fn of_replica(path: &str, replica: &ReplicaSpec) -> Vec<Finding> {
    let fields = [
        (
            replica.restart_policy.is_some(),
            "restartPolicy",
            "restartCount says how often a failed node is started again",
        ),
        (replica.restart_timeout.is_some(), "restartTimeout", "a lost node is replaced at once"),
        (replica.batch_scheduler.is_some(), "BatchScheduler", "set schedulerName in the template"),
    ];
    let unused = fields.into_iter().filter(|(there, _, _)| *there).map(|(_, field, help)| {
        Finding::new(Reason::FieldUnused, format!("{path}.{field}"), "nothing uses this field").help(help)
    });
    let policy = replica.template.as_ref().and_then(|template| template.spec.restart_policy.as_deref());
    let replaced = policy.filter(|policy| *policy != "Never").map(|policy| {
        Finding::new(
            Reason::ValueReplaced,
            format!("{path}.template.spec.restartPolicy"),
            format!("`{policy}` is replaced by Never: pods are replaced, not restarted in place"),
        )
    });
    unused.chain(replaced).collect()
}
