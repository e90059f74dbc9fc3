//! The lines of the view about each job: phase, size of its world, rates, and progress in its data.

use flexor_engine::controller::Phase;
use flexor_local::cluster::{Activity, JobKey, JobView, Records};
use flexor_model::UnixTime;

use super::line::{Line, Paint};
use crate::verbs::age;

/// Largest width of a progress bar.
const WIDEST_BAR: usize = 40;
/// A narrower bar is not drawn.
const NARROWEST_BAR: usize = 8;

/// The lines about all jobs, at most `room` of them. If not all fit, jobs that are not over come first.
pub fn of(jobs: &[JobView], columns: usize, room: usize, now: UnixTime) -> Vec<Line> {
    let mut order: Vec<&JobView> = jobs.iter().collect();
    let of_each: usize = order.iter().map(|job| head(job, columns, now).len()).sum();
    if of_each <= room {
        return order.into_iter().flat_map(|job| head(job, columns, now)).collect();
    }
    order.sort_by_key(|job| job.status.phase.is_over());
    let mut lines = Vec::new();
    let mut left = order.len();
    for job in order {
        let of_it = head(job, columns, now);
        // The last line counts the jobs that do not fit.
        if lines.len() + of_it.len() >= room {
            break;
        }
        lines.extend(of_it);
        left -= 1;
    }
    if room > 0 {
        lines.push(Line::of(Paint::Dim, &format!("… and {left} more jobs")));
    }
    lines
}

/// A job's name, with its namespace unless that is `default`.
pub fn name(key: &JobKey) -> String {
    if key.namespace.as_str() == "default" { key.name.to_string() } else { key.to_string() }
}

fn head(job: &JobView, columns: usize, now: UnixTime) -> Vec<Line> {
    let complete = first_line(job, &job.dialect, now);
    // A narrow terminal does not show the dialect.
    let first = if complete.width() <= columns { complete } else { first_line(job, "", now) };
    let mut lines = vec![first];
    let records = job.training.as_ref().and_then(|training| training.records);
    if let Some(records) = records.filter(|records| records.expected > 0) {
        let pace = job.training.as_ref().and_then(|training| training.records_per_second);
        lines.push(records_line(records, pace.filter(|_| !job.status.phase.is_over()), columns));
    }
    let shows_cause = matches!(job.status.phase, Phase::Failed | Phase::Suspended);
    if let Some(cause) = job.status.cause.as_ref().filter(|_| shows_cause) {
        let paint = if job.status.phase == Phase::Failed { Paint::Bad } else { Paint::Plain };
        lines.push(Line::of(paint, &format!("  {cause}")));
    }
    lines
}

fn first_line(job: &JobView, dialect: &str, now: UnixTime) -> Line {
    let status = &job.status;
    let is_over = status.phase.is_over();
    let ((phase, paint), activity) = (phase(job), activity(job));
    let elapsed = age::text(status.finished_at.unwrap_or(now).saturating_sub(job.created_at));
    let after = if is_over { "after " } else { "" };
    let mut line = Line::of(Paint::Bold, &name(&job.key))
        .then(Paint::Dim, &if dialect.is_empty() { "  ".to_owned() } else { format!("  {dialect}  ") })
        .then(paint, phase)
        .then(Paint::Plain, &format!(" {after}{elapsed}"))
        .then(activity.1, activity.0);
    let Some(training) = job.training.as_ref().filter(|_| !is_over) else { return line };
    if let Some(round) = training.round {
        let nodes = if training.nodes == 1 { "node" } else { "nodes" };
        line = line.then(Paint::Plain, &format!("  world: {} {nodes}, round {round}", training.nodes));
    }
    if training.meeting {
        line = line.then(Paint::Busy, "  rendezvous");
    }
    if let Some(step) = training.step {
        line = line.then(Paint::Plain, &format!("  step {step:.0}"));
    }
    if let Some(pace) = training.steps_per_second {
        line = line.then(Paint::Plain, &format!("  {} steps/s", number(pace)));
    }
    if let Some(loss) = training.learning.and_then(|learning| learning.training.loss) {
        line = line.then(Paint::Plain, &format!("  loss {loss:.4}"));
    }
    if let Some(auc) = training.learning.and_then(|learning| learning.test.auc) {
        line = line.then(Paint::Plain, &format!("  AUC on test data {auc:.4}"));
    }
    line
}

fn phase(job: &JobView) -> (&'static str, Paint) {
    if job.deleting {
        return ("Terminating", Paint::Busy);
    }
    match job.status.phase {
        Phase::Pending => ("Pending", Paint::Busy),
        Phase::Running => ("Running", Paint::Good),
        Phase::Suspended => ("Suspended", Paint::Busy),
        Phase::Succeeded => ("Succeeded", Paint::Good),
        Phase::Failed => ("Failed", Paint::Bad),
    }
}

/// The current activity of a running job.
fn activity(job: &JobView) -> (&'static str, Paint) {
    let activity = job.timeline.spans.last().filter(|span| span.to.is_none()).map(|span| span.activity);
    match activity.filter(|_| job.status.phase == Phase::Running && !job.deleting) {
        Some(Activity::Training) => (", training", Paint::Good),
        Some(Activity::Recovering) => (", recovering", Paint::Busy),
        Some(Activity::Waiting) => (", waiting", Paint::Busy),
        None => ("", Paint::Plain),
    }
}

fn records_line(records: Records, pace: Option<f64>, columns: usize) -> Line {
    let Records { total, accounted, quarantined, .. } = records;
    let mut text = format!("  {accounted} of {total} records");
    if let Some(pace) = pace {
        text.push_str(&format!("  {}/s", number(pace)));
    }
    if quarantined > 0 {
        text.push_str(&format!("  {quarantined} quarantined"));
    }
    let width = columns.saturating_sub(text.len() + 4).min(WIDEST_BAR);
    if width < NARROWEST_BAR {
        return Line::of(Paint::Plain, &text);
    }
    let done = usize::try_from(accounted.min(total) * width as u64 / total.max(1)).unwrap_or(width);
    Line::of(Paint::Plain, "  ")
        .then(Paint::Good, &"█".repeat(done))
        .then(Paint::Dim, &"░".repeat(width - done))
        .then(Paint::Plain, &text)
}

/// A rate, with a decimal only below 100.
pub fn number(pace: f64) -> String {
    if pace >= 100.0 { format!("{pace:.0}") } else { format!("{pace:.1}") }
}
