//! What the original accepts in an `ElasticJob` and nothing uses.

use flexor_model::Reason;

use super::{ElasticJobSpec, RestartPolicy};
use crate::{Finding, FlexorOptions, finding::quoted};

/// A warning for each field without effect.
pub(super) fn of_job(spec: &ElasticJobSpec) -> Vec<Finding> {
    let mut findings = Vec::new();
    if spec.scheduling_policy.is_some() {
        findings.push(
            Finding::new(Reason::FieldUnused, "spec.schedulingPolicy", "nothing uses this field")
                .help("minReplicas says below how many nodes the job waits"),
        );
    }
    if FlexorOptions::copies(spec.flexor.as_ref()) > 1 {
        findings.push(
            Finding::new(Reason::FieldUnused, "spec.flexor.psReplicationFactor", "the job has no parameter servers")
                .help("leave psReplicationFactor out"),
        );
    }
    if let (Some(_), Some(RestartPolicy::Never)) = (spec.backoff_limit, spec.replica_specs.worker.restart_policy) {
        findings.push(
            Finding::new(Reason::FieldUnused, "spec.backoffLimit", "nothing is tried again with restartPolicy Never")
                .help("leave one of the two out"),
        );
    }
    let worker = &spec.replica_specs.worker;
    if let Some(policy) = worker.template.spec.restart_policy.as_deref().filter(|policy| *policy != "Never") {
        findings.push(Finding::new(
            Reason::ValueReplaced,
            "spec.replicaSpecs.Worker.template.spec.restartPolicy",
            format!("{} is replaced by Never: pods are replaced, not restarted in place", quoted(policy)),
        ));
    }
    findings
}
