//! `flexor run`: manifests as processes of this machine, followed to their end.

mod account;
mod chaos;
mod deleted;
mod ending;
mod history;
mod machine;
pub mod manifests;
mod progress;
mod report;
mod summary;
mod teller;
mod view;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use flexor_local::api;
use flexor_local::cluster::{ApiError, Cluster, Options};
use flexor_local::limits::LimitsMode;
use flexor_local::state_dir::StateDir;
use tracing_subscriber::fmt::writer::BoxMakeWriter;

pub use self::chaos::ChaosArg;
use self::chaos::{Chaos, FaultScript};
use self::ending::{Ending, Followed};
use self::history::{History, now};
use self::report::Report;
use self::teller::{Teller, When};
use self::view::Screen;
use crate::cli::{ClusterArgs, Limits, RunArgs};
use crate::exit::Exit;
use crate::signals::Termination;
use crate::{logging, output, pod, signals};

/// Variables of ours that belong to the shell and not to what it starts.
const NOT_INHERITED: [&str; 4] = ["FLEXOR_", "PET_", "LISTEN_", "TORCHELASTIC_"];

/// How often a report looks where nothing else happens.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How soon pods are told again that they have no more time.
const TELL_AGAIN: Duration = Duration::from_millis(50);

pub fn run(args: &RunArgs) -> anyhow::Result<Exit> {
    let screen = if args.no_view { None } else { Screen::of_this_process() };
    match screen.clone() {
        Some(screen) => logging::start_above(BoxMakeWriter::new(screen)),
        None => logging::start_for_run(),
    }
    let wanted = if args.files.is_empty() { Some(manifests::Wanted::default()) } else { manifests::read(&args.files) };
    let Some(wanted) = wanted else { return Ok(Exit::Failure) };
    if wanted.jobs.is_empty() && !args.resume {
        output::note("error: there is no job in these files; `flexor apply -f FILE` gives them to a cluster that runs");
        return Ok(Exit::Failure);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = match args.report.as_deref().map(Report::prepare).transpose() {
        Ok(report) => report,
        Err(error) => {
            output::note(&format!("error: {}", output::with_causes(&error)));
            return Ok(Exit::Failure);
        }
    };
    runtime.block_on(follow(args, wanted, screen, report))
}

async fn follow(
    args: &RunArgs,
    wanted: manifests::Wanted,
    screen: Option<Screen>,
    report: Option<Report>,
) -> anyhow::Result<Exit> {
    let mut termination = signals::terminated()?;
    let beside = args.report.as_deref().unwrap_or(Path::new("."));
    let acts = args.chaos.as_ref().map(|arg| FaultScript::prepare(arg, wanted.jobs.iter().map(|(job, _)| job), beside));
    let acts = match acts.transpose() {
        Ok(acts) => acts,
        Err(wrong) => {
            output::note(&format!("error: {wrong}"));
            return Ok(Exit::Failure);
        }
    };
    let cluster = match Cluster::open(chaos::options(options(&args.cluster)?, acts.as_ref())) {
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
    let served = api::serve(cluster.clone()).context("other terminals cannot be answered; try another --state-dir")?;
    let mut driver = {
        let cluster = cluster.clone();
        tokio::spawn(async move { cluster.run().await })
    };
    let mut history = History::begin(&cluster, now());
    let mut teller = Teller::new(screen)?;
    for line in machine::differences(&wanted.jobs, args.cluster.cpus) {
        // Where this cannot be written, nothing can, which is told below.
        let _ = output::text(&format!("note: {line}\n"));
    }
    for (object, _) in wanted.objects {
        if let Err(error) = cluster.apply_object(object) {
            return refused(args, &cluster, &error).await;
        }
    }
    for (job, manifest) in wanted.jobs {
        if let Err(error) = cluster.apply(job, manifest) {
            return refused(args, &cluster, &error).await;
        }
    }
    history.own = cluster.jobs().into_iter().map(|job| job.key).collect();
    for (plan, manifest) in wanted.plans {
        let name = plan.name.clone();
        if let Err(error) = cluster.apply_plan(plan, manifest) {
            output::note(&format!("warning: the plan {name} is left out: {error}"));
        }
    }
    let mut changes = cluster.changes();
    let chaos = acts.map(|acts| acts.begin(cluster.clone())).transpose()?;
    let ending = loop {
        history.look(&cluster, now());
        teller.tell(&cluster, &history, now(), When::Due);
        if cluster.read(|all| all.jobs.values().all(|job| job.status.phase.is_over())) {
            break Ending::Over;
        }
        tokio::select! {
            _ = changes.changed() => teller.changed(),
            () = teller.wait() => {}
            () = tokio::time::sleep(LOOK_AGAIN), if report.is_some() => {}
            ended = &mut driver => {
                ended.context("the cluster")?.context("the cluster cannot hear of its pods")?;
            }
            _ = termination.wait() => break Ending::Interrupted,
        }
    };
    let harm = chaos.as_ref().map(Chaos::told);
    drop(chaos);
    let followed = Followed { history, teller, report, harm };
    let exit = ending::tell_and_drain(ending, &cluster, followed, &mut termination).await;
    served.finish().await;
    driver.abort();
    exit
}

/// Something cannot be taken in: nothing of what was is left.
async fn refused(args: &RunArgs, cluster: &Cluster, error: &ApiError) -> anyhow::Result<Exit> {
    output::note(&format!("error: {error}"));
    if !args.resume {
        cluster.drain().await;
    }
    Ok(Exit::Failure)
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
pub async fn end_early(cluster: &Cluster, termination: &mut Termination) {
    tokio::select! {
        () = cluster.drain() => return,
        _ = termination.wait() => {}
    }
    end_at_once(cluster).await;
}

/// Kills all pods, with whatever they have started.
pub async fn end_at_once(cluster: &Cluster) {
    // Some may be told for the first time only now, and which signals were heard cannot be known.
    while tokio::time::timeout(TELL_AGAIN, cluster.drain()).await.is_err() {
        cluster.hurry();
    }
}

/// How a cluster is run that was asked for in this shell: its programs see what this shell sees.
pub fn options(args: &ClusterArgs) -> anyhow::Result<Options> {
    let flexor = std::env::current_exe().context("cannot find this program")?;
    let inherited = std::env::vars().filter(|(name, _)| !NOT_INHERITED.iter().any(|start| name.starts_with(start)));
    let base: BTreeMap<String, String> = inherited.collect();
    Ok(Options {
        state_dir: StateDir::at(state_dir(args.state_dir.as_deref())?),
        flexor,
        pod_word: pod::WORD,
        folder: std::env::current_dir().context("the folder to run in is gone")?,
        base,
        ephemeral: args.ephemeral,
        cpus: args.cpus,
        limits: match args.limits {
            Limits::Auto => LimitsMode::Best,
            Limits::Watch => LimitsMode::Watched,
        },
        chaos: false,
        background: false,
    })
}

/// Where the cluster is kept.
pub fn state_dir(given: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(folder) = given {
        return std::path::absolute(folder).context("--state-dir");
    }
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|folder| folder.is_absolute());
    let of_user = || std::env::var_os("HOME").map(|state_dir| PathBuf::from(state_dir).join(".local/state"));
    let state = state.or_else(of_user).context("there is no home folder to keep the cluster in; give --state-dir")?;
    Ok(state.join("flexor/local"))
}
