//! `paddlecloud submit` and `paddlectl submit`.

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::{ArgAction, Args};
use flexor_dialects::edl::TrainingJob;
use flexor_dialects::manifest::{self, Verdict};
use flexor_model::Quantity;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::Value;

use super::job::{self, Workspace};
use super::package::Package;
use super::{Client, misused};
use crate::exit::{Exit, Refused};
use crate::kubernetes::{ClusterArgs, Connection, block_on, refusal};
use crate::output;
use crate::verbs::amount;

const DEFAULT_NAME: &str = "paddle-cluster-job";
/// More than any cluster has.
const MOST_PODS: i64 = 100_000;

/// Arguments of `submit`.
#[derive(Debug, Args)]
pub struct SubmitArgs {
    /// Name of the job
    #[arg(long, value_name = "NAME", default_value = DEFAULT_NAME, value_parser = job_name)]
    pub jobname: String,
    /// Number of trainers of a job of a fixed size [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MOST_PODS))]
    pub parallelism: Option<u32>,
    /// CPUs of a trainer
    #[arg(long, value_name = "CPUS", default_value = "1", value_parser = amount)]
    pub cpu: Quantity,
    /// Graphics cards of a trainer
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub gpu: u32,
    /// Memory of a trainer
    #[arg(long, value_name = "BYTES", default_value = "1Gi", value_parser = amount)]
    pub memory: Quantity,
    /// Number of parameter servers; 0 means as many as trainers [default: 0 in paddlecloud, 1 in paddlectl]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=MOST_PODS))]
    pub pservers: Option<u32>,
    /// CPUs of a parameter server
    #[arg(long, value_name = "CPUS", default_value = "1", value_parser = amount)]
    pub pscpu: Quantity,
    /// Memory of a parameter server
    #[arg(long, value_name = "BYTES", default_value = "1Gi", value_parser = amount)]
    pub psmemory: Quantity,
    /// Command line that trainers run in the package
    #[arg(long, value_name = "COMMAND", default_value = "", hide_default_value = true)]
    pub entry: String,
    /// Number of passes over the data
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    pub passes: u32,
    /// Image of the pods [default: paddlepaddle/paddlecloud-job]
    #[arg(long, value_name = "IMAGE", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub image: Option<String>,
    /// Secret with the credentials for the image's registry
    #[arg(long, value_name = "SECRET", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub registry: Option<String>,
    /// Let trainers come and go
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
          default_value_t = false, default_missing_value = "true")]
    pub faulttolerant: bool,
    /// Fewest trainers of an elastic job
    #[arg(long = "min_instance", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MOST_PODS))]
    pub min_instance: Option<u32>,
    /// Most trainers of an elastic job
    #[arg(long = "max_instance", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MOST_PODS))]
    pub max_instance: Option<u32>,
    /// Print the manifests instead of sending them
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Package: the folder with the program. With -image, a path that exists in the image only
    #[arg(value_name = "PACKAGE")]
    pub package: PathBuf,
}

/// What is sent to the cluster.
struct Submission {
    job: TrainingJob,
    /// The job as it is printed: without the fields that a job gets in a cluster.
    manifest: Value,
    config_map: Option<ConfigMap>,
}

pub(super) fn run(client: Client, args: &SubmitArgs) -> anyhow::Result<Exit> {
    let submission = prepare(client, args)?;
    for note in job::notes(args) {
        output::note(&format!("note: {note}"));
    }
    if args.dry_run {
        let config_map = submission.config_map.as_ref().map(serde_saphyr::to_string).transpose()?;
        let job = serde_saphyr::to_string(&submission.manifest)?;
        output::text(&config_map.into_iter().chain([job]).collect::<Vec<_>>().join("---\n"))?;
        return Ok(Exit::Success);
    }
    block_on(async {
        let cluster = args.cluster.connect().await?;
        send(&cluster, submission).await
    })?;
    output::text(&format!("{} submited.\n", args.jobname))?;
    Ok(Exit::Success)
}

/// Reads and checks everything. Nothing is sent.
fn prepare(client: Client, args: &SubmitArgs) -> anyhow::Result<Submission> {
    let package = package(client, args)?;
    if args.entry.trim().is_empty() {
        return Err(misused("-entry is missing; write what trainers run, as in -entry \"python ./train.py train\""));
    }
    let config_map_name = format!("{}-package", args.jobname);
    let workspace = match &package {
        Some(package) => Workspace::Package { config_map: config_map_name.clone(), items: package.items() },
        None => Workspace::OfImage(args.package.display().to_string()),
    };
    let manifest = job::manifest(client, args, &workspace)?;
    check(&manifest)?;
    let namespace = args.cluster.namespace.as_deref();
    let config_map = package.map(|package| package.config_map(&config_map_name, &args.jobname, namespace));
    Ok(Submission { job: serde_json::from_value(manifest.clone())?, manifest, config_map })
}

