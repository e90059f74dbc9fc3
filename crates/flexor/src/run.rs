//! `flexor run`: manifests as processes of this machine, followed to their end.

pub mod manifests;
mod progress;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use flexor_agent::workers::Shim;
use flexor_engine::controller::Phase;
use flexor_local::api;
use flexor_local::cluster::{Cluster, Options};
use flexor_local::home::Home;

use self::progress::Progress;
use crate::cli::RunArgs;
use crate::exit::Exit;
use crate::launch::SHIM;
use crate::signals::Termination;
use crate::{logging, output, pod, signals};

/// Variables of ours that belong to the shell and not to what it starts.
const NOT_INHERITED: [&str; 4] = ["FLEXOR_", "PET_", "LISTEN_", "TORCHELASTIC_"];

/// How soon pods are told again that they have no more time.
const TELL_AGAIN: Duration = Duration::from_millis(50);

pub fn run(args: &RunArgs) -> anyhow::Result<Exit> {
    logging::start_for_run();
    let wanted = if args.files.is_empty() { Some(manifests::Wanted::default()) } else { manifests::read(&args.files)? };
    let Some(wanted) = wanted else { return Ok(Exit::Failure) };
    if wanted.jobs.is_empty() && !args.resume {
        output::note(
            "error: there are plans in these files, but no job; `flexor apply -f FILE` changes a job that runs",
        );
        return Ok(Exit::Failure);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(follow(args, wanted))
}

async fn follow(args: &RunArgs, wanted: manifests::Wanted) -> anyhow::Result<Exit> {
    let mut termination = signals::terminated()?;
    let cluster = match Cluster::open(options(args)?) {
        Ok(cluster) => cluster,
        Err(error) => {
            output::note(&format!("error: {error}"));
            return Ok(Exit::Infrastructure);
        }
    };
    if let Some(refusal) = refusal(args, &cluster) {
        output::note(&format!("error: {refusal}"));
        return Ok(Exit::Failure);
    }
    let served = api::serve(cluster.clone()).context("other terminals cannot be answered; try another --home")?;
    let mut driver = {
        let cluster = cluster.clone();
        tokio::spawn(async move { cluster.run().await })
    };
    for (job, manifest) in wanted.jobs {
        cluster.apply(job, manifest)?;
    }
    for (plan, manifest) in wanted.plans {
        let name = plan.name.clone();
        if let Err(error) = cluster.apply_plan(plan, manifest) {
            output::note(&format!("warning: the plan {name} is left out: {error}"));
        }
    }
    let mut progress = Progress::default();
    let mut changes = cluster.changes();
    loop {
        progress.tell(&cluster)?;
        if cluster.jobs().iter().all(|job| job.status.phase.is_over()) {
            break;
        }
        tokio::select! {
            _ = changes.changed() => {}
            ended = &mut driver => {
                ended.context("the cluster")?.context("the cluster cannot hear of its pods")?;
            }
            _ = termination.wait() => {
                output::note("ends all pods; once more kills them");
                end_early(&cluster, &mut termination).await;
                served.finish().await;
                driver.abort();
                return Ok(Exit::Interrupted);
            }
        }
    }
    let succeeded = cluster.jobs().iter().all(|job| job.status.phase == Phase::Succeeded);
    progress.summary(&cluster)?;
    cluster.drain().await;
    served.finish().await;
    driver.abort();
    Ok(if succeeded { Exit::Success } else { Exit::Failure })
}

/// Why the jobs that were here before are in the way, or are missing.
fn refusal(args: &RunArgs, cluster: &Cluster) -> Option<String> {
    let names: Vec<String> = cluster.jobs().iter().map(|job| job.key.name.to_string()).collect();
    match (args.resume, names.is_empty()) {
        (false, false) => Some(format!(
            "a run that was killed has left its jobs here: {}; `flexor run --resume` goes on with them, and Ctrl-C there \
             ends them",
            names.join(", ")
        )),
        (true, true) if args.files.is_empty() => {
            Some("there is nothing to go on with; `flexor run FILE` starts a job".to_owned())
        }
        (true, _) | (false, true) => None,
    }
}

/// Ends all pods: in their own time, and at once when that is wanted again.
async fn end_early(cluster: &Cluster, termination: &mut Termination) {
    tokio::select! {
        () = cluster.drain() => return,
        _ = termination.wait() => {}
    }
    // Some may be told for the first time only now, and which signals were heard cannot be known.
    while tokio::time::timeout(TELL_AGAIN, cluster.drain()).await.is_err() {
        cluster.hurry();
    }
}

fn options(args: &RunArgs) -> anyhow::Result<Options> {
    let flexor = std::env::current_exe().context("cannot find this program")?;
    let inherited = std::env::vars().filter(|(name, _)| !NOT_INHERITED.iter().any(|start| name.starts_with(start)));
    let base: BTreeMap<String, String> = inherited.collect();
    Ok(Options {
        home: Home::at(home(args.home.as_deref())?),
        shim: Shim::new(&flexor, [SHIM]),
        flexor,
        pod_word: pod::WORD,
        folder: std::env::current_dir().context("the folder to run in is gone")?,
        base,
        ephemeral: args.ephemeral,
    })
}

/// Where the cluster is kept.
pub fn home(given: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(folder) = given {
        return std::path::absolute(folder).context("--home");
    }
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|folder| folder.is_absolute());
    let of_user = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state"));
    let state = state.or_else(of_user).context("there is no home folder to keep the cluster in; give --home")?;
    Ok(state.join("flexor/local"))
}
