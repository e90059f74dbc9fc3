//! `flexor describe`: all fields of an object, and its events.

mod container;
mod data;
mod job;
mod notes;
mod pod;
mod tree;

use flexor_local::api::{Client, Resource};
use jiff::Timestamp;
use serde_json::Value;

use self::notes::Notes;
pub use self::tree::Text;
use super::args::DescribeArgs;
use super::events::is_about_job;
use super::kinds::{Columns, ObjectKind};
use super::table::Table;
use super::{age, cells, fetch};
use crate::exit::Exit;
use crate::output;

/// How many of the last events of an object are shown.
const LAST: usize = 40;

/// The events, plans and notes that belong to the described objects.
struct RelatedObjects {
    events: Vec<Value>,
    plans: Vec<Value>,
    notes: Notes,
}

pub async fn run(client: &Client, args: &DescribeArgs) -> anyhow::Result<Exit> {
    let namespace = args.namespaces.namespace();
    let around = RelatedObjects {
        events: client.list(Resource::Events, namespace).await?,
        plans: client.list(Resource::Plans, namespace).await?,
        notes: Notes::fetch(client, namespace).await?,
    };
    let mut texts = Vec::new();
    for selection in fetch::selections(client, &args.words, namespace).await? {
        for found in fetch::objects(client, &selection, namespace, &args.selector).await? {
            texts.extend(found.objects.iter().map(|object| describe(&found.kind, object, &around)));
        }
    }
    if texts.is_empty() {
        output::note("there is nothing of that kind; -A looks into all namespaces");
    }
    output::text(&texts.join("\n\n"))?;
    Ok(Exit::Success)
}

fn describe(kind: &ObjectKind, object: &Value, related: &RelatedObjects) -> String {
    let mut text = Text::default();
    match &kind.columns {
        Columns::Pod => pod::describe(&mut text, object, &related.notes),
        Columns::Defined(_) if kind.resource == Resource::Jobs => {
            job::describe(&mut text, object, &related.plans, &related.notes);
        }
        Columns::ConfigMap => data::config_map(&mut text, object),
        Columns::Secret => data::secret(&mut text, object),
        Columns::Defined(_) if kind.resource == Resource::PriorityClasses => data::priority_class(&mut text, object),
        Columns::Event | Columns::Defined(_) => whole(&mut text, object),
    }
    let (name, namespace) = (&object["metadata"]["name"], &object["metadata"]["namespace"]);
    let is_pod = kind.resource == Resource::Pods;
    let concerns = |event: &&Value| {
        let about = &event["involvedObject"];
        let is_it = about["kind"] == *kind.kind && about["name"] == *name;
        let of_job = kind.resource == Resource::Jobs && is_about_job(event, name.as_str().unwrap_or_default());
        about["namespace"] == *namespace && (is_it || of_job)
    };
    let mut shown = text.finish();
    let has_events = matches!(kind.resource, Resource::Jobs | Resource::Plans | Resource::Pods);
    if has_events {
        shown.push_str(&happened(related.events.iter().filter(concerns).collect(), is_pod));
    }
    shown
}

/// All fields of an object of a dialect.
fn whole(text: &mut Text, object: &Value) {
    let metadata = &object["metadata"];
    text.pairs(&[
        ("Name", cells::text(&metadata["name"])),
        ("Namespace", cells::text(&metadata["namespace"])),
        ("Labels", tree::labels(&metadata["labels"])),
        ("Annotations", tree::labels(&metadata["annotations"])),
        ("API Version", cells::text(&object["apiVersion"])),
        ("Kind", cells::text(&object["kind"])),
    ]);
    let mut rest = object.clone();
    if let Some(rest) = rest.as_object_mut() {
        rest.retain(|key, _| !matches!(key.as_str(), "apiVersion" | "kind"));
    }
    if let Some(metadata) = rest["metadata"].as_object_mut() {
        metadata.retain(|key, _| !matches!(key.as_str(), "name" | "namespace" | "labels" | "annotations"));
    }
    text.tree(&rest);
}

/// The events of an object; those of a job's pods name the pod.
fn happened(events: Vec<&Value>, is_pod: bool) -> String {
    let now = Timestamp::now();
    let mut rows: Vec<Vec<String>> = Vec::new();
    let earlier = events.len().saturating_sub(LAST);
    for event in &events[earlier..] {
        let about_pod = !is_pod && event["involvedObject"]["kind"] == "Pod";
        let of = if about_pod { format!("{}: ", cells::text(&event["involvedObject"]["name"])) } else { String::new() };
        rows.push(vec![
            cells::text(&event["type"]),
            cells::text(&event["reason"]),
            age::since(&event["lastTimestamp"], now),
            cells::text(&event["source"]["component"]),
            format!("{of}{}", cells::text(&event["message"])),
        ]);
    }
    if rows.is_empty() {
        return "Events:  <none>\n".to_owned();
    }
    let heading = ["Type", "Reason", "Age", "From", "Message"];
    rows.insert(0, heading.iter().map(|word| "-".repeat(word.len())).collect());
    let table = Table::new(heading.map(str::to_owned).into()).rows(&rows);
    let lines: String = table.lines().map(|line| format!("  {line}\n")).collect();
    let title = if earlier == 0 { String::new() } else { format!("  the last {LAST}; {earlier} are older") };
    format!("Events:{title}\n{lines}")
}
