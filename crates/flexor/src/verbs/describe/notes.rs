//! Notes: objects of the laptop cluster's API that say what Kubernetes has no field for, one per job or pod at most.

use flexor_local::api::{Client, Resource};
use serde_json::Value;

use super::tree::Text;
use crate::verbs::cells;
use crate::verbs::pod_state::list;

/// The notes of one namespace, or of all.
pub struct Notes(Vec<Value>);

impl Notes {
    pub async fn fetch(client: &Client, namespace: Option<&str>) -> anyhow::Result<Self> {
        Ok(Self(client.list(Resource::Notes, namespace).await?))
    }

    /// The note about an object; null where there is none.
    pub fn about(&self, kind: &str, metadata: &Value) -> Value {
        self.find(kind, &metadata["name"], &metadata["namespace"])
    }

    /// The note about a job; null where there is none.
    pub fn of_job(&self, name: &Value, namespace: &Value) -> Value {
        self.find("Job", name, namespace)
    }

    fn find(&self, kind: &str, name: &Value, namespace: &Value) -> Value {
        let matches = |note: &&Value| {
            let about = &note["about"];
            about["kind"] == kind && about["name"] == *name && about["namespace"] == *namespace
        };
        self.0.iter().find(matches).cloned().unwrap_or_default()
    }
}

/// Prints the services of a job, with the address to use instead of the DNS name; at most `most` of them.
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

/// Prints the lines of a note.
pub fn lines(text: &mut Text, notes: &Value) {
    let rows = list(notes).iter().map(|note| vec![cells::text(note)]);
    text.rows("Notes", &rows.collect::<Vec<_>>());
}
