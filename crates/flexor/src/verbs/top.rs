//! `flexor top`: lists the CPU and memory usage of pods; of a job, its pace too.

mod job;

use flexor_local::api::{Client, Resource};
use flexor_model::Quantity;
use serde_json::{Value, json};

use super::args::TopArgs;
use super::pod_state::list;
use super::table::Table;
use super::{cells, refuse};
use crate::exit::Exit;
use crate::output::{self, Format};

/// Names that stand for all pods.
const PODS: [&str; 3] = ["pods", "pod", "po"];

pub async fn run(client: &Client, args: &TopArgs) -> anyhow::Result<Exit> {
    match &args.words[..] {
        [] => {}
        [word] if PODS.contains(&word.as_str()) => {}
        _ if args.namespaces.all_namespaces => return refuse("-A is for pods; name the namespace of the job with -n"),
        _ => return job::run(client, args).await,
    }
    let mut metrics = client.list(Resource::PodMetrics, args.namespaces.namespace()).await?;
    metrics.retain(|pod| args.selector.selects(pod));
    if args.output == Format::Json {
        output::json(&json!({ "apiVersion": "v1", "kind": "List", "items": metrics }))?;
        return Ok(Exit::Success);
    }
    if metrics.is_empty() {
        output::note("no pod is running");
    }
    let namespaces = args.namespaces.all_namespaces;
    let heading = ["NAMESPACE", "NAME", "CPU(cores)", "MEMORY(bytes)"];
    let from = usize::from(!namespaces);
    let mut table = Table::new(heading[from..].iter().map(ToString::to_string).collect());
    let row = |pod: &Value| {
        let metadata = &pod["metadata"];
        let thousandths = total(pod, "cpu") / 1_000_000;
        let mebibytes = total(pod, "memory") / 1_000_000_000 / (1 << 20);
        let cells = [
            cells::text(&metadata["namespace"]),
            cells::text(&metadata["name"]),
            format!("{thousandths}m"),
            format!("{mebibytes}Mi"),
        ];
        cells[from..].to_vec()
    };
    output::text(&table.rows(&metrics.iter().map(row).collect::<Vec<_>>()))?;
    Ok(Exit::Success)
}

/// The usage of a resource by all containers of a pod, in billionths.
fn total(pod: &Value, resource: &str) -> i128 {
    let quantities = list(&pod["containers"]).iter().filter_map(|container| container["usage"][resource].as_str());
    quantities.filter_map(|text| text.parse::<Quantity>().ok()).map(Quantity::billionths).sum()
}
