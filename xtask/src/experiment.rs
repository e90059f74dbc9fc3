//! `cargo xtask experiment`: EDL's published experiment on a real control plane with fake nodes.
//!
//! API server, scheduler, controller manager and operator are the real programs; kwok plays the nodes. [`stage`] sets the
//! cluster up, [`run`](live::run) follows the script second by second, [`pods`] watches what becomes of it, and
//! [`account`] keeps it as a [`Report`] of the simulator. So the same figures are compared with the model's runs, and
//! printed and drawn by the code of `flexor sim`.

mod account;
mod comparison;
mod live;
mod manifests;
mod pods;
mod requests;
mod stage;
mod written;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use flexor_sched::sim::{self, Experiment, Policy, Report};
use tokio::runtime::Builder;

use self::stage::Stage;
use crate::compile;
use crate::tree::project_root;

/// Arguments of `cargo xtask experiment`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  cargo xtask experiment case1 --report target/experiment/case1
  cargo xtask experiment case2 --grace 30
  cargo xtask experiment case1 --work 9000   jobs end after 9000 trainer-seconds

A run takes 11 minutes (case1) or 13 (case2) of real time, after flexor is built as release. It
starts 133 fake nodes with 2348 cores, submits the jobs in the seconds of the published run, and
looks at the cluster once a second. Jobs do not end within the published time unless --work says
so; at its end the trainers of all jobs complete, and all jobs must succeed. Beside the run stand the
runs of `flexor sim` with the same parameters. Ctrl-C ends the cluster and everything in it.")]
pub(crate) struct ExperimentArgs {
    /// Experiment to repeat
    #[arg(value_enum)]
    case: Case,
    /// Seconds that a pod takes to end
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=30))]
    grace: u32,
    /// Trainer-seconds after which a job has succeeded
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    work: Option<u64>,
    /// Write a report into a folder: tables, the samples of every second, and a picture
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
}

/// The experiments that were published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Case {
    /// Twenty jobs of 2 to 60 trainers, one every 12 seconds
    Case1,
    /// Six jobs beside Nginx, which goes from 400 pods to 100 and back
    Case2,
}

impl Case {
    /// The case of `flexor sim`.
    fn of_sim(self) -> flexor::sim::Case {
        match self {
            Self::Case1 => flexor::sim::Case::Case1,
            Self::Case2 => flexor::sim::Case::Case2,
        }
    }
}

/// A run and its name in tables and pictures.
struct NamedRun {
    name: String,
    report: Report,
}

pub(crate) fn run(args: &ExperimentArgs) -> Result<()> {
    let root = project_root()?;
    let flexor = compile::flexor(&root, "release")?;
    let experiment = |policy: Policy| {
        let mut experiment = args.case.of_sim().experiment(policy, args.grace);
        experiment.jobs.iter_mut().for_each(|job| job.work = args.work);
        experiment
    };
    let model = [Policy::Planned, Policy::Edl, Policy::EdlWithPriority]
        .map(|policy| NamedRun { name: format!("{policy}, model"), report: sim::run(&experiment(policy)) });
    let script = experiment(Policy::Planned);
    let runtime = Builder::new_multi_thread().enable_all().build().context("cannot start tokio")?;
    let real = runtime.block_on(async {
        tokio::select! {
            real = perform(&script, &root, &flexor) => real,
            pressed = tokio::signal::ctrl_c() => {
                pressed.context("cannot wait for Ctrl-C")?;
                bail!("interrupted; the cluster is ended")
            }
        }
    })?;
    let real = NamedRun { name: format!("{}, real control plane", Policy::Planned), report: real };
    let runs: Vec<NamedRun> = [real].into_iter().chain(model).collect();
    print!("{}", written::text(args.case, &runs)?);
    if let Some(folder) = &args.report {
        written::write(folder, args.case, &runs)
            .with_context(|| format!("cannot write the report into {}", folder.display()))?;
        println!("wrote {}", folder.join("report.md").display());
    }
    Ok(())
}

/// Sets the cluster up, runs the script in it, and ends it.
async fn perform(script: &Experiment, root: &Path, flexor: &Path) -> Result<Report> {
    let mut stage = Stage::set(script, root, flexor).await?;
    let report = live::run(script, &mut stage).await;
    report.with_context(|| format!("the operator's log ends with\n{}", stage.operator_log_end()))
}
