//! The last lines of `flexor run`: for each job what it did with its time, what was started again and why, what became
//! of its records, and in one line how it ended.

mod servers;
mod wrapping;

use std::path::Path;

use super::account::{Account, Outcome, RecordCounts, Time};
use crate::output::on_one_line;

/// What the names of rows are filled to.
const NAMES: usize = 16;

/// The summary; the last line about each job says how it ended. Logs are kept in a folder, or gone; harm was done on
/// purpose, or not; it is read on a terminal of so many columns, or elsewhere.
pub fn text(accounts: &[Account], logs: Option<&Path>, harm: Option<&str>, columns: Option<usize>) -> String {
    let widest = wrapping::width_of(columns);
    let mut text = String::new();
    for account in accounts {
        text.push_str(&format!("\n{}\n", account.key));
        for (name, told) in rows(account, logs) {
            text.push_str(&wrapping::row(name, NAMES, &told, widest));
        }
    }
    if let Some(harm) = harm {
        text.push_str(&format!("\nchaos\n{}", wrapping::row("acts", NAMES, harm, widest)));
    }
    if !accounts.is_empty() {
        text.push('\n');
    }
    for account in accounts {
        // Where programs read it, it is one line.
        text.push_str(&match columns {
            Some(columns) => wrapping::sentence(&verdict(account), columns),
            None => verdict(account) + "\n",
        });
    }
    text
}

/// How a job ended, in a line.
fn verdict(account: &Account) -> String {
    let Account { key, outcome, cause, relaunches, .. } = account;
    let cause = cause.as_ref().map(|cause| on_one_line(&format!(": {cause}"))).unwrap_or_default();
    format!("{key}: {outcome:?}{cause}; pods started again: {relaunches}")
}

fn rows(account: &Account, logs: Option<&Path>) -> Vec<(&'static str, String)> {
    let mut rows = vec![("time", time(account.seconds, account.time))];
    if !account.started_again.is_empty() {
        let each = account.started_again.iter().map(|again| format!("{} {}", again.count, again.words));
        rows.push(("started again", each.collect::<Vec<_>>().join(", ")));
    }
    if let Some(records) = account.records {
        rows.push(("records", told(records, account.outcome)));
    }
    rows.extend(servers::rows(account));
    let logs = match logs {
        Some(folder) => format!("in {}", folder.display()),
        None => "gone with the pods; --report DIR keeps them".to_owned(),
    };
    rows.push(("logs", logs));
    rows
}

fn time(seconds: f64, time: Time) -> String {
    let Time { training, waiting, recovering } = time;
    format!("{seconds:.1}s: training {training:.1}s, waiting {waiting:.1}s, recovering {recovering:.1}s")
}

fn told(records: RecordCounts, outcome: Outcome) -> String {
    let RecordCounts { expected, accounted, left_out, recomputed, quarantined, lost, left } = records;
    let mut parts = vec![format!("{expected} expected"), format!("{accounted} accounted for")];
    if left_out > 0 {
        parts.push(format!("{left_out} of them left out"));
    }
    parts.push(match recomputed {
        0 => "0 recomputed".to_owned(),
        some => format!("at most {some} recomputed"),
    });
    if quarantined > 0 {
        parts.push(format!("{quarantined} quarantined"));
    }
    parts.push(match outcome {
        Outcome::Succeeded => format!("{lost} lost"),
        Outcome::Failed | Outcome::Interrupted => format!("{left} left"),
    });
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use flexor_engine::Cause;
    use flexor_local::cluster::JobKey;
    use flexor_model::Reason;

    use super::super::account::StartedAgain;
    use super::*;

    pub fn account(name: &str, outcome: Outcome) -> Account {
        Account {
            key: JobKey { namespace: "default".parse().unwrap(), name: name.parse().unwrap() },
            dialect: "dlrover".to_owned(),
            outcome,
            cause: None,
            seconds: 12.34,
            time: Time { training: 9.0, waiting: 1.0, recovering: 2.34 },
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
    fn a_job_that_went_well_has_a_short_summary() {
        insta::assert_snapshot!(text(&[account("mnist", Outcome::Succeeded)], None, None, None));
    }

    #[test]
    fn what_went_wrong_is_told_with_its_numbers() {
        let again = |reason: Reason, words, count| StartedAgain { reason: reason.as_str(), words, count };
        let records = |left_out, left| RecordCounts {
            expected: 1000,
            accounted: 960 - left,
            left_out,
            recomputed: 40,
            quarantined: 40,
            lost: 0,
            left,
        };
        let succeeded = Account {
            cause: Some(Cause::new(Reason::JobSucceeded, "the program has ended well on 2 nodes")),
            relaunches: 3,
            started_again: vec![
                again(Reason::ProgramKilled, "killed", 2),
                again(Reason::OutOfMemory, "out of memory", 1),
            ],
            records: Some(records(12, 0)),
            ..account("data", Outcome::Succeeded)
        };
        let failed = Account {
            cause: Some(Cause::new(Reason::RetriesExhausted, "exit code 3:\ncannot open the data")),
            relaunches: 3,
            started_again: vec![again(Reason::ProgramError, "program failed", 3)],
            ..account("fails", Outcome::Failed)
        };
        let interrupted = Account { records: Some(records(0, 500)), ..account("cut-short", Outcome::Interrupted) };
        let harm = Some("5 of 109 acts were done, 2 missed, 102 were still to come");
        insta::assert_snapshot!(text(&[succeeded, failed, interrupted], Some(Path::new("report/logs")), harm, None));
    }
}
