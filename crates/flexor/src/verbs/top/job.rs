//! `flexor top JOB`: how fast a job is, what limits it, and what each of its pods uses of what it may use.

use flexor_local::api::{Client, Resource};
use flexor_model::Quantity;
use serde_json::{Value, json};

use super::total;
use crate::exit::Exit;
use crate::output::{self, Format};
use crate::verbs::args::TopArgs;
use crate::verbs::pod_state::list;
use crate::verbs::table::Table;
use crate::verbs::{cells, fetch, pace};

/// The usage of a pod, in billionths of a core and of a byte.
struct PodUse {
    name: String,
    cpu: i128,
    memory: i128,
    /// None where nothing limits it.
    memory_limit: Option<i128>,
}

pub async fn run(client: &Client, args: &TopArgs) -> anyhow::Result<Exit> {
    let namespace = args.namespaces.one.namespace.as_str();
    let name = fetch::job_name(&args.words)?;
    let (kind, job) = fetch::job(client, namespace, name).await?;
    let metrics = client.list(Resource::PodMetrics, Some(namespace)).await?;
    let pods = client.list(Resource::Pods, Some(namespace)).await?;
    let pace = pace::of(client, namespace, name).await?;
    let is_of_job = |pod: &&Value| {
        pod["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"] && args.selector.selects(pod)
    };
    let usage = |pod: &Value| {
        let name = &pod["metadata"]["name"];
        let measured = metrics.iter().find(|metric| metric["metadata"]["name"] == *name)?;
        Some(PodUse {
            name: cells::text(name),
            cpu: total(measured, "cpu"),
            memory: total(measured, "memory"),
            memory_limit: memory_limit(pod),
        })
    };
    let pods: Vec<PodUse> = pods.iter().filter(is_of_job).filter_map(usage).collect();
    let shared = pace["sharedCPU"].as_str().and_then(billionths);
    if args.output == Format::Json {
        output::json(&json(&pace, &pods, shared))?;
    } else {
        output::text(&text(&format!("{}/{name}", kind.full_name()), &pace, &pods, shared))?;
    }
    Ok(Exit::Success)
}

/// The memory that all containers of a pod may use; none if one of them has no limit.
fn memory_limit(pod: &Value) -> Option<i128> {
    let limits = list(&pod["spec"]["containers"]).iter().map(|one| &one["resources"]["limits"]["memory"]);
    limits.map(|limit| limit.as_str().and_then(billionths)).reduce(|sum, limit| Some(sum? + limit?))?
}

fn billionths(quantity: &str) -> Option<i128> {
    quantity.parse::<Quantity>().ok().map(Quantity::billionths)
}

fn json(pace: &Value, pods: &[PodUse], shared: Option<i128>) -> Value {
    let mut json = pace.clone();
    let pod = |pod: &PodUse| {
        json!({
            "name": pod.name,
            "cpu": millicores(pod.cpu),
            "mayUseCPU": shared.map(millicores),
            "memory": mebibytes(pod.memory),
            "memoryLimit": pod.memory_limit.map(mebibytes),
        })
    };
    json["pods"] = pods.iter().map(pod).collect();
    json
}

fn text(job: &str, pace: &Value, pods: &[PodUse], shared: Option<i128>) -> String {
    let mut text = format!("{job}: {}\n", pace::in_words(pace));
    if pods.is_empty() {
        text.push_str("no pod of it is running\n");
        return text;
    }
    if let Some(cores) = shared {
        let used = pods.iter().map(|pod| pod.cpu).sum::<i128>();
        let (used, all) = (millicores(used), millicores(cores));
        text.push_str(&format!("its pods use {used} of {all} CPU, which all pods share\n"));
    }
    let heading = ["NAME", "CPU(cores)", "MAY USE", "CPU%", "MEMORY(bytes)", "MAY USE", "MEMORY%"];
    let row = |pod: &PodUse| {
        vec![
            pod.name.clone(),
            millicores(pod.cpu),
            shared.map_or_else(unlimited, millicores),
            percent(pod.cpu, shared),
            mebibytes(pod.memory),
            pod.memory_limit.map_or_else(unlimited, mebibytes),
            percent(pod.memory, pod.memory_limit),
        ]
    };
    let table = Table::new(heading.map(str::to_owned).into()).rows(&pods.iter().map(row).collect::<Vec<_>>());
    format!("{text}\n{table}")
}

fn unlimited() -> String {
    "unlimited".to_owned()
}

fn millicores(billionths: i128) -> String {
    format!("{}m", billionths / 1_000_000)
}

fn mebibytes(billionths: i128) -> String {
    format!("{}Mi", billionths / 1_000_000_000 / (1 << 20))
}

/// A part of a whole; empty where there is no whole.
fn percent(part: i128, whole: Option<i128>) -> String {
    whole.filter(|whole| *whole > 0).map(|whole| format!("{}%", 100 * part / whole)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods() -> Vec<PodUse> {
        let quantity = |text: &str| billionths(text).unwrap();
        let pod = |name: &str, cpu: &str, memory: &str, limit: Option<&str>| PodUse {
            name: name.to_owned(),
            cpu: quantity(cpu),
            memory: quantity(memory),
            memory_limit: limit.map(quantity),
        };
        vec![pod("deep-edljob-chief-0", "70m", "12Mi", Some("6000Mi")), pod("deep-edljob-ps-0", "250m", "9Mi", None)]
    }

    #[test]
    fn a_job_is_shown_with_its_pace_and_what_its_pods_use() {
        let pace = json!({
            "stepsPerSecond": 31.2,
            "recordsPerSecond": 15974.4,
            "measured": { "stepsPerSecond": 31.0, "limitedBy": "workers limit the job: reading takes 95 % of their time" },
        });
        insta::assert_snapshot!(text("elasticjob/deep", &pace, &pods(), billionths("2")), @r"
        elasticjob/deep: 31 steps/s, 15974 records/s; workers limit the job: reading takes 95 % of their time
        its pods use 320m of 2000m CPU, which all pods share

        NAME                  CPU(cores)   MAY USE   CPU%   MEMORY(bytes)   MAY USE     MEMORY%
        deep-edljob-chief-0   70m          2000m     3%     12Mi            6000Mi      0%
        deep-edljob-ps-0      250m         2000m     12%    9Mi             unlimited
        ");
        let json = json(&pace, &pods(), billionths("2"));
        assert_eq!(json["pods"][0]["mayUseCPU"], "2000m");
        assert_eq!(json["pods"][1]["memoryLimit"], Value::Null);
        assert_eq!(json["measured"]["stepsPerSecond"], 31.0);
    }

    #[test]
    fn a_job_of_which_nothing_runs_says_so() {
        insta::assert_snapshot!(text("elasticjob/deep", &Value::Null, &[], None), @r"
        elasticjob/deep: no training step has been counted
        no pod of it is running
        ");
    }

    #[test]
    fn a_pod_is_limited_only_if_all_its_containers_are() {
        let container = |limit: Value| json!({ "resources": { "limits": { "memory": limit } } });
        let pod = |containers: Vec<Value>| memory_limit(&json!({ "spec": { "containers": containers } }));
        let limit = pod(vec![container("1Gi".into()), container("512Mi".into())]);
        assert_eq!(limit, billionths("1536Mi"));
        assert_eq!(pod(vec![container("1Gi".into()), json!({})]), None);
        assert_eq!(pod(vec![]), None);
    }
}
