//! The end of a run: the last output, the summary, the report, and the end of all pods.
//!
//! Figures and logs are collected before the cluster is drained, because draining removes jobs, pods and logs.

use std::time::Duration;

use flexor_engine::controller::Phase;
use flexor_local::cluster::{Cluster, JobRecord, JobView};

use super::account::{self, JobAccount, JobOutcome};
use super::display::{Display, Refresh};
use super::history::{History, now};
use super::report::{Report, RunRecord, logs};
use super::{deleted, end_early, summary};
use crate::exit::Exit;
use crate::output;
use crate::signals::Termination;

const INTERRUPTED: &str = "interrupted: all pods end within their grace period; Ctrl-C again kills them";
/// How long to wait for the final record counts of the masters.
const FINAL_COUNTS_TIMEOUT: Duration = Duration::from_secs(1);

/// Why a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    JobsOver,
    Interrupted,
}

/// The data and outputs of a run that is about to end.
pub struct FollowedRun {
    pub history: History,
    pub display: Display,
    pub report: Option<Report>,
    /// The summary of `--chaos`.
    pub faults: Option<String>,
}

/// Prints the summary, writes the report, and ends all pods.
pub async fn summarize_and_drain(
    reason: EndReason,
    cluster: &Cluster,
    followed: FollowedRun,
    termination: &mut Termination,
) -> anyhow::Result<Exit> {
    let FollowedRun { mut history, mut display, report, faults } = followed;
    if reason == EndReason::JobsOver {
        await_final_counts(cluster).await;
    }
    let over_at = now();
    history.update(cluster, over_at);
    display.update(cluster, &history, over_at, Refresh::Final);
    if reason == EndReason::Interrupted {
        output::note(INTERRUPTED);
    }
    let account = |job: &JobView| account::of(job, history.events(), history.samples(&job.key), over_at);
    let accounts: Vec<JobAccount> = cluster.jobs().iter().map(account).collect();
    let deleted = deleted::unfinished(&history.own, history.events(), cluster);
    for key in &deleted {
        output::note(&format!("{key} was deleted before it was over"));
    }
    let reported =
        report.as_ref().map(|report| report.write(cluster, &RunRecord::of(cluster, &accounts, &history, over_at)));
    let logs = match &report {
        Some(report) => Some(report.logs()),
        None if accounts.iter().any(|account| account.outcome == JobOutcome::Failed) => {
            logs::copy_of_failed_run(cluster)
        }
        None => None,
    };
    let summary = summary::text(&accounts, logs.as_deref(), faults.as_deref(), output::columns());
    // An interrupted run shows its pods end before the summary. Otherwise the summary does not wait for them.
    let printed = match reason {
        EndReason::JobsOver => {
            let printed = output::text(&summary);
            end_early(cluster, termination).await;
            printed
        }
        EndReason::Interrupted => {
            end_early(cluster, termination).await;
            output::text(&summary)
        }
    };
    // Write errors are reported after all pods have ended.
    printed.and(reported.transpose())?;
    let succeeded = deleted.is_empty() && accounts.iter().all(|account| account.outcome == JobOutcome::Succeeded);
    Ok(match reason {
        EndReason::Interrupted => Exit::Interrupted,
        EndReason::JobsOver if succeeded => Exit::Success,
        EndReason::JobsOver => Exit::Failure,
    })
}

/// Waits for the final record counts, which masters send a moment after their jobs are over.
async fn await_final_counts(cluster: &Cluster) {
    let mut changes = cluster.changes();
    let is_missing = |job: &JobRecord| {
        let records = job.training.as_ref().and_then(|training| training.records);
        job.status.phase == Phase::Succeeded && records.is_some_and(|records| !records.finished)
    };
    let arrived =
        async { while cluster.read(|all| all.jobs.values().any(is_missing)) && changes.changed().await.is_ok() {} };
    // A master that was killed at the end sends none.
    let _ = tokio::time::timeout(FINAL_COUNTS_TIMEOUT, arrived).await;
}
