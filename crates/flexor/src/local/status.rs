//! `flexor local status`: shows whether a cluster is up, and its state.

use std::time::Duration;

use flexor_local::api::{Client, ClientError, ClusterProcess, Resource};
use flexor_local::state_dir::StateDir;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::StatusArgs;
use crate::exit::Exit;
use crate::output::{self, Format};
use crate::verbs::{Text, cells, since};

/// A cluster that does not answer within this time is reported as hung.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);

pub async fn run(args: &StatusArgs) -> anyhow::Result<Exit> {
    let state_dir = super::state_dir(args.state_dir.state_dir.as_deref())?;
    let fetched = tokio::time::timeout(ANSWER_TIMEOUT, fetch(&state_dir)).await;
    match fetched {
        Ok(Ok(Some(status))) => {
            match args.output {
                Format::Text => output::text(&text(&status))?,
                Format::Json => output::json(&status["status"])?,
            }
            Ok(Exit::Success)
        }
        Ok(Ok(None)) => {
            let leftover = state_dir.job_names();
            match args.output {
                Format::Text => output::text(&down(&state_dir, &leftover))?,
                Format::Json => {
                    output::json(&json!({ "up": false, "stateDir": state_dir.path(), "leftoverJobs": leftover }))?;
                }
            }
            Ok(Exit::Infrastructure)
        }
        Ok(Err(error)) => Err(error.into()),
        Err(_) => {
            let pid = ClusterProcess::of(&state_dir).await.ok().flatten().map(|holder| holder.pid());
            match args.output {
                Format::Text => output::text(&format!(
                    "the laptop cluster in {} does not answer (process {}); `flexor local down --now` ends it\n",
                    state_dir.path().display(),
                    pid.map_or_else(|| "unknown".to_owned(), |pid| pid.to_string())
                ))?,
                Format::Json => {
                    let status = json!({ "up": true, "answers": false, "stateDir": state_dir.path(), "process": pid });
                    output::json(&status)?;
                }
            }
            Ok(Exit::Infrastructure)
        }
    }
}

/// The object of the cluster, or `None` if none is up.
async fn fetch(state_dir: &StateDir) -> Result<Option<Value>, ClientError> {
    let client = match Client::connect(state_dir).await {
        Err(ClientError::NoCluster { .. }) => return Ok(None),
        other => other?,
    };
    match client.list(Resource::Cluster, None).await {
        Err(ClientError::NoCluster { .. }) => Ok(None),
        listed => Ok(listed?.into_iter().next()),
    }
}

fn text(cluster: &Value) -> String {
    let status = &cluster["status"];
    let began = &cluster["metadata"]["creationTimestamp"];
    let mode = if status["background"] == true { "in the background" } else { "`flexor run`, until its jobs are over" };
    let mut text = Text::default();
    text.pairs(&[
        ("Laptop Cluster", "up".to_owned()),
        ("Since", format!("{} ({} ago)", cells::text(began), since(began, Timestamp::now()))),
        ("Process", format!("{}, {mode}", status["process"])),
        ("Version", cells::text(&status["version"])),
        ("State Directory", cells::text(&status["stateDir"])),
        ("Working Directory", cells::text(&status["folder"])),
        ("Log", if status["log"].is_null() { "<none>".to_owned() } else { cells::text(&status["log"]) }),
        ("CPUs", cpus(status)),
        ("Memory Limits", cells::text(&status["memoryLimits"])),
        ("Jobs", counts(&status["jobs"])),
        ("Pods", counts(&status["pods"])),
    ]);
    text.finish()
}

fn cpus(status: &Value) -> String {
    let machine = &status["machineCPUs"];
    match status["cpus"].as_str() {
        Some(given) => format!("{given} to schedule pods on; this machine has {machine}"),
        None => format!("{machine} in this machine, without a limit for pods"),
    }
}

fn counts(counts: &Value) -> String {
    let counts = counts.as_object().into_iter().flatten();
    let parts: Vec<String> = counts.map(|(phase, count)| format!("{count} {phase}")).collect();
    if parts.is_empty() { "<none>".to_owned() } else { parts.join(", ") }
}

fn down(state_dir: &StateDir, leftover: &[String]) -> String {
    let shown = state_dir.path().display();
    if leftover.is_empty() {
        return format!("no laptop cluster is up in {shown}; `flexor local up` starts one\n");
    }
    format!(
        "no laptop cluster is up in {shown}, but a killed one has left {}; `flexor local up` resumes them, \
         `flexor local down` ends them\n",
        leftover.join(", ")
    )
}
