//! The CSV tables of a report: a heading, then one line per row, quoted where necessary.

use flexor_model::{Severity, UnixTime};

use super::RunRecord;

/// All incarnations of pods.
pub fn pods(run: &RunRecord) -> String {
    let mut table = CsvTable::new(&[
        "job",
        "pod",
        "role",
        "uid",
        "created_s",
        "started_s",
        "ended_s",
        "phase",
        "removed",
        "exit_code",
        "reason",
    ]);
    for pod_run in &run.pod_history {
        let at = |moment: Option<UnixTime>| moment.map(|moment| seconds(run.at(moment))).unwrap_or_default();
        table.row(&[
            pod_run.job.to_string(),
            pod_run.pod.clone(),
            pod_run.role.clone(),
            pod_run.uid.clone(),
            seconds(run.at(pod_run.created_at)),
            at(pod_run.started_at),
            at(pod_run.ended_at),
            super::phase(pod_run),
            pod_run.taken_away.to_string(),
            pod_run.exit_code.map(|code| code.to_string()).unwrap_or_default(),
            pod_run.reason.clone().unwrap_or_default(),
        ]);
    }
    table.text
}

pub fn events(run: &RunRecord) -> String {
    let mut table = CsvTable::new(&["number", "seconds", "severity", "job", "pod", "reason", "message"]);
    for event in &run.events {
        table.row(&[
            event.number.to_string(),
            seconds(run.at(event.at)),
            severity(event.cause.reason.severity()).to_owned(),
            event.job.to_string(),
            event.pod.clone().unwrap_or_default(),
            event.cause.reason.to_string(),
            event.cause.message.clone(),
        ]);
    }
    table.text
}

/// Activities of each job, with the number of nodes.
pub fn world(run: &RunRecord) -> String {
    let mut table = CsvTable::new(&["job", "from_s", "to_s", "activity", "nodes"]);
    for job in &run.jobs {
        for span in &job.view.timeline.spans {
            table.row(&[
                job.view.key.to_string(),
                seconds(run.at(span.from)),
                seconds(run.at(span.to.unwrap_or(run.to))),
                format!("{:?}", span.activity),
                span.nodes.to_string(),
            ]);
        }
    }
    table.text
}

/// Samples of the training status.
pub fn training(run: &RunRecord) -> String {
    let mut table = CsvTable::new(&[
        "job",
        "seconds",
        "round",
        "nodes",
        "step",
        "steps_per_s",
        "records_expected",
        "records_accounted",
        "records_per_s",
        "loss",
        "auc",
        "accuracy",
        "test_loss",
        "test_auc",
        "test_accuracy",
    ]);
    for job in &run.jobs {
        for sample in &job.samples {
            let training = &sample.training;
            let number = |number: Option<f64>| number.map(seconds).unwrap_or_default();
            let count = |count: Option<u64>| count.map(|count| count.to_string()).unwrap_or_default();
            table.row(&[
                job.view.key.to_string(),
                seconds(run.at(sample.at)),
                count(training.round),
                training.nodes.to_string(),
                number(training.step),
                number(training.steps_per_second),
                count(training.records.map(|records| records.total)),
                count(training.records.map(|records| records.accounted)),
                number(training.records_per_second),
                measure(training.learning.and_then(|learning| learning.training.loss)),
                measure(training.learning.and_then(|learning| learning.training.auc)),
                measure(training.learning.and_then(|learning| learning.training.accuracy)),
                measure(training.learning.and_then(|learning| learning.test.loss)),
                measure(training.learning.and_then(|learning| learning.test.auc)),
                measure(training.learning.and_then(|learning| learning.test.accuracy)),
            ]);
        }
    }
    table.text
}

/// Samples of the load of parameter servers.
pub fn servers(run: &RunRecord) -> String {
    let mut table = CsvTable::new(&[
        "job",
        "seconds",
        "server",
        "incarnation",
        "partitions",
        "backups",
        "rows",
        "bytes",
        "pulls_per_s",
        "pushes_per_s",
        "cpus",
    ]);
    for job in &run.jobs {
        for sample in &job.samples {
            let number = |number: Option<f64>| number.map(seconds).unwrap_or_default();
            let count = |count: Option<u64>| count.map(|count| count.to_string()).unwrap_or_default();
            for server in sample.training.servers.iter().flat_map(|servers| &servers.each) {
                table.row(&[
                    job.view.key.to_string(),
                    seconds(run.at(sample.at)),
                    server.name.clone(),
                    server.incarnation.to_string(),
                    server.partitions.to_string(),
                    server.copies.to_string(),
                    count(server.rows),
                    count(server.bytes),
                    number(server.pulls_per_second),
                    number(server.pushes_per_second),
                    number(server.cpus),
                ]);
            }
        }
    }
    table.text
}

/// A score of a model.
fn measure(measure: Option<f64>) -> String {
    measure.map(|measure| format!("{measure:.6}")).unwrap_or_default()
}

fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Notice => "notice",
    }
}

/// A number with three digits, for times to the millisecond.
fn seconds(seconds: f64) -> String {
    format!("{seconds:.3}")
}

struct CsvTable {
    text: String,
}

impl CsvTable {
    fn new(heading: &[&str]) -> Self {
        let mut table = Self { text: String::new() };
        table.row(&heading.iter().map(ToString::to_string).collect::<Vec<_>>());
        table
    }

    fn row(&mut self, cells: &[String]) {
        let cells: Vec<String> = cells.iter().map(|cell| quoted(cell)).collect();
        self.text.push_str(&cells.join(","));
        self.text.push('\n');
    }
}

fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell.to_owned() }
}
