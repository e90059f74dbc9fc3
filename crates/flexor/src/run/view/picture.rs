//! The whole picture, given what there is and how much room: jobs at the top, then pods, then what happened last.
//!
//! Pure: the same cluster at the same moment is the same picture. Where not everything has room, jobs come before events
//! and events before pods, of which those that need somebody's eye come first.

use flexor_local::cluster::{ClusterEvent, JobView, PodView};
use flexor_model::{Severity, UnixTime};

use super::line::{Line, Paint};
use super::{heads, pod_rows};
use crate::verbs::age;

/// How many events are shown where there is room.
const EVENTS: usize = 6;

/// The room that there is, and how it may be painted.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// Of the terminal.
    pub columns: usize,
    /// Of the terminal; one of them stays free for the cursor.
    pub rows: usize,
    /// Whether colours are welcome.
    pub colours: bool,
}

/// The picture, a string a line, none of them wider than the terminal and all together less high.
pub fn picture(jobs: &[JobView], pods: &[PodView], events: &[ClusterEvent], size: Size, now: UnixTime) -> Vec<String> {
    let room = size.rows.saturating_sub(1);
    let mut lines = heads::of(jobs, size.columns, room, now);
    let rest = room.saturating_sub(lines.len());
    let shown_events = events.len().min(EVENTS).min(rest / 3);
    let for_events = if shown_events == 0 { 0 } else { shown_events + 1 };
    let for_pods = rest.saturating_sub(for_events + 1);
    let table = pod_rows::of(pods, size.columns, for_pods, now);
    if !table.is_empty() {
        lines.push(Line::default());
        lines.extend(table);
    }
    if shown_events > 0 {
        lines.push(Line::default());
        lines.extend(events[events.len() - shown_events..].iter().map(|event| event_line(event, now)));
    }
    lines.iter().map(|line| line.text(size.columns, size.colours)).collect()
}

fn event_line(event: &ClusterEvent, now: UnixTime) -> Line {
    let age = age::text(now.saturating_sub(event.at));
    let about = event.pod.clone().unwrap_or_else(|| event.job.to_string());
    let paint = match event.cause.reason.severity() {
        Severity::Error => Paint::Bad,
        Severity::Warning => Paint::Busy,
        Severity::Notice => Paint::Plain,
    };
    Line::of(Paint::Dim, &format!("{age:>5}  "))
        .then(Paint::Plain, &format!("{about}: "))
        .then(paint, event.cause.reason.as_str())
        .then(Paint::Plain, &format!(": {}", event.cause.message))
}
