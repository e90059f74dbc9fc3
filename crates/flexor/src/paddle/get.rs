//! `paddlecloud get`: jobs and workers in the original's columns.

use clap::{Args, ValueEnum};
use flexor_dialects::edl::{ReplicaStatus, TrainingJob};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::ListParams;
use kube::{Api, ResourceExt};

use super::misused;
use crate::exit::Exit;
use crate::kubernetes::{ClusterArgs, Connection, block_on, refusal};
use crate::output;
use crate::verbs::Table;

const NOTHING: &str = "<nil>";
const JOB_COLUMNS: [&str; 8] = ["NAME", "ACTIVE", "SUCC", "FAIL", "START", "COMP", "PS_READY", "PS_TOTAL"];
const WORKER_COLUMNS: [&str; 5] = ["NAME", "STATUS", "START", "EXIT_CODE", "MSG"];

/// Arguments of `paddlecloud get`.
#[derive(Debug, Args)]
pub struct GetArgs {
    /// What to list
    #[arg(value_enum, default_value = "jobs")]
    pub what: What,
    /// Job whose workers are listed
    #[arg(value_name = "JOB")]
    pub job: Option<String>,
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// What `get` lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum What {
    /// Jobs: how many trainers run, succeeded and failed, and how many parameter servers are there
    Jobs,
    /// The trainers of a job
    Workers,
}

pub(super) fn run(args: &GetArgs) -> anyhow::Result<Exit> {
    let (columns, rows) = match (args.what, &args.job) {
        (What::Jobs, None) => {
            block_on(async { jobs(&args.cluster.connect().await?).await }).map(|rows| (JOB_COLUMNS.as_slice(), rows))?
        }
        (What::Workers, Some(job)) => block_on(async { workers(&args.cluster.connect().await?, job).await })
            .map(|rows| (WORKER_COLUMNS.as_slice(), rows))?,
        (What::Jobs, Some(_)) => return Err(misused("get jobs takes no name; write get workers JOB")),
        (What::Workers, None) => return Err(misused("name the job, as in get workers mnist1")),
    };
    let mut table = Table::new(columns.iter().map(|column| (*column).to_owned()).collect());
    // The original printed the heading of an empty table too.
    let text = if rows.is_empty() { format!("{}\n", columns.join("   ")) } else { table.rows(&rows) };
    output::text(&text)?;
    Ok(Exit::Success)
}

/// The selector of a job's trainers.
pub(super) fn trainers_of(job: &str) -> String {
    format!("paddle-job={job}")
}

/// A key that sorts `mnist1-trainer-10` behind `mnist1-trainer-9`.
pub(super) fn natural(name: &str) -> (String, u64) {
    let number = name.rsplit_once('-').and_then(|(stem, number)| Some((stem.to_owned(), number.parse().ok()?)));
    number.unwrap_or_else(|| (name.to_owned(), 0))
}

async fn jobs(cluster: &Connection) -> anyhow::Result<Vec<Vec<String>>> {
    let jobs: Api<TrainingJob> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let jobs = jobs.list(&ListParams::default()).await.map_err(refusal)?;
    Ok(jobs.iter().map(job_row).collect())
}

fn job_row(job: &TrainingJob) -> Vec<String> {
    let status = job.status.clone().unwrap_or_default();
    let count = |role: &str, state: &str| {
        let of_role = |replica: &&ReplicaStatus| replica.training_resource_type.eq_ignore_ascii_case(role);
        let replica = status.replica_statuses.iter().flatten().find(of_role);
        replica.and_then(|replica| replica.resource_states.as_ref()?.get(state).copied()).unwrap_or(0)
    };
    let trainers = |state| count("trainer", state).to_string();
    let end = status
        .conditions
        .iter()
        .flatten()
        .find(|condition| matches!(condition.type_.as_str(), "Succeeded" | "Failed") && condition.status == "True");
    vec![
        job.name_any(),
        trainers("running"),
        trainers("succeeded"),
        trainers("failed"),
        time(job.metadata.creation_timestamp.as_ref()),
        time(end.and_then(|condition| condition.last_transition_time.as_ref())),
        count("pserver", "running").to_string(),
        job.spec.pserver.as_ref().map_or(0, |pserver| pserver.min_instance).to_string(),
    ]
}

async fn workers(cluster: &Connection, job: &str) -> anyhow::Result<Vec<Vec<String>>> {
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let mut pods = pods.list(&ListParams::default().labels(&trainers_of(job))).await.map_err(refusal)?.items;
    pods.sort_by_key(|pod| natural(&pod.name_any()));
    Ok(pods.iter().map(worker_row).collect())
}

fn worker_row(pod: &Pod) -> Vec<String> {
    let status = pod.status.clone().unwrap_or_default();
    let containers = status.container_statuses.unwrap_or_default();
    let ended = containers.iter().find_map(|container| container.state.as_ref()?.terminated.as_ref());
    vec![
        pod.name_any(),
        status.phase.unwrap_or_default(),
        time(status.start_time.as_ref()),
        ended.map_or(NOTHING.to_owned(), |ended| ended.exit_code.to_string()),
        ended.and_then(|ended| ended.message.clone()).unwrap_or_default(),
    ]
}

fn time(time: Option<&Time>) -> String {
    time.map_or(NOTHING.to_owned(), |time| time.0.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_job_is_a_row_of_counts() {
        let job: TrainingJob = serde_json::from_value(json!({
            "apiVersion": "paddlepaddle.org/v1",
            "kind": "TrainingJob",
            "metadata": { "name": "mnist1", "creationTimestamp": "2026-01-02T03:04:05Z" },
            "spec": {
                "trainer": { "min-instance": 2, "max-instance": 4 },
                "pserver": { "min-instance": 2, "max-instance": 2 },
            },
            "status": {
                "replica_statuses": [
                    { "training_resource_type": "trainer", "resource_states": { "running": 3, "failed": 1 } },
                    { "training_resource_type": "pserver", "resource_states": { "running": 1, "starting": 1 } },
                ],
            },
        }))
        .unwrap();
        assert_eq!(job_row(&job), ["mnist1", "3", "0", "1", "2026-01-02T03:04:05Z", "<nil>", "1", "2"]);
    }

    #[test]
    fn a_worker_that_has_ended_shows_its_exit_code() {
        let ended = json!({ "exitCode": 1, "message": "no data" });
        let pod: Pod = serde_json::from_value(json!({
            "metadata": { "name": "mnist1-trainer-10" },
            "status": {
                "phase": "Failed",
                "containerStatuses": [{
                    "name": "trainer", "image": "m", "imageID": "", "ready": false, "restartCount": 0,
                    "state": { "terminated": ended },
                }],
            },
        }))
        .unwrap();
        assert_eq!(worker_row(&pod), ["mnist1-trainer-10", "Failed", "<nil>", "1", "no data"]);
        assert!(natural("mnist1-trainer-9") < natural("mnist1-trainer-10"));
    }
}
