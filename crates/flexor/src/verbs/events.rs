//! `flexor events`.

use flexor_local::api::{Client, Resource};
use serde_json::Value;

use super::args::EventsArgs;
use super::fetch::{self, Found};
use super::kinds::{self, ObjectKind};
use super::show::Show;
use super::{cells, missing};
use crate::exit::Exit;
use crate::output;

pub async fn run(client: &Client, args: &EventsArgs) -> anyhow::Result<Exit> {
    let namespace = args.places.namespace();
    let name = match args.name.as_deref().map(fetch::bare_name).transpose()? {
        Some(name) => Some(meant(client, namespace, name).await?),
        None => None,
    };
    let name = name.as_deref();
    let Some(kind) = kinds::named("events")?.into_iter().next() else { return Ok(Exit::Success) };
    let is_meant = |event: &Value| name.is_none_or(|name| is_about(event, name) || is_of(event, name));
    let mut show = Show::new(args.output, args.places.all_namespaces, false);
    if !args.watch {
        let mut objects = client.list(Resource::Events, namespace).await?;
        objects.retain(is_meant);
        if objects.is_empty() {
            check(client, name, namespace).await?;
            output::note("nothing has happened yet, as far as is remembered");
        }
        output::text(&show.everything(&[Found { kind, objects }], false)?)?;
        return Ok(Exit::Success);
    }
    let mut changes = client.watch(Resource::Events, namespace).await?;
    let mut is_first = true;
    while let Some(batch) = changes.next().await? {
        // Old events are forgotten at some time, which is no event.
        let happened = batch.into_iter().filter(|change| !change.gone).map(|change| change.object);
        let happened: Vec<Value> = happened.filter(is_meant).collect();
        if std::mem::take(&mut is_first) {
            if happened.is_empty() {
                check(client, name, namespace).await?;
            }
            show.make_room(&kind, "OBJECT", &known(client, namespace, name).await?);
        }
        let text = show.more(&kind, &happened)?;
        if !text.is_empty() && !output::raw(text.as_bytes())? {
            break;
        }
    }
    Ok(Exit::Success)
}

/// The job or pod that a word means. Events also know pods that are gone.
async fn meant(client: &Client, namespace: Option<&str>, word: &str) -> anyhow::Result<String> {
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
    Ok(fetch::whole_name(&pods, word)?.unwrap_or_else(|| word.to_owned()))
}

/// Whether an event is about a job or one of its pods.
pub fn is_about(event: &Value, job: &str) -> bool {
    let is_pod = event["involvedObject"]["kind"] == "Pod";
    let of = if is_pod { &event["related"] } else { &event["involvedObject"] };
    of["name"] == *job
}

/// Whether an event is about a pod.
fn is_of(event: &Value, pod: &str) -> bool {
    let about = &event["involvedObject"];
    about["kind"] == "Pod" && about["name"] == *pod
}

/// Something must have the name that nothing is remembered of.
async fn check(client: &Client, name: Option<&str>, namespace: Option<&str>) -> anyhow::Result<()> {
    let Some(name) = name else { return Ok(()) };
    let kinds = about();
    for kind in &kinds {
        let all = client.list(kind.resource, namespace).await?;
        if all.iter().any(|object| object["metadata"]["name"] == *name) {
            return Ok(());
        }
    }
    Err(missing::told(client, &kinds, name, namespace).await?)
}

/// What events may be about, as they name it.
async fn known(client: &Client, namespace: Option<&str>, name: Option<&str>) -> anyhow::Result<Vec<String>> {
    let mut known = Vec::new();
    for resource in [Resource::Jobs, Resource::Pods] {
        for object in client.list(resource, namespace).await? {
            let (own, owner) = (&object["metadata"]["name"], &object["metadata"]["ownerReferences"][0]["name"]);
            if name.is_none_or(|name| *own == *name || *owner == *name) {
                known.push(cells::with_kind(&object["kind"], own));
            }
        }
    }
    Ok(known)
}

/// The kinds that events are about.
fn about() -> Vec<ObjectKind> {
    kinds::of(Resource::Jobs).into_iter().chain(kinds::of(Resource::Pods)).collect()
}
