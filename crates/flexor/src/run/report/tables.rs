//! The tables of a report, as CSV: a heading, then a line each, quoted where it has to be.

use flexor_model::{Severity, UnixTime};

use super::Run;

/// The lives of pods.
pub fn pods(run: &Run) -> String {
    let mut table = Table::new(&[
        "job",
        "pod",
        "role",
        "uid",
        "created_s",
        "started_s",
        "ended_s",
        "phase",
        "taken_away",
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
            super::end(pod_run),
            pod_run.taken_away.to_string(),
            pod_run.exit_code.map(|code| code.to_string()).unwrap_or_default(),
            pod_run.reason.clone().unwrap_or_default(),
        ]);
    }
    table.text
}

/// What happened.
pub fn events(run: &Run) -> String {
    let mut table = Table::new(&["number", "seconds", "severity", "job", "pod", "reason", "detail"]);
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

/// What each job did with its time, and with how many nodes.
pub fn world(run: &Run) -> String {
    let mut table = Table::new(&["job", "from_s", "to_s", "activity", "nodes"]);
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

/// How training stood, now and then.
pub fn training(run: &Run) -> String {
    let mut table = Table::new(&[
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

/// How busy parameter servers were, now and then.
pub fn servers(run: &Run) -> String {
    let mut table = Table::new(&[
        "job",
        "seconds",
        "server",
        "incarnation",
        "partitions",
        "copies",
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

/// A measure of a model, in as many digits as say something.
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

/// To the millisecond, which is what the clock of a laptop is good for.
fn seconds(seconds: f64) -> String {
    format!("{seconds:.3}")
}

struct Table {
    text: String,
}

impl Table {
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
