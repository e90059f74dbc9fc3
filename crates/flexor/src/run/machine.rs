//! Notes about differences between this machine and a cluster, printed once before anything runs: images are not used,
//! and pods may request more CPUs than the machine has.

use flexor_model::{Job, Quantity};
use serde_json::Value;

/// The differences that concern these jobs, one line each. With a limit of CPUs pods wait, so there is no note.
pub fn differences(jobs: &[(Job, Value)], limit: Option<Quantity>) -> Vec<String> {
    let jobs: Vec<&Job> = jobs.iter().map(|(job, _)| job).collect();
    let here = std::thread::available_parallelism().map_or(1, |cpus| u32::try_from(cpus.get()).unwrap_or(u32::MAX));
    let overcommitted = limit.is_none().then(|| overcommitted(&jobs, here)).flatten();
    images(&jobs).into_iter().chain(overcommitted).collect()
}

fn images(jobs: &[&Job]) -> Option<String> {
    let mut programs = jobs.iter().flat_map(|job| &job.roles).filter(|role| !role.has_rendered_command());
    let any = programs.any(|role| role.template.main().image().is_some());
    any.then(|| "images are not used: programs run as installed on this machine".to_owned())
}

fn overcommitted(jobs: &[&Job], here: u32) -> Option<String> {
    let requested = requested(jobs);
    (requested > Quantity::whole(here)).then(|| {
        format!(
            "the pods request {requested} CPUs, this machine has {here}; all start at once, unless --cpus N is given"
        )
    })
}

/// CPUs that all initial pods of these jobs request.
fn requested(jobs: &[&Job]) -> Quantity {
    let mut requested = Quantity::whole(0);
    for role in jobs.iter().flat_map(|job| &job.roles) {
        let of_one = role.template.requests().cpu().unwrap_or(Quantity::whole(0));
        requested = (0..role.size.initial()).fold(requested, |sum, _| sum.plus(of_one));
    }
    requested
}

#[cfg(test)]
mod tests {
    use flexor_dialects::manifest::{self, Subject, Verdict};
    use serde_json::json;

    use super::*;

    fn job(container: Value) -> Job {
        let template = json!({ "spec": { "containers": [container] } });
        let manifest = json!({
            "apiVersion": "elastic.pytorch.org/v1alpha1",
            "kind": "ElasticJob",
            "metadata": { "name": "mnist" },
            "spec": {
                "minReplicas": 1,
                "maxReplicas": 4,
                "replicaSpecs": { "Worker": { "replicas": 3, "restartPolicy": "ExitCode", "template": template } },
            },
        });
        let report = manifest::check(manifest.to_string().as_bytes());
        let verdict = report.documents.into_iter().next().unwrap().verdict;
        let Verdict::Accepted { subject, .. } = verdict else { panic!("{verdict:?}") };
        let Subject::Job(job) = *subject else { panic!("no job") };
        job
    }

    #[test]
    fn requests_beyond_the_machine_are_noted_with_both_numbers() {
        let plain = job(json!({ "name": "elasticjob-worker", "command": ["true"] }));
        let large = job(json!({
            "name": "elasticjob-worker", "image": "any:image", "command": ["true"],
            "resources": { "requests": { "cpu": "1500m" } },
        }));
        let note = "the pods request 9 CPUs, this machine has 2; all start at once, unless --cpus N is given";
        assert_eq!(overcommitted(&[&plain, &large, &large], 2).as_deref(), Some(note));
        assert_eq!((overcommitted(&[&large], 5), overcommitted(&[&plain], 1)), (None, None), "it fits");
    }

    #[test]
    fn images_are_noted_once() {
        let with = job(json!({ "name": "elasticjob-worker", "image": "any:image", "command": ["true"] }));
        let without = job(json!({ "name": "elasticjob-worker", "command": ["true"] }));
        assert_eq!(images(&[&without]), None);
        assert!(images(&[&without, &with, &with]).is_some());
        let pairs = [(with.clone(), Value::Null), (with, Value::Null)];
        assert_eq!(differences(&pairs, None).len(), 1);
    }
}
