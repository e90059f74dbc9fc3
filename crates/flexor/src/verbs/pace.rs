//! How fast a job is, and what limits it, from the metrics of the cluster.

use flexor_local::api::{Client, Resource};
use serde_json::Value;

/// The metrics of a job; null where there are none.
pub async fn of(client: &Client, namespace: &str, job: &str) -> anyhow::Result<Value> {
    let all = client.list(Resource::JobMetrics, Some(namespace)).await?;
    Ok(all.into_iter().find(|metrics| metrics["metadata"]["name"] == *job).unwrap_or_default())
}

/// The rates of a job, and what limits it where that was measured.
pub fn in_words(metrics: &Value) -> String {
    let rates = [("stepsPerSecond", "steps/s"), ("recordsPerSecond", "records/s")];
    let rates = rates.into_iter().filter_map(|(field, unit)| Some(format!("{} {unit}", rate(&metrics[field])?)));
    let rates: Vec<String> = rates.collect();
    if rates.is_empty() {
        return "no training step has been counted".to_owned();
    }
    let limit = metrics["measured"]["limitedBy"].as_str().map(|limit| format!("; {limit}")).unwrap_or_default();
    format!("{}{limit}", rates.join(", "))
}

/// A rate, with a digit after the point where it is low.
fn rate(value: &Value) -> Option<String> {
    let rate = value.as_f64()?;
    Some(if rate < 10.0 { format!("{rate:.1}") } else { format!("{rate:.0}") })
}
