//! A job, described: its manifest and status, then tables of its targets, slots, services and plans.

use jiff::Timestamp;
use serde_json::Value;

use super::notes::{self, Notes};
use super::tree::Text;
use crate::verbs::pod_state::list;
use crate::verbs::{age, cells, why};

/// Fields of a status that tables below show.
const IN_TABLES: [&str; 2] = ["targets", "flexor"];

pub fn describe(text: &mut Text, job: &Value, plans: &[Value], notes: &Notes) {
    let mut shown = job.clone();
    if let Some(status) = shown["status"].as_object_mut() {
        status.retain(|key, _| !IN_TABLES.contains(&key.as_str()));
    }
    super::whole(text, &shown);
    text.block("Sizes", &why::sizes(job));
    text.block("Slots", &why::slots(job, Timestamp::now()));
    let noted = notes.about("Job", &job["metadata"]);
    let master = &noted["master"];
    if let Some(pod) = master["pod"].as_str() {
        text.pairs(&[("Master", format!("{pod} at {}", cells::text(&master["address"])))]);
    }
    notes::services(text, &noted["services"], usize::MAX);
    let metadata = &job["metadata"];
    let is_of_job = |plan: &&Value| {
        plan["spec"]["ownerJob"] == metadata["name"] && plan["metadata"]["namespace"] == metadata["namespace"]
    };
    text.rows("Plans", &plans.iter().filter(is_of_job).map(plan).collect::<Vec<_>>());
    notes::lines(text, &noted["notes"]);
}

/// A row for a plan: what it asks for, its phase, and why.
fn plan(plan: &Value) -> Vec<String> {
    let asked = plan["spec"]["replicaResourceSpecs"].as_object().into_iter().flatten();
    let asked = asked.map(|(role, wanted)| match &wanted["replicas"] {
        Value::Null => format!("{role}: other resources"),
        replicas => format!("{role}: {replicas}"),
    });
    let mut asked: Vec<String> = asked.collect();
    for (field, word) in [("createPods", "create"), ("removePods", "remove"), ("migratePods", "migrate")] {
        asked.extend(list(&plan["spec"][field]).iter().map(|pod| format!("{word} {}", cells::text(&pod["name"]))));
    }
    let metadata = &plan["metadata"];
    vec![
        cells::text(&metadata["name"]),
        cells::text(&plan["status"]["phase"]),
        age::since(&metadata["creationTimestamp"], Timestamp::now()),
        asked.join(", "),
        why::cause(&plan["status"]).unwrap_or_default(),
    ]
}
