//! The summary at the end of `flexor run`: for each job its time by activity, replaced pods, record counts, parameter
//! servers, and its outcome in one line.

mod servers;
mod wrap;

use std::path::Path;

use super::account::{JobAccount, JobOutcome, RecordCounts, TimeByActivity};
use crate::output::on_one_line;

/// Width of the names of rows.
const NAMES: usize = 16;

/// The summary. `logs` is the folder of the logs, `faults` the summary of `--chaos`, and `columns` the width of the
/// terminal.
pub fn text(accounts: &[JobAccount], logs: Option<&Path>, faults: Option<&str>, columns: Option<usize>) -> String {
    let widest = wrap::width_of(columns);
    let mut text = String::new();
    for account in accounts {
        text.push_str(&format!("\n{}\n", account.key));
        for (name, value) in rows(account, logs) {
            text.push_str(&wrap::row(name, NAMES, &value, widest));
        }
    }
    if let Some(faults) = faults {
        text.push_str(&format!("\nchaos\n{}", wrap::row("faults", NAMES, faults, widest)));
    }
    if !accounts.is_empty() {
        text.push('\n');
    }
    for account in accounts {
        // Without a terminal the outcome is one line, for programs that read it.
        text.push_str(&match columns {
            Some(columns) => wrap::sentence(&outcome_line(account), columns),
            None => outcome_line(account) + "\n",
        });
    }
    text
}

fn outcome_line(account: &JobAccount) -> String {
    let JobAccount { key, outcome, cause, relaunches, .. } = account;
    let cause = cause.as_ref().map(|cause| on_one_line(&format!(": {cause}"))).unwrap_or_default();
    format!("{key}: {outcome:?}{cause}; pods started again: {relaunches}")
}

fn rows(account: &JobAccount, logs: Option<&Path>) -> Vec<(&'static str, String)> {
    let mut rows = vec![("time", time(account.seconds, account.time))];
    if !account.started_again.is_empty() {
        let each = account.started_again.iter().map(|again| format!("{} {}", again.count, again.words));
        rows.push(("started again", each.collect::<Vec<_>>().join(", ")));
    }
    if let Some(records) = account.records {
        rows.push(("records", record_counts(records, account.outcome)));
    }
    rows.extend(servers::rows(account));
    let logs = match logs {
        Some(folder) => format!("in {}", folder.display()),
        None => "removed with the pods; --report DIR keeps them".to_owned(),
    };
    rows.push(("logs", logs));
    rows
}

fn time(seconds: f64, time: TimeByActivity) -> String {
    let TimeByActivity { training, waiting, recovering } = time;
    format!("{seconds:.1}s: training {training:.1}s, waiting {waiting:.1}s, recovering {recovering:.1}s")
}

fn record_counts(records: RecordCounts, outcome: JobOutcome) -> String {
    let RecordCounts { expected, accounted, skipped, recomputed, reopened, quarantined, lost, left } = records;
    let mut parts = vec![format!("{expected} expected"), format!("{accounted} accounted for")];
    if skipped > 0 {
        parts.push(format!("{skipped} of them skipped"));
    }
    parts.push(match recomputed {
        0 => "0 recomputed".to_owned(),
        some => format!("at most {some} recomputed"),
    });
    if reopened > 0 {
        parts.push(format!("at most {reopened} of them because the journal was damaged"));
    }
    if quarantined > 0 {
        parts.push(format!("{quarantined} quarantined"));
    }
    parts.push(match outcome {
        JobOutcome::Succeeded => format!("{lost} lost"),
        JobOutcome::Failed | JobOutcome::Interrupted => format!("{left} left"),
    });
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use flexor_engine::Cause;
    use flexor_local::cluster::JobKey;
    use flexor_model::Reason;

    use super::super::account::RelaunchCount;
    use super::*;

    pub fn account(name: &str, outcome: JobOutcome) -> JobAccount {
        JobAccount {
            key: JobKey { namespace: "default".parse().unwrap(), name: name.parse().unwrap() },
            dialect: "dlrover".to_owned(),
            outcome,
            cause: None,
            seconds: 12.34,
            time: TimeByActivity { training: 9.0, waiting: 1.0, recovering: 2.34 },
            relaunches: 0,
            started_again: Vec::new(),
            records: None,
            pace: None,
            learning: None,
            evaluations: None,
            updates: None,
            servers: Vec::new(),
        }
    }

    #[test]
    fn a_job_without_losses_has_a_short_summary() {
        insta::assert_snapshot!(text(&[account("mnist", JobOutcome::Succeeded)], None, None, None));
    }

    #[test]
    fn losses_and_failures_are_summarized_with_their_numbers() {
        let again = |reason: Reason, words, count| RelaunchCount { reason: reason.as_str(), words, count };
        let records = |skipped, left| RecordCounts {
            expected: 1000,
            accounted: 960 - left,
            skipped,
            recomputed: 40,
            reopened: 0,
            quarantined: 40,
            lost: 0,
            left,
        };
        let succeeded = JobAccount {
            cause: Some(Cause::new(Reason::JobSucceeded, "the program has ended well on 2 nodes")),
            relaunches: 3,
            started_again: vec![
                again(Reason::ProgramKilled, "killed", 2),
                again(Reason::OutOfMemory, "out of memory", 1),
            ],
            records: Some(records(12, 0)),
            ..account("data", JobOutcome::Succeeded)
        };
        let failed = JobAccount {
            cause: Some(Cause::new(Reason::RetriesExhausted, "exit code 3:\ncannot open the data")),
            relaunches: 3,
            started_again: vec![again(Reason::ProgramError, "program failed", 3)],
            ..account("fails", JobOutcome::Failed)
        };
        let interrupted =
            JobAccount { records: Some(records(0, 500)), ..account("cut-short", JobOutcome::Interrupted) };
        let faults = Some("5 of 109 faults were injected, 2 missed, 102 were still scheduled");
        insta::assert_snapshot!(text(&[succeeded, failed, interrupted], Some(Path::new("report/logs")), faults, None));
    }
}
