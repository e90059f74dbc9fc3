//! `flexor scale`: sets the replicas of roles.
//!
//! Kinds with a scale subresource are edited in place, as `kubectl scale` does. DLRover jobs get a ScalePlan, which says
//! who changed what.

use anyhow::anyhow;
use flexor_local::api::Client;
use flexor_model::PARTITIONS;
use serde_json::{Value, json};

use super::args::ScaleArgs;
use super::{apply, fetch, plans, refuse, why};
use crate::exit::{Exit, Misused};
use crate::output;

/// The role if none is named.
const USUAL_ROLE: &str = "worker";
/// The role of parameter servers.
const SERVERS: &str = "ps";
/// The roles that Flexor sizes by itself, in jobs that have both.
const SIZED_ROLES: [&str; 2] = [SERVERS, USUAL_ROLE];
// The dialects warn of more servers than partitions, with their own constant.
const _: () = assert!(PARTITIONS as usize == flexor_ps::placement::PARTITIONS);

pub async fn run(client: &Client, args: &ScaleArgs) -> anyhow::Result<Exit> {
    let namespace = args.namespace.namespace.as_str();
    let name = fetch::job_name(&args.words)?;
    let (kind, job) = fetch::job(client, namespace, name).await?;
    if args.auto {
        return give_back(client, &as_written(&job)).await;
    }
    let sizes = sizes(args);
    if sizes.is_empty() {
        return Err(Misused(anyhow!("give the number of replicas: {}", numbers_for(&job))).into());
    }
    for (role, replicas) in &sizes {
        if let Some(range) = outside(&job, role, *replicas) {
            return refuse(format!("{name} may have {range} replicas of {role}, not {replicas}"));
        }
    }
    if let Some(replicas) = too_many_servers(&job, &sizes) {
        return refuse(format!(
            "the parameters of a job have {PARTITIONS} partitions, and further servers would be empty; give at most \
             {PARTITIONS}, not {replicas}"
        ));
    }
    let job = as_written(&job);
    match (&kind.scale, &sizes[..]) {
        (Some(path), [(role, replicas)]) if role.eq_ignore_ascii_case(USUAL_ROLE) => {
            let edited = with_number(job, path, *replicas);
            apply::apply_object(client, &edited).await?;
            output::text(&format!("{} scaled\n", apply::full_name(&edited)))?;
        }
        (Some(_), _) => {
            let others =
                sizes.iter().map(|(role, _)| role.as_str()).filter(|role| !role.eq_ignore_ascii_case(USUAL_ROLE));
            let others: Vec<&str> = others.collect();
            return refuse(format!("{name} has no role {}; its only role is Worker", others.join(", ")));
        }
        (None, _) if !job["spec"]["replicaSpecs"].is_object() => {
            return refuse(format!("the cluster sets the size of {name}; edit the range in its manifest and apply it"));
        }
        (None, _) => {
            let roles = job["spec"]["replicaSpecs"].as_object().into_iter().flat_map(serde_json::Map::keys);
            let roles: Vec<&str> = roles.map(String::as_str).collect();
            if let Some((role, _)) = sizes.iter().find(|(role, _)| !roles.contains(&role.as_str())) {
                return refuse(format!("{name} has no role {role}; it has {}", roles.join(", ")));
            }
            let roles: serde_json::Map<String, Value> =
                sizes.iter().map(|(role, replicas)| (role.clone(), json!({ "replicas": replicas }))).collect();
            let plan = plans::create(client, &job, "scale", "replicaResourceSpecs", json!(roles)).await?;
            output::text(&format!("{} scaled by {}\n", apply::full_name(&job), apply::full_name(&plan)))?;
            if gives_up_backups(&job, &sizes) {
                output::note(
                    "warning: with one server partitions have no backup: if the server is lost, the parameters are \
                     restored from the last checkpoint, or start anew if there is none; --ps 2 keeps the backups",
                );
            }
        }
    }
    Ok(Exit::Success)
}

/// Leaves the sizes of a job to automatic sizing again.
async fn give_back(client: &Client, job: &Value) -> anyhow::Result<Exit> {
    let name = job["metadata"]["name"].as_str().unwrap_or_default();
    let roles: serde_json::Map<String, Value> =
        automatic_roles(job).into_iter().map(|role| (role.to_owned(), json!({}))).collect();
    if roles.is_empty() {
        return refuse(format!(
            "{name} is sized by hand alone: it has no parameter servers, no autoScale, or optimizeMode: manual"
        ));
    }
    let annotations = json!({ "flexor.dev/sizing": "automatic" });
    let plan =
        plans::create_with(client, job, "give-back", json!({ "replicaResourceSpecs": roles }), annotations).await?;
    output::text(&format!("{} is sized automatically again, by {}\n", apply::full_name(job), apply::full_name(&plan)))?;
    Ok(Exit::Success)
}

/// The roles of a job whose size may be left to Flexor.
pub fn automatic_roles(job: &Value) -> Vec<&'static str> {
    let spec = &job["spec"];
    let has_servers = SIZED_ROLES.iter().all(|role| spec["replicaSpecs"][*role].is_object());
    let is_for_servers = matches!(spec["distributionStrategy"].as_str(), None | Some("ParameterServerStrategy"));
    if spec["optimizeMode"] == "manual" || !has_servers || !is_for_servers {
        return Vec::new();
    }
    SIZED_ROLES.into_iter().filter(|role| spec["replicaSpecs"][*role]["autoScale"] != false).collect()
}

