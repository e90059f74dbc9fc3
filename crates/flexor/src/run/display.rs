//! The output of `flexor run` while jobs run: a live view on a terminal, plain lines elsewhere.
//!
//! A failed write does not end the jobs: it is reported once, and then the run continues without output.

use flexor_local::cluster::Cluster;
use flexor_model::UnixTime;
use tokio::time::sleep_until;

use super::history::History;
use super::progress::ProgressLines;
use super::view::{LiveView, Screen};
use crate::output;

pub enum Display {
    Lines(ProgressLines),
    View(Box<LiveView>),
    /// A write has failed.
    Silent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refresh {
    /// The view is drawn only if it is due.
    IfDue,
    /// The view is drawn for the last time.
    Final,
}

impl Display {
    /// Uses the live view if there is a terminal. Must be called inside a runtime.
    pub fn new(screen: Option<Screen>) -> anyhow::Result<Self> {
        Ok(match screen {
            Some(screen) => Self::View(Box::new(LiveView::new(screen)?)),
            None => Self::Lines(ProgressLines::default()),
        })
    }

    /// Notes that the cluster has changed.
    pub fn notify(&mut self) {
        match self {
            Self::View(view) => view.notify(),
            Self::Lines(_) | Self::Silent => {}
        }
    }

    /// Prints new lines, or draws the view.
    pub fn update(&mut self, cluster: &Cluster, history: &History, now: UnixTime, refresh: Refresh) {
        let written = match self {
            Self::Lines(lines) => lines.print(cluster, history, now),
            Self::View(view) if refresh == Refresh::Final => view.draw_last(cluster, history, now),
            Self::View(view) if view.is_due() => view.draw(cluster, history, now),
            Self::View(_) | Self::Silent => Ok(()),
        };
        if let Err(error) = written {
            output::note(&format!("warning: {}; the jobs continue", output::with_causes(&error)));
            *self = Self::Silent;
        }
    }

    /// Waits until the view has to be drawn although the cluster has not changed.
    pub async fn wait(&mut self) {
        match self {
            Self::View(view) => {
                let due = view.due();
                tokio::select! {
                    () = sleep_until(due) => {}
                    () = view.disturbed() => {}
                }
            }
            Self::Lines(_) | Self::Silent => std::future::pending().await,
        }
    }
}
