//! `flexor local up`: starts the background process, waits until it serves, and applies manifests.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context;
use flexor_local::api::{Client, ClientError, Resource};
use flexor_local::state_dir::StateDir;
use serde_json::Value;
use tokio::io::AsyncReadExt;
use tokio::process::Command;

use super::{UpArgs, background};
use crate::cli::ClusterArgs;
use crate::exit::Exit;
use crate::run::manifests;
use crate::verbs::cells;
use crate::{output, verbs};

/// How long to wait for another process that is about to serve the same state directory.
const SERVE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time between two attempts to connect to it.
const CONNECT_INTERVAL: Duration = Duration::from_millis(20);

enum StartOutcome {
    /// The process with this ID serves.
    Up(u32),
    /// Another process holds the state directory.
    Taken,
    /// The process has ended with this error output.
    Failed(String),
}

pub async fn run(args: &UpArgs) -> anyhow::Result<Exit> {
    let read = if args.files.is_empty() { None } else { Some(manifests::read(&args.files)) };
    // Refused manifests start no cluster.
    let Some(manifests) = read.map_or(Some(None), |read| read.map(Some)) else { return Ok(Exit::Failure) };
    let state_dir = super::state_dir(args.cluster.state_dir.as_deref())?;
    let leftover = state_dir.job_names();
    let client = match Client::connect(&state_dir).await {
        Ok(client) => {
            describe_running(&client, args).await?;
            client
        }
        Err(ClientError::NoCluster { .. }) => match start(args).await? {
            StartOutcome::Up(pid) => {
                output::text(&format!("a laptop cluster is up in {} (process {pid})\n", shown(&state_dir)))?;
                if !leftover.is_empty() {
                    output::text(&format!("it resumes {}\n", leftover.join(", ")))?;
                }
                Client::connect(&state_dir).await?
            }
            StartOutcome::Taken => {
                let client = await_other(&state_dir).await?;
                describe_running(&client, args).await?;
                client
            }
            StartOutcome::Failed(errors) => {
                output::note(errors.trim_end());
                return Ok(Exit::Infrastructure);
            }
        },
        Err(error) => return Err(error.into()),
    };
    match manifests {
        Some(manifests) => verbs::apply_manifests(&client, manifests, None).await,
        None => Ok(Exit::Success),
    }
}

/// Starts the process and waits until it serves, or has ended.
async fn start(args: &UpArgs) -> anyhow::Result<StartOutcome> {
    let flexor = std::env::current_exe().context("cannot find this program")?;
    let mut command = Command::new(flexor);
    command.args(["local", "background"]).args(args.cluster.to_options());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context("the cluster cannot be started")?;
    let (mut printed, mut errors) = (String::new(), String::new());
    if let Some(mut stdout) = child.stdout.take() {
        // The process closes both streams when it redirects them to its log.
        stdout.read_to_string(&mut printed).await?;
    }
    match printed.as_str() {
        background::SERVES => return Ok(StartOutcome::Up(child.id().unwrap_or(0))),
        background::TAKEN => return Ok(StartOutcome::Taken),
        _ => {}
    }
    if let Some(mut stderr) = child.stderr.take() {
        stderr.read_to_string(&mut errors).await?;
    }
    child.wait().await?;
    Ok(StartOutcome::Failed(errors))
}

/// Connects to another process that was quicker to lock the state directory.
async fn await_other(state_dir: &StateDir) -> anyhow::Result<Client> {
    let began = tokio::time::Instant::now();
    loop {
        match Client::connect(state_dir).await {
            Err(ClientError::NoCluster { .. }) if began.elapsed() < SERVE_TIMEOUT => {
                tokio::time::sleep(CONNECT_INTERVAL).await;
            }
            other => return Ok(other?),
        }
    }
}

/// Prints which cluster is up already, and warns where it differs from the requested options.
async fn describe_running(client: &Client, args: &UpArgs) -> anyhow::Result<()> {
    let about = client.list(Resource::Cluster, None).await?.into_iter().next().unwrap_or_default();
    let status = &about["status"];
    output::text(&already_up(status))?;
    let ClusterArgs { ephemeral, cpus, accept_journal_loss, .. } = &args.cluster;
    let differs = cpus.is_some_and(|cpus| status["cpus"] != *cpus.to_string());
    if differs || *accept_journal_loss || (*ephemeral && status["ephemeral"] != true) {
        output::note(
            "warning: it keeps the options of its start; `flexor local down` ends it, to start it with other options",
        );
    }
    let folder = std::env::current_dir().unwrap_or_default();
    if !args.files.is_empty() && status["folder"] != *folder.to_string_lossy() {
        output::note(&format!("warning: its programs run in {}, not here", cells::text(&status["folder"])));
    }
    Ok(())
}

fn already_up(status: &Value) -> String {
    let (state_dir, process) = (cells::text(&status["stateDir"]), &status["process"]);
    let until = if status["background"] == true { "" } else { ": a `flexor run`, which ends when its jobs are over" };
    format!("a laptop cluster is up already in {state_dir} (process {process}){until}\n")
}

fn shown(state_dir: &StateDir) -> std::path::Display<'_> {
    Path::display(state_dir.path())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_cluster_that_ends_with_its_jobs_says_so() {
        let status = |background: bool| json!({ "stateDir": "/h", "process": 7, "background": background });
        assert_eq!(already_up(&status(true)), "a laptop cluster is up already in /h (process 7)\n");
        let foreground =
            "a laptop cluster is up already in /h (process 7): a `flexor run`, which ends when its jobs are over\n";
        assert_eq!(already_up(&status(false)), foreground);
    }
}