/// The user's package; none if it is a folder of the image.
fn package(client: Client, args: &SubmitArgs) -> anyhow::Result<Option<Package>> {
    let path = &args.package;
    if !path.exists() && !path.is_symlink() {
        if path.is_absolute() && args.image.is_some() {
            output::note(&format!("note: there is no {} here; it has to be in the image", path.display()));
            return Ok(None);
        }
        return Err(no_package(client, args, path));
    }
    Package::read(path).map(Some).map_err(|error| Refused(error).into())
}

/// The page of the experiment writes the job's name where the package belongs: `paddlectl submit mnist1`.
fn no_package(client: Client, args: &SubmitArgs, path: &Path) -> anyhow::Error {
    let shown = path.display();
    let is_name = path.to_str().is_some_and(|text| job_name(text).is_ok());
    if is_name && args.jobname == DEFAULT_NAME {
        let client = client.name();
        return misused(format!(
            "there is no package {shown}; write {client} submit -jobname {shown} -entry \"python ./train.py train\" FOLDER"
        ));
    }
    Refused(anyhow!(
        "there is no package {shown}; name the folder that the program is in, or with -image its absolute path in the image"
    ))
    .into()
}

/// Has Flexor's own reader judge the job, as the API server will.
fn check(manifest: &Value) -> anyhow::Result<()> {
    for document in manifest::check(manifest.to_string().as_bytes()).documents {
        if let Verdict::Refused { findings, .. } = document.verdict {
            let findings = findings.iter().map(|finding| format!("{}: {}", finding.field, finding.message));
            return Err(misused(findings.collect::<Vec<_>>().join("; ")));
        }
    }
    Ok(())
}

/// Creates the job, and then its package, which the job owns. Pods wait for the package.
async fn send(cluster: &Connection, submission: Submission) -> anyhow::Result<()> {
    let jobs: Api<TrainingJob> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let created = jobs.create(&PostParams::default(), &submission.job).await.map_err(refusal)?;
    let Some(mut config_map) = submission.config_map else { return Ok(()) };
    config_map.metadata.owner_references = Some(vec![owner(&created)]);
    if let Err(error) = send_package(cluster, &config_map).await {
        // Without its package the job cannot run.
        let removed = jobs.delete(&created.name_any(), &DeleteParams::default()).await;
        return Err(match removed {
            Ok(_) => error.context("the package was refused, and the job is deleted again"),
            Err(again) => error.context(format!("the package was refused, and the job cannot be deleted: {again}")),
        });
    }
    Ok(())
}

async fn send_package(cluster: &Connection, config_map: &ConfigMap) -> anyhow::Result<()> {
    let config_maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    match config_maps.create(&PostParams::default(), config_map).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 409 => {
            // The package of an earlier job of this name, which the cluster has not removed yet.
            let name = config_map.name_any();
            let existing = config_maps.get(&name).await.map_err(refusal)?;
            if existing.labels().get(super::package::LABEL) != config_map.labels().get(super::package::LABEL) {
                return Err(Refused(anyhow!("there is a ConfigMap {name} that is no package of this job")).into());
            }
            config_maps.replace(&name, &PostParams::default(), config_map).await.map(drop).map_err(refusal)
        }
        Err(error) => Err(refusal(error)),
    }
}

fn owner(job: &TrainingJob) -> OwnerReference {
    OwnerReference {
        api_version: "paddlepaddle.org/v1".to_owned(),
        kind: "TrainingJob".to_owned(),
        name: job.name_any(),
        uid: job.uid().unwrap_or_default(),
        ..OwnerReference::default()
    }
}

/// A name that the original would take. The rest of Kubernetes' rules is the reader's.
fn job_name(text: &str) -> Result<String, String> {
    match text.chars().find(|letter| matches!(letter, '.' | '_' | '/')) {
        Some(letter) => Err(format!("a job's name may not contain `{letter}`; write - instead")),
        None if text.is_empty() => Err("a job needs a name".to_owned()),
        None => Ok(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_a_dot_or_an_underscore_are_refused() {
        assert_eq!(job_name("mnist1"), Ok("mnist1".to_owned()));
        assert_eq!(job_name("mnist_1").unwrap_err(), "a job's name may not contain `_`; write - instead");
        assert!(job_name("mnist.1").is_err());
        assert!(job_name("").is_err());
    }
}
