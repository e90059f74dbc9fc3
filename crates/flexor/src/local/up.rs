//! `flexor local up`: a process in the background, and the word that it serves.

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

/// Another that is about to serve has so long to do so.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often is looked whether it does.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What became of a start.
enum Started {
    /// The cluster serves, run by this process.
    Up(u32),
    /// Somebody else has the folder.
    Taken,
    /// It does not serve, for this reason.
    Not(String),
}

pub async fn run(args: &UpArgs) -> anyhow::Result<Exit> {
    let wanted = if args.files.is_empty() { None } else { Some(manifests::read(&args.files)) };
    // Nothing is started for what is refused.
    let Some(wanted) = wanted.map_or(Some(None), |read| read.map(Some)) else { return Ok(Exit::Failure) };
    let state_dir = super::state_dir(args.cluster.state_dir.as_deref())?;
    let left = state_dir.job_names();
    let client = match Client::connect(&state_dir).await {
        Ok(client) => {
            tell_of_other(&client, args).await?;
            client
        }
        Err(ClientError::NoCluster { .. }) => match start(args).await? {
            Started::Up(pid) => {
                output::text(&format!("a laptop cluster is up in {} (process {pid})\n", shown(&state_dir)))?;
                if !left.is_empty() {
                    output::text(&format!("it goes on with {}\n", left.join(", ")))?;
                }
                Client::connect(&state_dir).await?
            }
            Started::Taken => {
                let client = await_other(&state_dir).await?;
                tell_of_other(&client, args).await?;
                client
            }
            Started::Not(why) => {
                output::note(why.trim_end());
                return Ok(Exit::Infrastructure);
            }
        },
        Err(error) => return Err(error.into()),
    };
    match wanted {
        Some(wanted) => verbs::give(&client, wanted, None).await,
        None => Ok(Exit::Success),
    }
}

/// Starts the process and waits until it serves, or has ended.
async fn start(args: &UpArgs) -> anyhow::Result<Started> {
    let flexor = std::env::current_exe().context("cannot find this program")?;
    let mut command = Command::new(flexor);
    command.args(["local", "background"]).args(args.cluster.words());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context("the cluster cannot be started")?;
    let (mut told, mut why) = (String::new(), String::new());
    if let Some(mut stdout) = child.stdout.take() {
        // Both streams are closed once it has a log of its own.
        stdout.read_to_string(&mut told).await?;
    }
    match told.as_str() {
        background::SERVES => return Ok(Started::Up(child.id().unwrap_or(0))),
        background::TAKEN => return Ok(Started::Taken),
        _ => {}
    }
    if let Some(mut stderr) = child.stderr.take() {
        stderr.read_to_string(&mut why).await?;
    }
    child.wait().await?;
    Ok(Started::Not(why))
}

/// Whoever was quicker serves soon.
async fn await_other(state_dir: &StateDir) -> anyhow::Result<Client> {
    let begun = tokio::time::Instant::now();
    loop {
        match Client::connect(state_dir).await {
            Err(ClientError::NoCluster { .. }) if begun.elapsed() < PATIENCE => tokio::time::sleep(LOOK_EVERY).await,
            other => return Ok(other?),
        }
    }
}

/// Tells of a cluster that is up already, and what of it is not as was asked for now.
async fn tell_of_other(client: &Client, args: &UpArgs) -> anyhow::Result<()> {
    let about = client.list(Resource::Cluster, None).await?.into_iter().next().unwrap_or_default();
    let status = &about["status"];
    output::text(&found(status))?;
    let ClusterArgs { state_dir: _, ephemeral, cpus, limits: _ } = &args.cluster;
    let is_other = cpus.is_some_and(|cpus| status["cpus"] != *cpus.to_string());
    if is_other || (*ephemeral && status["ephemeral"] != true) {
        output::note("warning: it goes on as it was started; `flexor local down` ends it, to be started otherwise");
    }
    let folder = std::env::current_dir().unwrap_or_default();
    if !args.files.is_empty() && status["folder"] != *folder.to_string_lossy() {
        output::note(&format!("warning: its programs run in {}, not here", cells::text(&status["folder"])));
    }
    Ok(())
}

/// That a cluster is up already, and where that does not stay.
fn found(status: &Value) -> String {
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
        assert_eq!(found(&status(true)), "a laptop cluster is up already in /h (process 7)\n");
        let told =
            "a laptop cluster is up already in /h (process 7): a `flexor run`, which ends when its jobs are over\n";
        assert_eq!(found(&status(false)), told);
    }
}
