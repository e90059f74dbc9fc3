//! Warnings about a job whose manifest expects more than the laptop cluster does: GPUs that the machine does not have, and
//! sizes that nothing adapts.

use flexor_dialects::launch_options::Device;
use flexor_model::{Job, Program, RoleKind, Sizing, is_accelerator};
use serde_json::Value;

use crate::launch::devices;

/// The warnings for a job and its manifest, one line each.
pub fn unmet(job: &Job, manifest: &Value) -> Vec<String> {
    let gpus = if devices::count(Device::Gpu) == 0 { missing_gpus(job) } else { None };
    gpus.into_iter().chain(idle_scaling(job, manifest)).collect()
}

/// The GPUs that pods of a job ask for, on a machine without one.
fn missing_gpus(job: &Job) -> Option<String> {
    let asked = job.roles.iter().flat_map(|role| {
        let resources = role.template.requests();
        let gpus: Vec<String> = resources
            .iter()
            .filter(|(name, quantity)| is_accelerator(name) && quantity.billionths() > 0)
            .map(|(name, quantity)| format!("role {} {quantity} {name}", role.name))
            .collect();
        gpus
    });
    let asked: Vec<String> = asked.collect();
    (!asked.is_empty()).then(|| {
        format!("the job asks for GPUs ({}) and this machine has none; its pods start without them", asked.join(", "))
    })
}

/// The fields of a manifest that ask for sizes to be adapted.
fn idle_scaling(job: &Job, manifest: &Value) -> Option<String> {
    // Its workers report what the master needs to size the job.
    let is_measured = job.role(RoleKind::Worker).is_some_and(|role| role.program == Program::FlexorWorker);
    if job.sizing == Sizing::Job && is_measured {
        return None;
    }
    let spec = &manifest["spec"];
    let mode =
        spec["optimizeMode"].as_str().filter(|mode| *mode != "manual").map(|mode| format!("optimizeMode: {mode}"));
    let roles = spec["replicaSpecs"].as_object().into_iter().flatten();
    let scaled = roles.filter(|(_, role)| role["autoScale"] == true).map(|(name, _)| format!("autoScale of {name}"));
    let fields: Vec<String> = mode.into_iter().chain(scaled).collect();
    (!fields.is_empty()).then(|| {
        format!(
            "nothing adapts the sizes of roles here ({}); `flexor scale {} --worker N` and ScalePlans do",
            fields.join(", "),
            job.name
        )
    })
}

#[cfg(test)]
mod tests {
    use flexor_dialects::manifest::{self, Subject, Verdict};
    use serde_json::json;

    use super::*;

    fn job(mut spec: Value) -> (Job, Value) {
        spec["distributionStrategy"] = "AllreduceStrategy".into();
        let manifest = json!({
            "apiVersion": "elastic.iml.github.io/v1alpha1",
            "kind": "ElasticJob",
            "metadata": { "name": "mnist" },
            "spec": spec,
        });
        let report = manifest::check(manifest.to_string().as_bytes());
        let verdict = report.documents.into_iter().next().unwrap().verdict;
        let Verdict::Accepted { subject, .. } = verdict else { panic!("{verdict:?}") };
        let Subject::Job(job) = *subject else { panic!("no job") };
        (job, manifest)
    }

    fn role(resources: Value) -> Value {
        let container = json!({ "name": "main", "image": "i", "command": ["true"], "resources": resources });
        json!({ "replicas": 1, "template": { "spec": { "containers": [container] } } })
    }

    #[test]
    fn gpus_are_named_with_their_role() {
        let with = json!({ "limits": { "nvidia.com/gpu": "2" } });
        let spec = json!({ "replicaSpecs": { "worker": role(with), "evaluator": role(json!({})) } });
        let warning = "the job asks for GPUs (role worker 2 nvidia.com/gpu) and this machine has none; its pods start \
                       without them";
        assert_eq!(missing_gpus(&job(spec).0).as_deref(), Some(warning));
        let without = json!({ "replicaSpecs": { "worker": role(json!({ "limits": { "cpu": 1 } })) } });
        assert_eq!(missing_gpus(&job(without).0), None);
    }

    #[test]
    fn scaling_that_was_asked_for_is_named_and_the_default_is_not() {
        let mut worker = role(json!({}));
        let warning = |spec: Value| {
            let (job, manifest) = job(spec);
            idle_scaling(&job, &manifest)
        };
        assert_eq!(warning(json!({ "replicaSpecs": { "worker": worker.clone() } })), None);
        let manual = json!({ "optimizeMode": "manual", "replicaSpecs": { "worker": worker.clone() } });
        assert_eq!(warning(manual), None);
        worker["autoScale"] = true.into();
        let both = json!({ "optimizeMode": "single-job", "replicaSpecs": { "worker": worker } });
        let expected = "nothing adapts the sizes of roles here (optimizeMode: single-job, autoScale of worker); `flexor \
                        scale mnist --worker N` and ScalePlans do";
        assert_eq!(warning(both).as_deref(), Some(expected));
    }
}
