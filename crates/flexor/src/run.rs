//! `flexor run`: runs the jobs of manifests on this machine and follows them to their end.
//!
//! It opens a laptop cluster in this process, applies the manifests, and shows events ([`display`]) until all jobs are
//! over. Then it prints the summary, writes the report, and ends all pods ([`end`]). The cluster itself is `flexor-local`.

mod account;
mod chaos;
mod deleted;
mod display;
mod end;
mod expectations;
mod history;
mod machine;
pub mod manifests;
mod progress;
mod report;
mod summary;
mod view;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use flexor_local::api;
use flexor_local::cluster::{ApiError, Cluster, Options};
use flexor_local::limits::LimitsMode;
use flexor_local::state_dir::StateDir;
use flexor_master::journal::{Journal, JournalError};
use tracing_subscriber::fmt::writer::BoxMakeWriter;

pub use self::chaos::ChaosArg;
use self::chaos::{Chaos, FaultScript};
use self::display::{Display, Refresh};
use self::end::{EndReason, FollowedRun};
use self::history::{History, now};
use self::report::Report;
use self::view::Screen;
use crate::cli::{ClusterArgs, Limits, RunArgs};
use crate::exit::Exit;
use crate::signals::Termination;
use crate::{logging, output, pod, signals};

/// Prefixes of variables that programs do not inherit from the shell.
const NOT_INHERITED: [&str; 4] = ["FLEXOR_", "PET_", "LISTEN_", "TORCHELASTIC_"];

/// Time between two samples for the report while nothing changes.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);
/// Time between two kill signals to the pods.
const KILL_INTERVAL: Duration = Duration::from_millis(50);