/// The requested replicas by role.
fn sizes(args: &ScaleArgs) -> Vec<(String, u32)> {
    let role = || args.role.as_ref().map_or_else(|| USUAL_ROLE.to_owned(), ToString::to_string);
    let named = args.replicas.map(|replicas| (role(), replicas));
    let workers = args.worker.map(|replicas| (USUAL_ROLE.to_owned(), replicas));
    let servers = args.ps.map(|replicas| (SERVERS.to_owned(), replicas));
    named.into_iter().chain(workers).chain(servers).collect()
}

/// The options that set the sizes of the job's roles.
fn numbers_for(job: &Value) -> String {
    let targets = job["status"]["targets"].as_object().into_iter().flatten();
    let option = |role: &str| match role.to_ascii_lowercase().as_str() {
        USUAL_ROLE => "--worker N".to_owned(),
        SERVERS => "--ps N".to_owned(),
        _ => format!("--replicas N --role {role}"),
    };
    // Roles of fixed size, such as the master, are not offered.
    let varies = targets.filter(|(_, target)| target["minReplicas"] != target["maxReplicas"]);
    let options: Vec<String> = varies.map(|(role, _)| option(role)).collect();
    if options.is_empty() { "--replicas N".to_owned() } else { options.join(", ") }
}

/// The range of a role, if a number lies outside of it.
fn outside(job: &Value, role: &str, replicas: u32) -> Option<String> {
    let mut targets = job["status"]["targets"].as_object()?.iter();
    let (_, target) = targets.find(|(known, _)| known.eq_ignore_ascii_case(role))?;
    let is_below = target["minReplicas"].as_u64().is_some_and(|least| u64::from(replicas) < least);
    let is_above = target["maxReplicas"].as_u64().is_some_and(|most| u64::from(replicas) > most);
    (is_below || is_above).then(|| why::allowed(target))
}

/// The requested number of `flexor ps` servers, if it exceeds the number of partitions. There is no limit for other
/// programs.
fn too_many_servers(job: &Value, sizes: &[(String, u32)]) -> Option<u32> {
    let containers = job["spec"]["replicaSpecs"][SERVERS]["template"]["spec"]["containers"].as_array()?;
    let is_flexor_ps = |container: &Value| {
        let words = container["command"].as_array().into_iter().chain(container["args"].as_array()).flatten();
        words.take(2).map(Value::as_str).eq([Some("flexor"), Some("ps")])
    };
    let (_, replicas) = sizes.iter().find(|(role, replicas)| role == SERVERS && *replicas > PARTITIONS)?;
    containers.iter().any(is_flexor_ps).then_some(*replicas)
}

/// Whether a job with backups is scaled to a single server.
fn gives_up_backups(job: &Value, sizes: &[(String, u32)]) -> bool {
    let replication_factor = job["spec"]["flexor"]["psReplicationFactor"].as_u64().unwrap_or(1);
    replication_factor > 1 && sizes.iter().any(|(role, replicas)| role == SERVERS && *replicas == 1)
}

/// The manifest of a job, without the fields that the cluster adds.
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
    let field = path.split('.').filter(|name| !name.is_empty()).fold(&mut object, |value, name| &mut value[name]);
    *field = number.into();
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flexor_servers_are_limited_to_the_number_of_partitions() {
        let job = |command: &Value| {
            let template = json!({ "spec": { "containers": [{ "name": "main", "command": command }] } });
            json!({ "spec": { "replicaSpecs": { "ps": { "replicas": 2, "template": template } } } })
        };
        let asked = |replicas: u32| [("worker".to_owned(), 1000), ("ps".to_owned(), replicas)];
        let ours = job(&json!(["flexor", "ps"]));
        assert_eq!(too_many_servers(&ours, &asked(PARTITIONS)), None);
        assert_eq!(too_many_servers(&ours, &asked(1000)), Some(1000));
        assert_eq!(too_many_servers(&job(&json!(["python", "ps.py"])), &asked(1000)), None);
        assert_eq!(too_many_servers(&json!({ "spec": {} }), &asked(1000)), None);
    }

    #[test]
    fn a_single_server_gives_up_the_backups() {
        let job = |factor: u32| json!({ "spec": { "flexor": { "psReplicationFactor": factor } } });
        let asked = |replicas: u32| [("worker".to_owned(), 1), ("ps".to_owned(), replicas)];
        assert!(gives_up_backups(&job(2), &asked(1)));
        assert!(!gives_up_backups(&job(2), &asked(2)));
        assert!(!gives_up_backups(&job(1), &asked(1)));
        assert!(!gives_up_backups(&json!({ "spec": {} }), &asked(1)));
        assert!(!gives_up_backups(&job(2), &asked(1)[..1]), "the servers are not scaled");
    }

    #[test]
    fn without_a_number_the_options_of_the_job_are_named() {
        let target = |least: u32, most: Option<u32>| json!({ "minReplicas": least, "maxReplicas": most });
        let targets = json!({ "dlrover-master": target(1, Some(1)), "ps": target(0, None), "worker": target(0, None) });
        assert_eq!(numbers_for(&json!({ "status": { "targets": targets } })), "--ps N, --worker N");
        let targets = json!({ "Worker": target(1, Some(3)), "evaluator": target(0, None) });
        let options = "--worker N, --replicas N --role evaluator";
        assert_eq!(numbers_for(&json!({ "status": { "targets": targets } })), options);
        assert_eq!(numbers_for(&json!({})), "--replicas N");
    }

    #[test]
    fn the_number_is_set_at_the_path_of_the_definition() {
        let object = json!({ "spec": { "replicaSpecs": { "Worker": { "template": {} } } } });
        let edited = with_number(object, ".spec.replicaSpecs.Worker.replicas", 3);
        assert_eq!(edited["spec"]["replicaSpecs"]["Worker"], json!({ "template": {}, "replicas": 3 }));
    }
}
