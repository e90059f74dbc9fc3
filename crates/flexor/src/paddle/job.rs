//! The `TrainingJob` that a command line describes.

use serde_json::{Map, Value, json};

use super::{Client, SubmitArgs, misused};

/// The image where none is named, as in the original.
pub const DEFAULT_IMAGE: &str = "paddlepaddle/paddlecloud-job";
/// Where the package is mounted.
const WORKSPACE: &str = "/workspace";
/// What the original gave to masters.
const MASTER: (&str, &str) = ("1", "500Mi");

/// Where trainers find the program.
pub enum Workspace {
    /// In a ConfigMap, with the paths of its keys.
    Package { config_map: String, items: Value },
    /// In a folder of the image.
    OfImage(String),
}

/// The fewest and the most trainers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Trainers {
    min: u32,
    max: u32,
}

/// The job's manifest.
pub fn manifest(client: Client, args: &SubmitArgs, workspace: &Workspace) -> anyhow::Result<Value> {
    let Trainers { min, max } = trainers(args)?;
    let mut spec = json!({ "image": args.image.as_deref().unwrap_or(DEFAULT_IMAGE) });
    if args.faulttolerant {
        spec["fault_tolerant"] = true.into();
    }
    spec["passes"] = args.passes.into();
    if let Some(secret) = &args.registry {
        spec["imagePullSecrets"] = json!([{ "name": secret }]);
    }
    let folder = match workspace {
        Workspace::OfImage(folder) => folder.as_str(),
        Workspace::Package { config_map, items } => {
            spec["volumes"] =
                json!([{ "name": "package", "configMap": { "name": config_map, "items": items.clone() } }]);
            spec["VolumeMounts"] = json!([{ "name": "package", "mountPath": WORKSPACE, "readOnly": true }]);
            WORKSPACE
        }
    };
    spec["trainer"] = json!({
        "entrypoint": args.entry,
        "workspace": folder,
        "min-instance": min,
        "max-instance": max,
        "resources": resources(&args.cpu.to_string(), &args.memory.to_string(), args.gpu),
    });
    let servers = servers(client, args);
    spec["pserver"] = json!({
        "min-instance": servers,
        "max-instance": servers,
        "resources": resources(&args.pscpu.to_string(), &args.psmemory.to_string(), 0),
    });
    spec["master"] = json!({ "resources": resources(MASTER.0, MASTER.1, 0) });
    let mut metadata = json!({ "name": args.jobname });
    if let Some(namespace) = &args.cluster.namespace {
        metadata["namespace"] = namespace.as_str().into();
    }
    Ok(json!({
        "apiVersion": "paddlepaddle.org/v1",
        "kind": "TrainingJob",
        "metadata": metadata,
        "spec": spec,
    }))
}

/// What a command line asks for and does not get, in sentences.
pub fn notes(args: &SubmitArgs) -> Vec<String> {
    let mut notes = Vec::new();
    if let (Some(parallelism), Some(min), Some(max)) = (args.parallelism, args.min_instance, args.max_instance)
        && min < max
    {
        notes.push(format!(
            "-parallelism {parallelism} has no effect: the job begins with {min} trainers and may grow to {max}"
        ));
    }
    if args.image.is_none() {
        notes.push(format!("without -image the pods run {DEFAULT_IMAGE}, which was last published in 2018"));
    }
    notes
}

fn trainers(args: &SubmitArgs) -> anyhow::Result<Trainers> {
    match (args.min_instance, args.max_instance) {
        (None, None) => {
            let trainers = args.parallelism.unwrap_or(1);
            Ok(Trainers { min: trainers, max: trainers })
        }
        (Some(min), Some(max)) if min > max => {
            Err(misused(format!("-min_instance {min} is above -max_instance {max}")))
        }
        (Some(min), Some(max)) if min < max && !args.faulttolerant => {
            Err(misused("a job between -min_instance and -max_instance trainers needs -faulttolerant"))
        }
        (Some(min), Some(max)) => Ok(Trainers { min, max }),
        (Some(_), None) | (None, Some(_)) => {
            Err(misused("write both -min_instance and -max_instance, or -parallelism alone for a job of a fixed size"))
        }
    }
}

/// The number of parameter servers. 0 means as many as trainers, as in the original.
fn servers(client: Client, args: &SubmitArgs) -> u32 {
    let default = match client {
        Client::Paddlecloud => 0,
        Client::Paddlectl => 1,
    };
    match args.pservers.unwrap_or(default) {
        0 => args.parallelism.or(args.min_instance).unwrap_or(1),
        servers => servers,
    }
}

