//! A pod, described.

use serde_json::Value;

use super::notes::Notes;
use super::tree::{self, Text};
use super::{container, notes};
use crate::verbs::cells;
use crate::verbs::pod_state::{self, list};

/// A pod of a large job names so many services; its job names all.
const MOST_SERVICES: usize = 20;

pub fn describe(text: &mut Text, pod: &Value, notes: &Notes) {
    let (metadata, spec, status) = (&pod["metadata"], &pod["spec"], &pod["status"]);
    let owner = &metadata["ownerReferences"][0];
    let mut pairs = vec![("Name", cells::text(&metadata["name"])), ("Namespace", cells::text(&metadata["namespace"]))];
    if let Some(class) = spec["priorityClassName"].as_str() {
        pairs.push(("Priority Class Name", class.to_owned()));
    }
    pairs.extend([
        ("Start Time", cells::text(&status["startTime"])),
        ("Labels", tree::labels(&metadata["labels"])),
        ("Annotations", tree::labels(&metadata["annotations"])),
        ("Status", pod_state::of(pod).status),
        ("IP", cells::text(&status["podIP"])),
    ]);
    for (name, value) in [("Reason", &status["reason"]), ("Message", &status["message"])] {
        if let Some(value) = value.as_str() {
            pairs.push((name, value.to_owned()));
        }
    }
    if owner.is_object() {
        pairs.push(("Controlled By", format!("{}/{}", cells::text(&owner["kind"]), cells::text(&owner["name"]))));
    }
    text.pairs(&pairs);
    for (title, planned, told) in [
        ("Init Containers", &spec["initContainers"], &status["initContainerStatuses"]),
        ("Containers", &spec["containers"], &status["containerStatuses"]),
    ] {
        // Those of a pod whose job is gone are known by what became of them.
        let names = list(planned).iter().chain(list(told)).map(|one| cells::text(&one["name"]));
        let mut names: Vec<String> = names.collect();
        let mut seen = std::collections::BTreeSet::new();
        names.retain(|name| seen.insert(name.clone()));
        if names.is_empty() {
            continue;
        }
        text.below(title, |text| {
            for name in &names {
                let of = |all: &Value| list(all).iter().find(|one| one["name"] == **name).cloned().unwrap_or_default();
                text.below(name, |text| container::describe(text, &of(planned), &of(told), list(&spec["volumes"])));
            }
        });
    }
    let conditions = list(&status["conditions"])
        .iter()
        .map(|condition| ["type", "status", "reason", "message"].map(|field| cells::text(&condition[field])).into());
    text.rows("Conditions", &conditions.collect::<Vec<_>>());
    let volumes = list(&spec["volumes"]).iter().map(volume);
    text.rows("Volumes", &volumes.collect::<Vec<_>>());
    let about = notes.about("Pod", metadata);
    notes::services(text, &notes.of_job(&about["job"], &metadata["namespace"])["services"], MOST_SERVICES);
    notes::lines(text, &about["notes"]);
}

/// A volume: its name, and what it is.
fn volume(volume: &Value) -> Vec<String> {
    let kinds = volume.as_object().into_iter().flatten().filter(|(key, _)| *key != "name");
    let told = kinds.map(|(kind, of)| {
        let names = ["name", "secretName", "claimName", "path", "type", "medium"];
        let said: Vec<String> = names.iter().filter_map(|field| of[*field].as_str().map(str::to_owned)).collect();
        format!("{kind} {}", said.join(" "))
    });
    vec![format!("{}:", cells::text(&volume["name"])), told.collect::<Vec<_>>().join(", ")]
}
