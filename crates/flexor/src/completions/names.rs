//! Completes names of objects, kinds and namespaces. Without a cluster that answers at once there are none.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::time::Duration;

use clap_complete::CompletionCandidate;
use clap_complete::engine::ValueCompleter;
use flexor_local::api::{Client, Resource};
use flexor_local::state_dir::StateDir;
use serde_json::Value;

use super::line::TypedLine;
use crate::run;
use crate::verbs::{self, ObjectKind, cells};

/// Largest delay of a completion.
const TIMEOUT: Duration = Duration::from_millis(300);
/// Namespace of objects that name none.
const USUAL_NAMESPACE: &str = "default";

/// The names that complete an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameCompleter {
    /// Kinds, or names of the typed kind.
    KindsAndNames,
    Pods,
    Jobs,
    /// Containers of the typed pod.
    Containers,
    Namespaces,
}

impl ValueCompleter for NameCompleter {
    fn complete(&self, current: &OsStr) -> Vec<CompletionCandidate> {
        let Some(current) = current.to_str() else { return Vec::new() };
        let found = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => {
                let found =
                    async { tokio::time::timeout(TIMEOUT, find(*self, &TypedLine::of_this_process(), current)).await };
                runtime.block_on(found).unwrap_or_default()
            }
            Err(_) => Vec::new(),
        };
        found.into_iter().filter(|name| name.starts_with(current)).map(CompletionCandidate::new).collect()
    }
}

async fn find(completer: NameCompleter, line: &TypedLine, current: &str) -> Vec<String> {
    match completer {
        NameCompleter::KindsAndNames if matches!(&*line.verb, "scale" | "why") => match line.words.first() {
            Some(kind) => named(line, &kinds(kind)).await,
            None => {
                let mut found = named(line, &of_resource(Resource::Jobs)).await;
                found.extend(plurals(current).into_iter().filter(|word| !kinds(word).is_empty() && is_of_jobs(word)));
                found
            }
        },
        NameCompleter::KindsAndNames => match (line.words.first(), current.split_once('/')) {
            (Some(kind), _) if !kind.contains('/') => {
                let mut found = named(line, &kinds(kind)).await;
                found.retain(|name| !line.words[1..].contains(name));
                found
            }
            (_, Some((kind, _))) => {
                named(line, &kinds(kind)).await.into_iter().map(|name| format!("{kind}/{name}")).collect()
            }
            (None, None) => plurals(current),
            // After KIND/NAME another KIND/NAME follows.
            (Some(_), None) => plurals(current).into_iter().map(|kind| format!("{kind}/")).collect(),
        },
        NameCompleter::Pods => named(line, &of_resource(Resource::Pods)).await,
        NameCompleter::Jobs => named(line, &of_resource(Resource::Jobs)).await,
        NameCompleter::Containers => containers(line).await,
        NameCompleter::Namespaces => namespaces(line).await,
    }
}

/// The plural names of kinds, or all their names if no plural matches the typed text.
fn plurals(current: &str) -> Vec<String> {
    let all = verbs::all_kinds();
    let plurals: BTreeSet<String> = all.iter().filter_map(|kind| kind.names().first().cloned()).collect();
    if plurals.iter().any(|name| name.starts_with(current)) {
        return plurals.into_iter().collect();
    }
    all.iter().flat_map(|kind| kind.names().to_vec()).collect::<BTreeSet<_>>().into_iter().collect()
}

fn kinds(word: &str) -> Vec<ObjectKind> {
    verbs::kinds_named(word).unwrap_or_default()
}

fn of_resource(resource: Resource) -> Vec<ObjectKind> {
    verbs::all_kinds().into_iter().filter(|kind| kind.resource == resource).collect()
}

fn is_of_jobs(word: &str) -> bool {
    kinds(word).iter().all(|kind| kind.resource == Resource::Jobs)
}

async fn connect(line: &TypedLine) -> Option<Client> {
    let state_dir = StateDir::at(run::state_dir(line.state_dir.as_deref()).ok()?);
    Client::connect(&state_dir).await.ok()
}

/// The names of all objects of some kinds, in the namespace of the command line.
async fn named(line: &TypedLine, kinds: &[ObjectKind]) -> Vec<String> {
    let Some(client) = connect(line).await else { return Vec::new() };
    let namespace = line.namespace.as_deref().unwrap_or(USUAL_NAMESPACE);
    let mut found = BTreeSet::new();
    for kind in kinds {
        let listed = client.list(kind.resource, (!line.all_namespaces).then_some(namespace)).await.unwrap_or_default();
        found.extend(listed.iter().filter(|object| kind.is_kind_of(object)).map(name));
    }
    found.into_iter().collect()
}

async fn containers(line: &TypedLine) -> Vec<String> {
    let (Some(client), Some(pod)) = (connect(line).await, line.words.first()) else { return Vec::new() };
    let pod = pod.rsplit('/').next().unwrap_or(pod);
    let namespace = line.namespace.as_deref().unwrap_or(USUAL_NAMESPACE);
    let pods = client.list(Resource::Pods, Some(namespace)).await.unwrap_or_default();
    let Some(pod) = pods.iter().find(|known| name(known) == pod) else { return Vec::new() };
    let status = &pod["status"];
    let all = ["initContainerStatuses", "containerStatuses"].into_iter().filter_map(|field| status[field].as_array());
    all.flatten().map(|container| cells::text(&container["name"])).collect()
}

async fn namespaces(line: &TypedLine) -> Vec<String> {
    let Some(client) = connect(line).await else { return Vec::new() };
    let jobs = client.list(Resource::Jobs, None).await.unwrap_or_default();
    let found: BTreeSet<String> = jobs.iter().map(|job| cells::text(&job["metadata"]["namespace"])).collect();
    found.into_iter().collect()
}

fn name(object: &Value) -> String {
    cells::text(&object["metadata"]["name"])
}
