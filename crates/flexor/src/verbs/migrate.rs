//! `flexor migrate`: creates a ScalePlan that replaces a pod by a successor, with other or the same resources.
//!
//! Errors that the job and its pods show are reported before the plan is created. The controller validates the plan again.

use flexor_local::api::{Client, Resource};
use serde_json::{Map, Value, json};

use super::args::MigrateArgs;
use super::{apply, cells, fetch, plans, refuse};
use crate::exit::Exit;
use crate::output::{self, Format};

/// Roles whose pods may run beside their successor.
const ROLES: [&str; 2] = ["ps", "worker"];

pub async fn run(client: &Client, args: &MigrateArgs) -> anyhow::Result<Exit> {
    let namespace = args.namespace.namespace.as_str();
    let name = fetch::bare_name(&args.job)?;
    let (kind, job) = fetch::job(client, namespace, name).await?;
    if kind.scale.is_some() || !job["spec"]["replicaSpecs"].is_object() {
        return refuse(format!(
            "{name} is not a DLRover job, and only their pods migrate; `flexor delete pod NAME` replaces a pod"
        ));
    }
    if job["spec"]["distributionStrategy"] == "AllreduceStrategy" {
        return refuse(format!(
            "{name} is an all-reduce job, and a successor would have the pod's name; \
             `flexor delete pod NAME` replaces a pod"
        ));
    }
    let word = fetch::pod_name(client, namespace, &args.pod).await?;
    let pod = find(client, namespace, name, word).await?;
    let pod_name = cells::text(&pod["metadata"]["name"]);
    let role = role(&pod);
    if !ROLES.contains(&role.as_str()) {
        return refuse(format!("{pod_name} is a {role}; only pods of the roles {} migrate", ROLES.join(" and ")));
    }
    if !pod["metadata"]["deletionTimestamp"].is_null() {
        return refuse(format!("{pod_name} is terminating; `flexor get pods` shows its replacement"));
    }
    let given = [("cpu", args.cpu), ("memory", args.memory)];
    let given = given.into_iter().filter_map(|(name, amount)| Some((name.to_owned(), amount?.to_string().into())));
    let resource: Map<String, Value> = given.collect();
    let with = if resource.is_empty() { ", with the same resources" } else { "" };
    let migrations = json!([{ "name": pod_name, "resource": resource }]);
    let plan = plans::create(client, &job, "migrate", "migratePods", migrations).await?;
    match args.output {
        Format::Json => output::json(&plan)?,
        Format::Text => output::text(&format!("pod/{pod_name} migrates by {}{with}\n", apply::full_name(&plan)))?,
    }
    Ok(Exit::Success)
}

/// The pod of a job with this name, with or without the job's name.
async fn find(client: &Client, namespace: &str, job: &str, word: &str) -> anyhow::Result<Value> {
    let pods = client.list(Resource::Pods, Some(namespace)).await?;
    let owner = |pod: &Value| cells::text(&pod["metadata"]["ownerReferences"][0]["name"]);
    let (of_job, others): (Vec<Value>, Vec<Value>) = pods.into_iter().partition(|pod| owner(pod) == job);
    let name = |pod: &Value| cells::text(&pod["metadata"]["name"]);
    if let Some(pod) = of_job.iter().find(|pod| fetch::is_short_for(&name(pod), job, word)) {
        return Ok(pod.clone());
    }
    if let Some(pod) = others.iter().find(|pod| name(pod) == word) {
        let owner = owner(pod);
        return refuse(format!("{word} is a pod of {owner}, not of {job}; write `flexor migrate {owner} {word}`"));
    }
    let migrates = |pod: &&Value| ROLES.contains(&role(pod).as_str());
    let names: Vec<String> = of_job.iter().filter(migrates).map(name).collect();
    match &names[..] {
        [] => refuse(format!("{job} has no pod {word}, and no other pod that can migrate")),
        names => refuse(format!("{job} has no pod {word}; those that can migrate are {}", names.join(", "))),
    }
}

fn role(pod: &Value) -> String {
    cells::text(&pod["metadata"]["labels"]["replica-type"])
}
