//! `flexor scale`: a number in the job's description where its kind has one, as `kubectl scale` does it; else a plan.

use flexor_local::api::{Client, ClientError, Resource};
use serde_json::{Value, json};

use super::args::ScaleArgs;
use super::{apply, explain, fetch, kinds, refuse};
use crate::exit::Exit;
use crate::output;

/// The role that is meant where none is named.
const USUAL_ROLE: &str = "worker";
/// More plans than this are somebody's mistake.
const MOST_PLANS: u32 = 10_000;

pub async fn run(client: &Client, args: &ScaleArgs) -> anyhow::Result<Exit> {
    let namespace = args.place.namespace.as_str();
    let name = job_name(&args.words)?;
    let replicas = args.replicas.or(args.worker).unwrap_or_default();
    let (kind, job) = fetch::job(client, namespace, name).await?;
    let role = args.role.as_ref().map_or_else(|| USUAL_ROLE.to_owned(), ToString::to_string);
    if let Some(range) = outside(&job, &role, replicas) {
        return refuse(format!("{name} may have {range} replicas of {role}, not {replicas}; its manifest says so"));
    }
    let job = as_written(&job);
    match &kind.scale {
        Some(_) if !role.eq_ignore_ascii_case(USUAL_ROLE) => {
            return refuse(format!("{name} has no role {role}; its one role is Worker"));
        }
        Some(path) => {
            let edited = with_number(job, path, replicas);
            apply::judged(client, &edited).await?;
            output::text(&format!("{} scaled\n", apply::full_name(&edited)))?;
        }
        None if !job["spec"]["replicaSpecs"].is_object() => {
            return refuse(format!("{name} is sized by the cluster; edit the range in its manifest and apply it"));
        }
        None => {
            let roles = job["spec"]["replicaSpecs"].as_object().into_iter().flat_map(serde_json::Map::keys);
            let roles: Vec<&str> = roles.map(String::as_str).collect();
            if !roles.contains(&role.as_str()) {
                return refuse(format!("{name} has no role {role}; it has {}", roles.join(", ")));
            }
            let plan = make_plan(client, &job, &role, replicas).await?;
            output::text(&format!("{} scaled by {}\n", apply::full_name(&job), apply::full_name(&plan)))?;
        }
    }
    Ok(Exit::Success)
}

/// The range of a role, where a number lies outside of it.
fn outside(job: &Value, role: &str, replicas: u32) -> Option<String> {
    let mut targets = job["status"]["targets"].as_object()?.iter();
    let (_, target) = targets.find(|(known, _)| known.eq_ignore_ascii_case(role))?;
    let is_below = target["minReplicas"].as_u64().is_some_and(|least| u64::from(replicas) < least);
    let is_above = target["maxReplicas"].as_u64().is_some_and(|most| u64::from(replicas) > most);
    (is_below || is_above).then(|| explain::allowed(target))
}

/// The job that the words name, with or without its kind.
fn job_name(words: &[String]) -> anyhow::Result<&str> {
    let name = match words {
        [kind, name] => {
            kinds::named(kind)?;
            name
        }
        [name, ..] => name,
        [] => return refuse("name a job"),
    };
    match name.split_once('/') {
        Some((kind, name)) => kinds::named(kind).map(|_| name),
        None => Ok(name),
    }
}

/// A job as its user wrote it, without what the cluster added.
fn as_written(job: &Value) -> Value {
    let mut job = job.clone();
    if let Some(object) = job.as_object_mut() {
        object.remove("status");
    }
    if let Some(metadata) = job["metadata"].as_object_mut() {
        metadata.retain(|key, _| matches!(key.as_str(), "name" | "namespace" | "labels" | "annotations"));
    }
    job
}

fn with_number(mut object: Value, path: &str, number: u32) -> Value {
    let place = path.split('.').filter(|name| !name.is_empty()).fold(&mut object, |value, name| &mut value[name]);
    *place = number.into();
    object
}

/// Makes a plan with the next name that is free.
async fn make_plan(client: &Client, job: &Value, role: &str, replicas: u32) -> anyhow::Result<Value> {
    let (name, namespace) = (&job["metadata"]["name"], &job["metadata"]["namespace"]);
    let prefix = format!("{}-scale-", super::cells::text(name));
    let known = client.list(Resource::Plans, namespace.as_str()).await?;
    let numbers =
        known.iter().filter_map(|plan| plan["metadata"]["name"].as_str()?.strip_prefix(&prefix)?.parse().ok());
    let mut number: u32 = numbers.max().map_or(0, |last: u32| last + 1);
    loop {
        let plan = json!({
            "apiVersion": "elastic.iml.github.io/v1alpha1",
            "kind": "ScalePlan",
            "metadata": {
                "name": format!("{prefix}{number}"),
                "namespace": namespace,
                "labels": { "elasticjob-name": name, "scale-type": "manual" },
            },
            "spec": { "ownerJob": name, "replicaResourceSpecs": { role: { "replicas": replicas } } },
        });
        match apply::judged(client, &plan).await {
            // Somebody else was quicker with this number.
            Err(error) if number < MOST_PLANS && is_taken(&error) => number += 1,
            other => return other.map(|_| plan),
        }
    }
}

fn is_taken(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(ClientError::Exists(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_named_with_or_without_its_kind() {
        let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        for written in [&["mnist"][..], &["elasticjob", "mnist"], &["elasticjob/mnist"], &["tej/mnist"]] {
            assert_eq!(job_name(&words(written)).unwrap(), "mnist");
        }
        assert!(job_name(&words(&["job", "mnist"])).is_err());
    }

    #[test]
    fn the_number_is_put_where_the_definition_says() {
        let object = json!({ "spec": { "replicaSpecs": { "Worker": { "template": {} } } } });
        let edited = with_number(object, ".spec.replicaSpecs.Worker.replicas", 3);
        assert_eq!(edited["spec"]["replicaSpecs"]["Worker"], json!({ "template": {}, "replicas": 3 }));
    }
}
