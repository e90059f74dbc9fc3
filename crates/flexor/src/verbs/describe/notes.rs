//! What a laptop cluster notes about its jobs and pods. A cluster that is none has no notes.

use flexor_local::api::{Client, Resource};
use serde_json::Value;

use super::tree::Text;
use crate::verbs::cells;
use crate::verbs::pod_state::list;

/// All notes of some namespaces.
pub struct Notes(Vec<Value>);

impl Notes {
    pub async fn fetch(client: &Client, namespace: Option<&str>) -> anyhow::Result<Self> {
        Ok(Self(client.list(Resource::Notes, namespace).await?))
    }

    /// The notes about an object.
    pub fn about(&self, kind: &str, metadata: &Value) -> Value {
        self.find(kind, &metadata["name"], &metadata["namespace"])
    }

    /// The notes about a job.
    pub fn of_job(&self, name: &Value, namespace: &Value) -> Value {
        self.find("Job", name, namespace)
    }

    fn find(&self, kind: &str, name: &Value, namespace: &Value) -> Value {
        let is_it = |note: &&Value| {
            let about = &note["about"];
            about["kind"] == kind && about["name"] == *name && about["namespace"] == *namespace
        };
        self.0.iter().find(is_it).cloned().unwrap_or_default()
    }
}

/// The services of a job, with what to use in the place of their names; no more of them than `most`.
pub fn services(text: &mut Text, services: &Value, most: usize) {
    let all = list(services);
    let mut rows: Vec<Vec<String>> = Vec::new();
    for service in all.iter().take(most) {
        let (name, address) = (cells::text(&service["name"]), cells::text(&service["address"]));
        rows.push(vec![name, format!("does not resolve here, use {address}")]);
    }
    if all.len() > most {
        rows.push(vec![format!("and {} more: describe the job", all.len() - most)]);
    }
    text.rows("Services", &rows);
}

/// What else there is to know.
pub fn lines(text: &mut Text, notes: &Value) {
    let rows = list(notes).iter().map(|note| vec![cells::text(note)]);
    text.rows("Notes", &rows.collect::<Vec<_>>());
}
