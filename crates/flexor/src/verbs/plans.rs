//! Creates ScalePlans for verbs, with the next free name.

use flexor_local::api::{Client, ClientError, Resource};
use serde_json::{Value, json};

use super::{apply, cells};

/// Largest number in the name of a plan.
const MOST_PLANS: u32 = 10_000;

/// Creates a plan named after the job and the verb, with this value in a field of its spec.
pub async fn create(client: &Client, job: &Value, verb: &str, field: &str, value: Value) -> anyhow::Result<Value> {
    create_with(client, job, verb, json!({ field: value }), json!({})).await
}

/// The same with a whole spec, to which the job's name is added, and with annotations.
pub async fn create_with(
    client: &Client,
    job: &Value,
    verb: &str,
    mut spec: Value,
    annotations: Value,
) -> anyhow::Result<Value> {
    let (name, namespace) = (&job["metadata"]["name"], &job["metadata"]["namespace"]);
    spec["ownerJob"] = name.clone();
    let prefix = format!("{}-{verb}-", cells::text(name));
    let known = client.list(Resource::Plans, namespace.as_str()).await?;
    let numbers =
        known.iter().filter_map(|plan| plan["metadata"]["name"].as_str()?.strip_prefix(&prefix)?.parse().ok());
    let mut number: u32 = numbers.max().map_or(0, |last: u32| last + 1);
    loop {
        let mut plan = json!({
            "apiVersion": "elastic.iml.github.io/v1alpha1",
            "kind": "ScalePlan",
            "metadata": {
                "name": format!("{prefix}{number}"),
                "namespace": namespace,
                "labels": { "elasticjob-name": name, "scale-type": "manual" },
            },
            "spec": spec,
        });
        if annotations.as_object().is_some_and(|annotations| !annotations.is_empty()) {
            plan["metadata"]["annotations"] = annotations.clone();
        }
        match apply::apply_object(client, &plan).await {
            // Another terminal has taken this number.
            Err(error) if number < MOST_PLANS && is_taken(&error) => number += 1,
            other => return other.map(|_| plan),
        }
    }
}

fn is_taken(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(ClientError::Exists(_)))
}
