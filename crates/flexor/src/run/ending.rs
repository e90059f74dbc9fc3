//! The end of a run: the last picture or lines, the summary and the report, and then nothing is left.
//!
//! Everything is taken down before the cluster is drained, because jobs, pods and logs are gone afterwards.

use std::time::Duration;

use flexor_engine::controller::Phase;
use flexor_local::cluster::{Cluster, JobRecord, JobView};

use super::account::{self, Account, Outcome};
use super::history::{History, now};
use super::report::{Report, Run, logs};
use super::teller::{Teller, When};
use super::{deleted, end_early, summary};
use crate::exit::Exit;
use crate::output;
use crate::signals::Termination;

/// What whoever interrupts it is told.
const ENDING: &str = "interrupted: all pods are told to end, and have their grace to do so; Ctrl-C again kills them";
/// How long the last word of a master about the data is waited for.
const LAST_WORD: Duration = Duration::from_secs(1);

/// Why a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// All jobs are over.
    Over,
    /// Somebody does not want to wait for that.
    Interrupted,
}

/// What was followed, and for whom.
pub struct Followed {
    /// What has happened.
    pub history: History,
    /// Who was told.
    pub teller: Teller,
    /// Where a report is wanted.
    pub report: Option<Report>,
    /// How many acts of chaos were done, where there were to be some.
    pub harm: Option<String>,
}

/// Tells how it went, and ends all that is left. How the process is to end.
pub async fn tell_and_drain(
    ending: Ending,
    cluster: &Cluster,
    followed: Followed,
    termination: &mut Termination,
) -> anyhow::Result<Exit> {
    let Followed { mut history, mut teller, report, harm } = followed;
    if ending == Ending::Over {
        await_last_word(cluster).await;
    }
    let over_at = now();
    history.look(cluster, over_at);
    teller.tell(cluster, &history, over_at, When::Last);
    if ending == Ending::Interrupted {
        output::note(ENDING);
    }
    let account = |job: &JobView| account::of(job, history.events(), history.samples(&job.key), over_at);
    let accounts: Vec<Account> = cluster.jobs().iter().map(account).collect();
    let deleted = deleted::unfinished(&history.own, history.events(), cluster);
    for key in &deleted {
        output::note(&format!("{key} was deleted before it was over"));
    }
    let reported = report.as_ref().map(|report| report.write(cluster, &Run::of(cluster, &accounts, &history, over_at)));
    let logs = match &report {
        Some(report) => Some(report.logs()),
        None if accounts.iter().any(|account| account.outcome == Outcome::Failed) => logs::keep_last(cluster),
        None => None,
    };
    let summary = summary::text(&accounts, logs.as_deref(), harm.as_deref(), output::columns());
    // Whoever interrupts it wants to see last what is still to end; whoever waits for it, how it went.
    let told = match ending {
        Ending::Over => {
            let told = output::text(&summary);
            end_early(cluster, termination).await;
            told
        }
        Ending::Interrupted => {
            end_early(cluster, termination).await;
            output::text(&summary)
        }
    };
    // What could not be written is told when nothing is left any more.
    told.and(reported.transpose())?;
    let succeeded = deleted.is_empty() && accounts.iter().all(|account| account.outcome == Outcome::Succeeded);
    Ok(match ending {
        Ending::Interrupted => Exit::Interrupted,
        Ending::Over if succeeded => Exit::Success,
        Ending::Over => Exit::Failure,
    })
}

/// What the masters have counted last arrives a moment after their jobs are over.
async fn await_last_word(cluster: &Cluster) {
    let mut changes = cluster.changes();
    let is_missing = |job: &JobRecord| {
        let records = job.training.as_ref().and_then(|training| training.records);
        job.status.phase == Phase::Succeeded && records.is_some_and(|records| !records.finished)
    };
    let arrived =
        async { while cluster.read(|all| all.jobs.values().any(is_missing)) && changes.changed().await.is_ok() {} };
    // A master that was killed at the end says nothing more.
    let _ = tokio::time::timeout(LAST_WORD, arrived).await;
}
