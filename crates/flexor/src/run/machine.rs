//! What is different here from a cluster of machines, told once before anything runs: images are not looked at, and
//! nothing keeps pods from asking for more than the machine has.

use flexor_model::{Job, Quantity};
use serde_json::Value;

/// What is different for these jobs, a line each. With a limit pods wait for CPUs.
pub fn differences(jobs: &[(Job, Value)], limit: Option<Quantity>) -> Vec<String> {
    let jobs: Vec<&Job> = jobs.iter().map(|(job, _)| job).collect();
    let here = std::thread::available_parallelism().map_or(1, |cpus| u32::try_from(cpus.get()).unwrap_or(u32::MAX));
    let wants_too_much = limit.is_none().then(|| too_much(&jobs, here)).flatten();
    images(&jobs).into_iter().chain(wants_too_much).collect()
}

fn images(jobs: &[&Job]) -> Option<String> {
    let mut programs = jobs.iter().flat_map(|job| &job.roles).filter(|role| !role.has_rendered_command());
    let any = programs.any(|role| role.template.main().image().is_some());
    any.then(|| "images are not looked at: programs run as this machine has them".to_owned())
}

fn too_much(jobs: &[&Job], here: u32) -> Option<String> {
    let asked = asked(jobs);
    (asked > Quantity::whole(here)).then(|| {
        format!("the pods ask for {asked} CPUs, this machine has {here}; nothing is held back, `--cpus N` would")
    })
}

/// What all pods of these jobs ask for at the start.
fn asked(jobs: &[&Job]) -> Quantity {
    let mut asked = Quantity::whole(0);
    for role in jobs.iter().flat_map(|job| &job.roles) {
        let of_one = role.template.requests().cpu().unwrap_or(Quantity::whole(0));
        asked = (0..role.size.initial()).fold(asked, |sum, _| sum.plus(of_one));
    }
    asked
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
    fn what_is_asked_for_beyond_the_machine_is_told_with_both_numbers() {
        let plain = job(json!({ "name": "elasticjob-worker", "command": ["true"] }));
        let large = job(json!({
            "name": "elasticjob-worker", "image": "any:image", "command": ["true"],
            "resources": { "requests": { "cpu": "1500m" } },
        }));
        let held_back = "the pods ask for 9 CPUs, this machine has 2; nothing is held back, `--cpus N` would";
        assert_eq!(too_much(&[&plain, &large, &large], 2).as_deref(), Some(held_back));
        assert_eq!((too_much(&[&large], 5), too_much(&[&plain], 1)), (None, None), "it fits");
    }

    #[test]
    fn images_are_told_of_once() {
        let with = job(json!({ "name": "elasticjob-worker", "image": "any:image", "command": ["true"] }));
        let without = job(json!({ "name": "elasticjob-worker", "command": ["true"] }));
        assert_eq!(images(&[&without]), None);
        assert!(images(&[&without, &with, &with]).is_some());
        let pairs = [(with.clone(), Value::Null), (with, Value::Null)];
        assert_eq!(differences(&pairs, None).len(), 1);
    }
}
