//! A pod, described.

use serde_json::Value;

use super::tree::{self, Text};
use crate::verbs::cells;
use crate::verbs::pod_state::{self, list};

pub fn describe(text: &mut Text, pod: &Value) {
    let (metadata, spec, status) = (&pod["metadata"], &pod["spec"], &pod["status"]);
    let owner = &metadata["ownerReferences"][0];
    let mut pairs = vec![
        ("Name", cells::text(&metadata["name"])),
        ("Namespace", cells::text(&metadata["namespace"])),
        ("Node", cells::text(&spec["nodeName"])),
        ("Start Time", cells::text(&status["startTime"])),
        ("Labels", tree::labels(&metadata["labels"])),
        ("Annotations", tree::labels(&metadata["annotations"])),
        ("Status", pod_state::of(pod).status),
        ("IP", cells::text(&status["podIP"])),
    ];
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
                text.below(name, |text| container(text, &of(planned), &of(told)));
            }
        });
    }
}

fn container(text: &mut Text, planned: &Value, told: &Value) {
    let words = |field: &str| -> Option<String> {
        let words: Vec<String> = list(&planned[field]).iter().map(cells::text).collect();
        (!words.is_empty()).then(|| words.join("\n"))
    };
    let mut pairs = Vec::new();
    for (name, value) in [("Command", words("command")), ("Args", words("args"))] {
        pairs.extend(value.map(|value| (name, value)));
    }
    if let Some(folder) = planned["workingDir"].as_str() {
        pairs.push(("Working Dir", folder.to_owned()));
    }
    for (name, of) in [("Limits", "limits"), ("Requests", "requests")] {
        let quantities = planned["resources"][of].as_object().into_iter().flatten();
        let quantities: Vec<String> =
            quantities.map(|(resource, quantity)| format!("{resource}: {}", cells::text(quantity))).collect();
        if !quantities.is_empty() {
            pairs.push((name, quantities.join(", ")));
        }
    }
    if told.is_object() {
        pairs.extend(state(&told["state"]));
        pairs.push(("Ready", if told["ready"] == true { "True" } else { "False" }.to_owned()));
        pairs.push(("Restart Count", cells::text(&told["restartCount"])));
    }
    text.pairs(&pairs);
}

fn state(state: &Value) -> Vec<(&'static str, String)> {
    let (waiting, running, ended) = (&state["waiting"], &state["running"], &state["terminated"]);
    let mut pairs = Vec::new();
    let fields: &[(&'static str, &Value)] = if running.is_object() {
        pairs.push(("State", "Running".to_owned()));
        &[("Started", &running["startedAt"]), ("Process", &running["pid"])]
    } else if ended.is_object() {
        pairs.push(("State", "Terminated".to_owned()));
        &[
            ("Reason", &ended["reason"]),
            ("Message", &ended["message"]),
            ("Exit Code", &ended["exitCode"]),
            ("Started", &ended["startedAt"]),
            ("Finished", &ended["finishedAt"]),
        ]
    } else {
        pairs.push(("State", "Waiting".to_owned()));
        &[("Reason", &waiting["reason"])]
    };
    let known = fields.iter().filter(|(_, value)| !value.is_null());
    pairs.extend(known.map(|(name, value)| (*name, cells::text(value))));
    pairs
}
