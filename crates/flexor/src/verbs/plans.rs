//! Plans that verbs make: what a user would have written into a ScalePlan, under the next name that is free.

use flexor_local::api::{Client, ClientError, Resource};
use serde_json::{Value, json};

use super::{apply, cells};

/// More plans than this are somebody's mistake.
const MOST_PLANS: u32 = 10_000;

/// Makes a plan for a job, called after the job and the verb, that says this in a field.
pub async fn make(client: &Client, job: &Value, verb: &str, field: &str, says: Value) -> anyhow::Result<Value> {
    let (name, namespace) = (&job["metadata"]["name"], &job["metadata"]["namespace"]);
    let prefix = format!("{}-{verb}-", cells::text(name));
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
            "spec": { "ownerJob": name, field: says },
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
