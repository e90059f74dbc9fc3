//! The table of pods: failed and changing ones first, then running ones, then finished ones. Pods that do not fit are
//! counted by status.

use flexor_engine::controller::PodPhase;
use flexor_local::cluster::{PendingReason, PodView};
use flexor_local::pods::status::{ContainerState, ContainerStatus};
use flexor_model::UnixTime;
use std::collections::BTreeMap;
use unicode_width::UnicodeWidthStr;

use super::line::{Line, Paint, cell};
use crate::verbs::age;

/// Columns between two cells.
const GAP: usize = 3;

/// Order of pods if not all fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Urgency {
    Broken,
    Changing,
    Running,
    Done,
}

struct Row {
    urgency: Urgency,
    name: String,
    status: String,
    restarts: String,
    age: String,
    note: String,
}

/// The table, in at most `room` lines. Empty without pods.
pub fn of(pods: &[PodView], columns: usize, room: usize, now: UnixTime) -> Vec<Line> {
    let mut rows: Vec<Row> = pods.iter().map(|pod| row(pod, now)).collect();
    if rows.is_empty() || room == 0 {
        return Vec::new();
    }
    let mut left = Vec::new();
    if rows.len() + 1 > room {
        rows.sort_by_key(|row| row.urgency);
        // One line is for the heading and one for the counts. A heading without rows is left away.
        left = rows.split_off(room.saturating_sub(2));
    }
    let mut lines = if rows.is_empty() { Vec::new() } else { table(&rows, columns) };
    if !left.is_empty() {
        lines.push(Line::of(Paint::Dim, &counted(&left, rows.is_empty())));
    }
    lines
}

fn table(rows: &[Row], columns: usize) -> Vec<Line> {
    let widest = |of: fn(&Row) -> &str, heading: &str| {
        rows.iter().map(|row| of(row).width()).chain([heading.len()]).max().unwrap_or(0)
    };
    let (status, restarts, age) =
        (widest(|row| &row.status, "STATUS"), widest(|row| &row.restarts, "RESTARTS"), widest(|row| &row.age, "AGE"));
    let others = status + restarts + age + 3 * GAP;
    let name = widest(|row| &row.name, "NAME").min(columns.saturating_sub(others).max(12));
    let heading =
        format!("{}{}{}AGE", cell("NAME", name + GAP), cell("STATUS", status + GAP), cell("RESTARTS", restarts + GAP));
    let line = |row: &Row| {
        let line = Line::of(Paint::Plain, &format!("{}{}", cell(&row.name, name), " ".repeat(GAP)))
            .then(row.urgency.paint(), &cell(&row.status, status + GAP))
            .then(Paint::Plain, &cell(&row.restarts, restarts + GAP));
        match row.note.is_empty() {
            true => line.then(Paint::Plain, &row.age),
            false => line.then(Paint::Plain, &cell(&row.age, age + GAP)).then(Paint::Dim, &row.note),
        }
    };
    std::iter::once(Line::of(Paint::Dim, &heading)).chain(rows.iter().map(line)).collect()
}

/// The number of pods of each status, the most frequent first.
fn counted(rows: &[Row], is_all: bool) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for row in rows {
        *counts.entry(&row.status).or_default() += 1;
    }
    let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let more = if is_all { "pods: " } else { "… and " };
    let each = |(status, count): &(&str, usize)| match is_all {
        true => format!("{count} {status}"),
        false => format!("{count} more {status}"),
    };
    format!("{more}{}", counts.iter().map(each).collect::<Vec<_>>().join(", "))
}

fn row(pod: &PodView, now: UnixTime) -> Row {
    let (status, note) = state(pod);
    let urgency = match pod.phase {
        PodPhase::Failed => Urgency::Broken,
        _ if pod.deleting => Urgency::Changing,
        PodPhase::Pending => Urgency::Changing,
        PodPhase::Running => Urgency::Running,
        PodPhase::Succeeded => Urgency::Done,
    };
    let containers = pod.status.iter().flat_map(|status| &status.containers);
    let restarts: u32 = containers.map(|container| container.restarts).sum::<u32>() + pod.relaunches;
    Row {
        urgency,
        name: pod.name.clone(),
        status,
        restarts: restarts.to_string(),
        age: age::text(now.saturating_sub(pod.created_at)),
        note,
    }
}

/// The status of a pod in kubectl's words, and a note if there is one.
fn state(pod: &PodView) -> (String, String) {
    if pod.deleting {
        return ("Terminating".to_owned(), String::new());
    }
    match (&pod.trouble, &pod.pending) {
        (Some(trouble), _) => return ("CreateContainerError".to_owned(), trouble.clone()),
        (None, Some(PendingReason::Unschedulable(why))) => return ("Pending".to_owned(), why.clone()),
        (None, Some(PendingReason::MissingReference(why))) => {
            return ("CreateContainerConfigError".to_owned(), why.clone());
        }
        (None, Some(PendingReason::CreateRefused(why))) => return ("CreateContainerError".to_owned(), why.clone()),
        (None, Some(PendingReason::New) | None) => {}
    }
    let phase = format!("{:?}", pod.phase);
    let Some(status) = &pod.status else { return (phase, String::new()) };
    let note = status.message.clone().unwrap_or_default();
    if let Some(reason) = &status.reason {
        return (reason.clone(), note);
    }
    let reason = |container: &&ContainerStatus| match &container.state {
        ContainerState::Waiting(reason) | ContainerState::Terminated { reason, .. } => Some(reason.clone()),
        ContainerState::Running { .. } => None,
    };
    let mains = || status.containers.iter().filter(|container| !container.init);
    let runs = mains().any(|container| matches!(container.state, ContainerState::Running { .. }));
    let reason = mains().rev().find_map(|container| reason(&container)).filter(|_| !runs);
    (reason.unwrap_or(phase), note)
}

impl Urgency {
    fn paint(self) -> Paint {
        match self {
            Urgency::Broken => Paint::Bad,
            Urgency::Changing => Paint::Busy,
            Urgency::Running => Paint::Good,
            Urgency::Done => Paint::Dim,
        }
    }
}
