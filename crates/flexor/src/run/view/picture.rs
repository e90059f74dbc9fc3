//! Renders the picture for a size of the terminal: jobs at the top, then pods, then the last events.
//!
//! Pure: the same cluster at the same time gives the same picture. If not everything fits, jobs come before events and
//! events before pods. Among pods those with problems come first.

use flexor_local::cluster::{ClusterEvent, JobView, PodView};
use flexor_model::{Severity, UnixTime};

use super::line::{Line, Paint};
use super::{heads, pod_rows};
use crate::verbs::age;

/// Largest number of events to show.
const EVENTS: usize = 6;

/// Size of the terminal, and whether to use colours.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    pub columns: usize,
    /// One row stays free for the cursor.
    pub rows: usize,
    pub colours: bool,
}

/// The lines of the picture: none wider than the terminal, and fewer than its rows.
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
