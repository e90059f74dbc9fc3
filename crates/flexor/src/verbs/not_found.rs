//! Errors about objects that do not exist, with a hint: the same name in another namespace, the pods of a job, or a
//! similar name.

use flexor_local::api::{Client, Resource};
use serde_json::Value;

use super::kinds::ObjectKind;
use super::{Refusal, cells};

/// Largest number of pods that a hint names.
const MOST_PODS: usize = 8;

/// The error that no object of these kinds has this name.
pub async fn error(
    client: &Client,
    kinds: &[ObjectKind],
    name: &str,
    namespace: Option<&str>,
) -> anyhow::Result<anyhow::Error> {
    let namespace = namespace.filter(|_| kinds.iter().any(|kind| kind.namespaced));
    let scope = namespace.map(|namespace| format!(" in namespace {namespace}")).unwrap_or_default();
    let hint = hint(client, kinds, name, namespace).await?;
    Ok(Refusal(format!("there is no {} {name}{scope}{hint}", noun(kinds))).into())
}

/// The common noun for objects of these kinds.
fn noun(kinds: &[ObjectKind]) -> &str {
    let has = |resource: Resource| kinds.iter().any(|kind| kind.resource == resource);
    match kinds {
        _ if has(Resource::Jobs) && has(Resource::Pods) => "job or pod",
        [] => "object",
        [_, _, _, ..] => "job",
        [kind, ..] => &kind.singular,
    }
}

async fn hint(client: &Client, kinds: &[ObjectKind], name: &str, namespace: Option<&str>) -> anyhow::Result<String> {
    let existing = all_objects(client, kinds).await?;
    let namespace_of = |object: &Value| cells::text(&object["metadata"]["namespace"]);
    if let Some(namespace) = namespace
        && let Some(other) = existing.iter().find(|object| is_named(object, name)).map(namespace_of)
        && other != namespace
    {
        return Ok(format!("; there is one in {other}: add -n {other}"));
    }
    let here: Vec<&Value> =
        existing.iter().filter(|object| namespace.is_none_or(|namespace| namespace_of(object) == namespace)).collect();
    if kinds.iter().all(|kind| kind.resource == Resource::Pods)
        && client.list(Resource::Jobs, namespace).await?.iter().any(|job| is_named(job, name))
    {
        return Ok(pods_of_job(name, &here));
    }
    let names: Vec<&str> = here.iter().filter_map(|object| object["metadata"]["name"].as_str()).collect();
    let close =
        flexor_dialects::closest(name, names.iter().copied()).map(|similar| format!("; did you mean {similar}?"));
    let is_pod = kinds.iter().all(|kind| kind.resource == Resource::Pods);
    Ok(close.unwrap_or_else(|| if is_pod { list(&names) } else { String::new() }))
}

/// The names of existing pods, or how to list them if there are many.
fn list(names: &[&str]) -> String {
    match names.len() {
        0 => String::new(),
        few if few <= MOST_PODS => format!("; there are {}", names.join(", ")),
        _ => "; `flexor get pods` lists them".to_owned(),
    }
}

/// All objects of some kinds, in all namespaces.
async fn all_objects(client: &Client, kinds: &[ObjectKind]) -> anyhow::Result<Vec<Value>> {
    let mut resources: Vec<Resource> = kinds.iter().map(|kind| kind.resource).collect();
    resources.dedup();
    let mut objects = Vec::new();
    for resource in resources {
        objects.extend(client.list(resource, None).await?);
    }
    objects.retain(|object| kinds.iter().any(|kind| kind.is_kind_of(object)));
    Ok(objects)
}

/// The hint that the name is a job's, with the names of its pods.
fn pods_of_job(job: &str, pods: &[&Value]) -> String {
    let owned = pods.iter().filter(|pod| pod["metadata"]["ownerReferences"][0]["name"] == *job);
    let names: Vec<&str> = owned.filter_map(|pod| pod["metadata"]["name"].as_str()).collect();
    let more = names.len().saturating_sub(MOST_PODS);
    let named = names[..names.len() - more].join(", ");
    match (names.len(), more) {
        (0, _) => format!("; {job} is a job, and has no pods"),
        (_, 0) => format!("; {job} is a job with the pods {named}"),
        _ => format!("; {job} is a job with the pods {named} and {more} more"),
    }
}

fn is_named(object: &Value, name: &str) -> bool {
    object["metadata"]["name"] == *name
}