pub fn run(args: &RunArgs) -> anyhow::Result<Exit> {
    let screen = if args.no_view { None } else { Screen::of_this_process() };
    match screen.clone() {
        Some(screen) => logging::start_above(BoxMakeWriter::new(screen)),
        None => logging::start_for_run(),
    }
    let files: Vec<PathBuf> = args.files.iter().chain(&args.named_files).cloned().collect();
    if let Some(script) = files.iter().find(|file| file.extension().is_some_and(|extension| extension == "py")) {
        let script = script.display();
        output::note(&format!(
            "error: {script} is a Python script, not a manifest; `flexor launch --standalone {script}` runs it"
        ));
        return Ok(Exit::Usage);
    }
    let manifests = if files.is_empty() { Some(manifests::Manifests::default()) } else { manifests::read(&files) };
    let Some(manifests) = manifests else { return Ok(Exit::Failure) };
    if manifests.jobs.is_empty() && !args.resume {
        output::note("error: there is no job in these files; `flexor apply -f FILE` applies them to a running cluster");
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
    runtime.block_on(follow(args, manifests, screen, report))
}

async fn follow(
    args: &RunArgs,
    manifests: manifests::Manifests,
    screen: Option<Screen>,
    report: Option<Report>,
) -> anyhow::Result<Exit> {
    let mut termination = signals::terminated_or_hung_up()?;
    let folder = args.report.as_deref().unwrap_or(Path::new("."));
    let jobs = || manifests.jobs.iter().map(|(job, _)| job);
    let faults = match args.chaos.as_ref().map(|arg| FaultScript::prepare(arg, jobs(), folder)).transpose() {
        Ok(faults) => faults,
        Err(error) => {
            output::note(&format!("error: {error}"));
            return Ok(Exit::Failure);
        }
    };
    let cluster = match Cluster::open(chaos::options(options(&args.cluster)?, faults.as_ref())) {
        Ok(cluster) => cluster,
        Err(error) => {
            output::note(&format!("error: {error}"));
            return Ok(Exit::Infrastructure);
        }
    };
    if let Some(refusal) = refusal(args, &cluster).or_else(|| lost_facts(args, &cluster)) {
        output::note(&format!("error: {refusal}"));
        return Ok(Exit::Failure);
    }
    let served = api::serve(cluster.clone()).context("cannot serve the API socket; try another --state-dir")?;
    let mut driver = {
        let cluster = cluster.clone();
        tokio::spawn(async move { cluster.run().await })
    };
    let mut history = History::begin(&cluster, now());
    let mut display = Display::new(screen)?;
    for line in machine::differences(&manifests.jobs, args.cluster.cpus) {
        // The display reports write errors below.
        let _ = output::text(&format!("note: {line}\n"));
    }
    for (object, _) in manifests.objects {
        if let Err(error) = cluster.apply_object(object) {
            return refused(args, &cluster, &error).await;
        }
    }
    for (job, manifest) in manifests.jobs {
        if let Err(error) = cluster.apply(job, manifest) {
            return refused(args, &cluster, &error).await;
        }
    }
    history.own = cluster.jobs().into_iter().map(|job| job.key).collect();
    for (plan, manifest) in manifests.plans {
        let name = plan.name.clone();
        if let Err(error) = cluster.apply_plan(plan, manifest) {
            output::note(&format!("warning: the plan {name} is not applied: {error}"));
        }
    }
    let mut changes = cluster.changes();
    let chaos = faults.map(|faults| faults.start(cluster.clone())).transpose()?;
    let reason = loop {
        history.update(&cluster, now());
        display.update(&cluster, &history, now(), Refresh::IfDue);
        if cluster.read(|all| all.jobs.values().all(|job| job.status.phase.is_over())) {
            break EndReason::JobsOver;
        }
        tokio::select! {
            _ = changes.changed() => display.notify(),
            () = display.wait() => {}
            () = tokio::time::sleep(SAMPLE_INTERVAL), if report.is_some() => {}
            ended = &mut driver => {
                ended.context("the cluster")?.context("the cluster cannot watch its pods")?;
            }
            _ = termination.wait() => break EndReason::Interrupted,
        }
    };
    let faults = chaos.as_ref().map(Chaos::summary);
    drop(chaos);
    let followed = FollowedRun { history, display, report, faults };
    let exit = end::summarize_and_drain(reason, &cluster, followed, &mut termination).await;
    served.finish().await;
    driver.abort();
    exit
}

/// Reports a refused object, and removes the objects that were applied before it.
async fn refused(args: &RunArgs, cluster: &Cluster, error: &ApiError) -> anyhow::Result<Exit> {
    output::note(&format!("error: {error}"));
    if !args.resume {
        cluster.drain().await;
    }
    Ok(Exit::Failure)
}

/// Why the run cannot start: jobs of an earlier run exist without `--resume`, or `--resume` finds none.
fn refusal(args: &RunArgs, cluster: &Cluster) -> Option<String> {
    if let Some(file) = cluster.unreadable_jobs().first().filter(|_| !args.resume) {
        return Some(format!(
            "{} cannot be read: it is a job of an earlier run, and its pods may run; restore the file, or end them with \
             `flexor local down`, which keeps it as .damaged",
            file.display()
        ));
    }
    let names: Vec<String> = cluster.jobs().iter().map(|job| job.key.name.to_string()).collect();
    match (args.resume, names.is_empty()) {
        (false, false) => Some(format!(
            "a run that was killed has left its jobs here: {}; `flexor run --resume` resumes them, and Ctrl-C there \
             ends them",
            names.join(", ")
        )),
        (true, true) if args.files.is_empty() && args.named_files.is_empty() => {
            Some("there is no job to resume; `flexor run FILE` starts a job".to_owned())
        }
        (true, _) | (false, true) => None,
    }
}

/// A journal of a job to resume that has lost facts. Its master would refuse to start, and in the end the job would fail.
fn lost_facts(args: &RunArgs, cluster: &Cluster) -> Option<String> {
    if args.cluster.accept_journal_loss {
        return None;
    }
    let errors = cluster.journals().into_iter().filter_map(|(uid, folder)| Journal::check(&folder, &uid).err());
    errors.filter(JournalError::is_loss).map(|error| error.to_string()).next()
}

/// Ends all pods within their grace period, or at once after another signal.
pub async fn end_early(cluster: &Cluster, termination: &mut Termination) {
    tokio::select! {
        () = cluster.drain() => return,
        _ = termination.wait() => {}
    }
    end_at_once(cluster).await;
}

/// Kills all pods, with all processes that they have started.
pub async fn end_at_once(cluster: &Cluster) {
    // Signals may merge, so they are repeated until all pods have ended.
    while tokio::time::timeout(KILL_INTERVAL, cluster.drain()).await.is_err() {
        cluster.hurry();
    }
}

/// Options of a cluster that is started from this shell. Programs inherit the shell's environment and folder.
pub fn options(args: &ClusterArgs) -> anyhow::Result<Options> {
    let flexor = std::env::current_exe().context("cannot find this program")?;
    let inherited = std::env::vars().filter(|(name, _)| !NOT_INHERITED.iter().any(|start| name.starts_with(start)));
    let mut base: BTreeMap<String, String> = inherited.collect();
    if args.accept_journal_loss {
        base.insert(flexor_model::env::ACCEPT_JOURNAL_LOSS.name.to_owned(), true.to_string());
    }
    Ok(Options {
        state_dir: StateDir::at(state_dir(args.state_dir.as_deref())?),
        flexor,
        pod_word: pod::WORD,
        folder: std::env::current_dir().context("the current folder does not exist")?,
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

/// The given state directory, or the default one of the user.
pub fn state_dir(given: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(folder) = given {
        return std::path::absolute(folder).context("--state-dir");
    }
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|folder| folder.is_absolute());
    let of_user = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state"));
    let state =
        state.or_else(of_user).context("HOME is not set, so there is no default state directory; give --state-dir")?;
    Ok(state.join("flexor/local"))
}
