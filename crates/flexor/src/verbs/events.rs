//! `flexor events`: lists events of all objects, of a job with its pods, or of a pod.

use flexor_local::api::{Client, Resource};
use serde_json::Value;

use super::args::EventsArgs;
use super::fetch::{self, KindObjects};
use super::kinds::{self, ObjectKind};
use super::show::ObjectPrinter;
use super::{cells, not_found};
use crate::exit::Exit;
use crate::output;

pub async fn run(client: &Client, args: &EventsArgs) -> anyhow::Result<Exit> {
    let namespace = args.namespaces.namespace();
    let name = match args.name.as_deref().map(fetch::bare_name).transpose()? {
        Some(name) => Some(resolve(client, namespace, name).await?),
        None => None,
    };
    let name = name.as_deref();
    let Some(kind) = kinds::named("events")?.into_iter().next() else { return Ok(Exit::Success) };
    let is_selected = |event: &Value| name.is_none_or(|name| is_about_job(event, name) || is_about_pod(event, name));
    let mut show = ObjectPrinter::new(args.output, args.namespaces.all_namespaces, false);
    if !args.watch {
        let mut objects = client.list(Resource::Events, namespace).await?;
        objects.retain(is_selected);
        if objects.is_empty() {
            check(client, name, namespace).await?;
            output::note("no events; the cluster keeps only recent ones");
        }
        output::text(&show.everything(&[KindObjects { kind, objects }], false)?)?;
        return Ok(Exit::Success);
    }
    let mut changes = client.watch(Resource::Events, namespace).await?;
    let mut is_first = true;
    while let Some(batch) = changes.next().await? {
        // The cluster drops old events, which is no news.
        let happened = batch.into_iter().filter(|change| !change.gone).map(|change| change.object);
        let happened: Vec<Value> = happened.filter(is_selected).collect();
        if std::mem::take(&mut is_first) {
            if happened.is_empty() {
                check(client, name, namespace).await?;
            }
            show.make_room(&kind, "OBJECT", &object_names(client, namespace, name).await?);
        }
        let text = show.more(&kind, &happened)?;
        if !text.is_empty() && !output::raw(text.as_bytes())? {
            break;
        }
    }
    Ok(Exit::Success)
}

/// The full name of a job or pod. Events also name pods that no longer exist.
async fn resolve(client: &Client, namespace: Option<&str>, word: &str) -> anyhow::Result<String> {
    let jobs = client.list(Resource::Jobs, namespace).await?;
    if jobs.iter().any(|job| job["metadata"]["name"] == *word) {
        return Ok(word.to_owned());
    }
    let mut pods = fetch::names_of(&client.list(Resource::Pods, namespace).await?);
    for event in client.list(Resource::Events, namespace).await? {
        let about = &event["involvedObject"];
        if about["kind"] == "Pod" {
            pods.push((cells::text(&about["name"]), cells::text(&event["related"]["name"])));
        } else if about["name"] == *word {
            return Ok(word.to_owned());
        }
    }
    Ok(fetch::full_pod_name(&pods, word)?.unwrap_or_else(|| word.to_owned()))
}

/// Whether an event is about a job or one of its pods.
pub fn is_about_job(event: &Value, job: &str) -> bool {
    let is_pod = event["involvedObject"]["kind"] == "Pod";
    let of = if is_pod { &event["related"] } else { &event["involvedObject"] };
    of["name"] == *job
}

fn is_about_pod(event: &Value, pod: &str) -> bool {
    let about = &event["involvedObject"];
    about["kind"] == "Pod" && about["name"] == *pod
}

/// Checks that a job or pod without events exists.
async fn check(client: &Client, name: Option<&str>, namespace: Option<&str>) -> anyhow::Result<()> {
    let Some(name) = name else { return Ok(()) };
    let kinds = kinds_with_events();
    for kind in &kinds {
        let all = client.list(kind.resource, namespace).await?;
        if all.iter().any(|object| object["metadata"]["name"] == *name) {
            return Ok(());
        }
    }
    Err(not_found::error(client, &kinds, name, namespace).await?)
}

/// Names of the objects that events may be about, as KIND/NAME.
async fn object_names(client: &Client, namespace: Option<&str>, name: Option<&str>) -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    for resource in [Resource::Jobs, Resource::Pods] {
        for object in client.list(resource, namespace).await? {
            let (own, owner) = (&object["metadata"]["name"], &object["metadata"]["ownerReferences"][0]["name"]);
            if name.is_none_or(|name| *own == *name || *owner == *name) {
                names.push(cells::with_kind(&object["kind"], own));
            }
        }
    }
    Ok(names)
}

fn kinds_with_events() -> Vec<ObjectKind> {
    kinds::of(Resource::Jobs).into_iter().chain(kinds::of(Resource::Pods)).collect()
}
