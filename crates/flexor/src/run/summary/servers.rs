//! The rows of the summary for a job with parameter servers: updates, pace, model, evaluations, and each server. Missing
//! figures are shown as unknown.

use flexor_local::cluster::{Evaluations, Scores, Updates};

use crate::output::on_one_line;
use crate::run::account::{JobAccount, JobOutcome, Pace, ServerAccount};

/// The rows, in the order in which they are printed.
pub fn rows(account: &JobAccount) -> Vec<(&'static str, String)> {
    if account.servers.is_empty() {
        return Vec::new();
    }
    let mut rows = vec![("updates", updates(account.updates))];
    if let Some(pace) = account.pace {
        rows.push(("pace", paced(pace)));
    }
    if let Some(learning) = account.learning {
        let trained = measures(learning.training).unwrap_or_else(|| "unknown".to_owned());
        let tested = measures(learning.test).map(|tested| format!("; on test data {tested}"));
        rows.push(("model", format!("{trained}{}", tested.unwrap_or_default())));
    }
    if let Some(evaluations) = &account.evaluations {
        rows.push(("evaluated", evaluated(evaluations)));
    }
    let names = ["servers"].into_iter().chain(std::iter::repeat(""));
    rows.extend(names.zip(account.servers.iter().map(|one| server(one, never_trained(account)))));
    rows
}

/// Whether the job failed before it trained, so that its servers had nothing to report.
fn never_trained(account: &JobAccount) -> bool {
    account.outcome == JobOutcome::Failed && account.records.is_none_or(|records| records.accounted == 0)
}

fn evaluated(of: &Evaluations) -> String {
    let mut text = match of.done {
        0 => "never".to_owned(),
        1 => format!("once during training, after {} records", of.records),
        many => format!("{many} times during training, last after {} records", of.records),
    };
    if let Some(checkpoint) = of.checkpoint {
        text.push_str(&format!(" on checkpoint {checkpoint}"));
    }
    if of.skipped > 0 {
        let why = of.why_skipped.as_deref().unwrap_or("unknown reason");
        text.push_str(&format!("; {} skipped: {}", of.skipped, on_one_line(why)));
    }
    text
}

fn updates(updates: Option<Updates>) -> String {
    match updates {
        Some(Updates { applied, repeats, reapplied, lost, synchronous }) => {
            let unit = if synchronous { ", each of one synchronous step" } else { "" };
            format!("{applied} applied{unit}, {repeats} sent again, {reapplied} applied twice, {lost} lost")
        }
        None => "unknown: no worker has reported the outcomes of its pushes".to_owned(),
    }
}

fn paced(Pace { records_per_second, steps_per_second }: Pace) -> String {
    let steps = steps_per_second.map(|steps| format!(", {steps:.0} steps/s")).unwrap_or_default();
    format!("{records_per_second:.0} records/s{steps} during training")
}

fn measures(Scores { loss, auc, accuracy }: Scores) -> Option<String> {
    let all = [("loss", loss), ("AUC", auc), ("accuracy", accuracy)];
    let known: Vec<String> =
        all.into_iter().filter_map(|(name, value)| Some(format!("{name} {:.4}", value?))).collect();
    (!known.is_empty()).then(|| known.join(", "))
}

fn server(server: &ServerAccount, is_idle: bool) -> String {
    let number = |number: Option<f64>, digits: usize| {
        number.map_or_else(|| "unknown".to_owned(), |number| format!("{number:.digits$}"))
    };
    let mut text = format!("{}: {} partitions", server.name, server.partitions);
    if server.backups > 0 {
        text.push_str(&format!(", {} backups", server.backups));
    }
    if is_idle {
        return text;
    }
    let contents = match (server.rows, server.bytes) {
        (Some(rows), Some(bytes)) => format!("{rows} rows in {}", size(bytes)),
        _ => "rows unknown".to_owned(),
    };
    let (pulls, pushes) = (number(server.pulls_per_second, 0), number(server.pushes_per_second, 0));
    text.push_str(&format!(", {contents}, {pulls} pulls/s, {pushes} pushes/s, {} CPUs", number(server.cpus, 2)));
    text
}

fn size(bytes: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a size for people to read")]
    let mebibytes = bytes as f64 / f64::from(1 << 20);
    format!("{mebibytes:.1} MiB")
}

#[cfg(test)]
mod tests {
    use flexor_local::cluster::Learning;

    use crate::run::summary::tests::account;

    use super::*;

    #[test]
    fn a_job_with_servers_has_rows_for_updates_pace_model_and_load() {
        let known = ServerAccount {
            name: "ctr-edljob-ps-0".to_owned(),
            partitions: 128,
            backups: 128,
            rows: Some(40_000),
            bytes: Some(5 << 20),
            pulls_per_second: Some(98.4),
            pushes_per_second: Some(97.6),
            cpus: Some(0.314),
        };
        let silent = ServerAccount {
            name: "ctr-edljob-ps-1".to_owned(),
            backups: 0,
            rows: None,
            bytes: None,
            pulls_per_second: None,
            pushes_per_second: None,
            cpus: None,
            ..known.clone()
        };
        let scores = |loss| Scores { loss: Some(loss), auc: Some(0.79), accuracy: None };
        let complete = JobAccount {
            updates: Some(Updates { applied: 300_032, repeats: 12, ..Updates::default() }),
            pace: Some(Pace { records_per_second: 101_234.5, steps_per_second: Some(198.2) }),
            evaluations: Some(Evaluations {
                done: 3,
                records: 480_000,
                skipped: 1,
                why_skipped: Some("no room".into()),
                ..Evaluations::default()
            }),
            learning: Some(Learning { training: scores(0.4498), test: scores(0.4417) }),
            servers: vec![known, silent],
            ..account("ctr", JobOutcome::Succeeded)
        };
        let unknown = JobAccount { updates: None, pace: None, learning: None, ..complete.clone() };
        let row = |(name, value): &(&str, String)| format!("{name:<10}{value}\n");
        let text = |account: &JobAccount| rows(account).iter().map(row).collect();
        let texts: [String; 2] = [text(&complete), text(&unknown)];
        insta::assert_snapshot!(texts.join("\n"));
    }

    #[test]
    fn servers_that_never_trained_show_only_their_partitions() {
        let idle = ServerAccount {
            name: "ctr-edljob-ps-0".to_owned(),
            partitions: 256,
            backups: 0,
            rows: Some(0),
            bytes: Some(0),
            pulls_per_second: None,
            pushes_per_second: None,
            cpus: None,
        };
        let servers = |outcome| {
            let rows = rows(&JobAccount { servers: vec![idle.clone()], ..account("ctr", outcome) });
            rows.into_iter().find(|(name, _)| *name == "servers").map(|(_, value)| value).unwrap()
        };
        assert_eq!(servers(JobOutcome::Failed), "ctr-edljob-ps-0: 256 partitions");
        assert!(servers(JobOutcome::Interrupted).contains("unknown pulls/s"), "it may have trained");
    }

    #[test]
    fn updates_of_synchronous_steps_say_so() {
        let text = updates(Some(Updates { applied: 25_600, repeats: 12, synchronous: true, ..Updates::default() }));
        assert_eq!(text, "25600 applied, each of one synchronous step, 12 sent again, 0 applied twice, 0 lost");
    }

    #[test]
    fn a_job_without_servers_has_no_rows() {
        assert_eq!(rows(&account("mnist", JobOutcome::Succeeded)), []);
    }
}
