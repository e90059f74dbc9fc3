//! `flexor events`.

use flexor_local::api::{Client, Resource};
use serde_json::Value;

use super::args::EventsArgs;
use super::fetch::Found;
use super::kinds;
use super::show::Show;
use crate::exit::Exit;
use crate::output;

pub async fn run(client: &Client, args: &EventsArgs) -> anyhow::Result<Exit> {
    let namespace = args.places.namespace();
    let Some(kind) = kinds::named("events")?.into_iter().next() else { return Ok(Exit::Success) };
    let is_meant = |event: &Value| args.job.as_ref().is_none_or(|job| is_about(event, job));
    let mut show = Show::new(args.output, args.places.all_namespaces, false);
    if !args.watch {
        let mut objects = client.list(Resource::Events, namespace).await?;
        objects.retain(is_meant);
        if objects.is_empty() {
            output::note("nothing has happened yet, as far as is remembered");
        }
        output::text(&show.everything(&[Found { kind, objects }], false)?)?;
        return Ok(Exit::Success);
    }
    let mut changes = client.watch(Resource::Events, namespace).await?;
    while let Some(batch) = changes.next().await? {
        let mut text = String::new();
        // Old events are forgotten at some time, which is no event.
        for change in batch.iter().filter(|change| !change.gone && is_meant(&change.object)) {
            text.push_str(&show.one(&kind, &change.object)?);
        }
        if !text.is_empty() && !output::raw(text.as_bytes())? {
            break;
        }
    }
    Ok(Exit::Success)
}

/// Whether an event is about a job or one of its pods.
pub fn is_about(event: &Value, job: &str) -> bool {
    let is_pod = event["involvedObject"]["kind"] == "Pod";
    let of = if is_pod { &event["related"] } else { &event["involvedObject"] };
    of["name"] == *job
}