/// Requests and limits, which are the same.
fn resources(cpu: &str, memory: &str, gpus: u32) -> Value {
    let mut list = Map::from_iter([("cpu".to_owned(), cpu.into()), ("memory".to_owned(), memory.into())]);
    if gpus > 0 {
        list.insert("nvidia.com/gpu".to_owned(), gpus.to_string().into());
    }
    json!({ "requests": list, "limits": list })
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use flexor_dialects::manifest::{Subject, Verdict, check};
    use flexor_model::{Job, RoleKind, Sizing};

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: SubmitArgs,
    }

    fn args(line: &str) -> SubmitArgs {
        let words = ["submit", "--entry=python ./train.py train"].into_iter().chain(line.split_whitespace());
        Line::try_parse_from(words.chain(["./demo"])).unwrap().args
    }

    fn workspace() -> Workspace {
        Workspace::Package { config_map: "mnist1-package".to_owned(), items: json!([{ "key": "a", "path": "b/a" }]) }
    }

    /// The job that Flexor's reader makes of the manifest.
    fn job(line: &str) -> Job {
        let manifest = manifest(Client::Paddlecloud, &args(line), &workspace()).unwrap();
        let report = check(manifest.to_string().as_bytes());
        let document = report.documents.into_iter().next().unwrap();
        match document.verdict {
            Verdict::Accepted { subject, findings, .. } => match *subject {
                Subject::Job(job) => {
                    assert_eq!(findings, [], "{line}");
                    job
                }
                Subject::Plan(_) => panic!("no job"),
            },
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn the_pages_submission_is_a_job_of_353_cores() {
        let job =
            job("--jobname=mnist1 --cpu=8 --gpu=0 --memory=8Gi --parallelism=40 --pscpu=4 --pservers=8 --psmemory=1Gi");
        assert_eq!((job.name.as_str(), job.sizing), ("mnist1", Sizing::Cluster));
        let cores: Vec<(u32, i128)> = job
            .roles
            .iter()
            .map(|role| (role.size.initial(), i128::from(role.template.requests().cpu().unwrap().ceil())))
            .collect();
        assert_eq!(cores, [(1, 1), (8, 4), (40, 8)]);
        let trainers = job.role(RoleKind::Worker).unwrap();
        assert!(trainers.template.requests().gpu().is_none());
        assert_eq!(trainers.template.main().limits().cpu(), trainers.template.main().requests().cpu());
    }

    #[test]
    fn cards_reach_the_trainers_and_nothing_else() {
        let job = job("--jobname=m --gpu=2 --pservers=1");
        let gpus = |kind| {
            job.role(kind).unwrap().template.main().limits().gpu().map(|(name, count)| (name.to_owned(), count.ceil()))
        };
        assert_eq!(gpus(RoleKind::Worker), Some(("nvidia.com/gpu".to_owned(), 2)));
        assert_eq!(gpus(RoleKind::ParameterServer), None);
    }

    #[test]
    fn an_elastic_job_has_both_bounds() {
        let job = job("--jobname=m --faulttolerant --min_instance=50 --max_instance=500 --pservers=2");
        let size = job.role(RoleKind::Worker).unwrap().size;
        assert_eq!((size.initial(), size.allowed().min(), size.allowed().max()), (50, 50, Some(500)));
        assert_eq!(job.sizing, Sizing::Cluster);
    }

    #[test]
    fn zero_servers_are_as_many_as_trainers_and_paddlectl_has_one() {
        let servers = |client, line: &str| servers(client, &args(line));
        assert_eq!(servers(Client::Paddlecloud, "--parallelism=40"), 40);
        assert_eq!(servers(Client::Paddlecloud, "--parallelism=40 --pservers=0"), 40);
        assert_eq!(servers(Client::Paddlecloud, "--parallelism=40 --pservers=8"), 8);
        assert_eq!(servers(Client::Paddlectl, "--parallelism=40"), 1);
    }

    #[test]
    fn sizes_that_contradict_each_other_are_refused() {
        let refused = |line: &str| trainers(&args(line)).unwrap_err().to_string();
        assert!(refused("--min_instance=2 --max_instance=6").ends_with("needs -faulttolerant"));
        assert!(refused("--faulttolerant --min_instance=2").starts_with("write both"));
        assert_eq!(
            refused("--faulttolerant --min_instance=6 --max_instance=2"),
            "-min_instance 6 is above -max_instance 2"
        );
        assert_eq!(trainers(&args("--min_instance=3 --max_instance=3")).unwrap(), Trainers { min: 3, max: 3 });
    }

    #[test]
    fn an_ineffective_parallelism_is_mentioned() {
        let line = "--image=m:1 --parallelism=100 --faulttolerant --min_instance=50 --max_instance=500";
        assert_eq!(notes(&args(line)).len(), 1);
        assert_eq!(notes(&args("--image=m:1 --parallelism=100")), [""; 0]);
    }
}
