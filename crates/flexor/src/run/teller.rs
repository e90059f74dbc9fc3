//! Who is told how the jobs go, and how: a picture on a terminal, plain lines elsewhere.
//!
//! Jobs do not end because nobody can be told of them: an output that refuses is told of once, and then they go on in
//! silence.

use flexor_local::cluster::Cluster;
use flexor_model::UnixTime;
use tokio::time::sleep_until;

use super::history::History;
use super::progress::Progress;
use super::view::{LiveView, Screen};
use crate::output;

/// How it is told.
pub enum Teller {
    /// A line for everything that happens.
    Lines(Progress),
    /// A picture.
    View(Box<LiveView>),
    /// Nobody can be told any more.
    Silent,
}

/// Whether everything is told, or what has changed if it is time to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// A picture waits until it is due.
    Due,
    /// This is the last time.
    Last,
}

impl Teller {
    /// Draws on a terminal, if there is one. To be called inside a runtime.
    pub fn new(screen: Option<Screen>) -> anyhow::Result<Self> {
        Ok(match screen {
            Some(screen) => Self::View(Box::new(LiveView::new(screen)?)),
            None => Self::Lines(Progress::default()),
        })
    }

    /// Something may have changed.
    pub fn changed(&mut self) {
        match self {
            Self::View(view) => view.changed(),
            Self::Lines(_) | Self::Silent => {}
        }
    }

    /// Tells what is new.
    pub fn tell(&mut self, cluster: &Cluster, history: &History, now: UnixTime, when: When) {
        let told = match self {
            Self::Lines(progress) => progress.tell(cluster, history, now),
            Self::View(view) if when == When::Last => view.draw_last(cluster, history, now),
            Self::View(view) if view.is_due() => view.draw(cluster, history, now),
            Self::View(_) | Self::Silent => Ok(()),
        };
        if let Err(error) = told {
            output::note(&format!("warning: {}; the jobs go on", output::with_causes(&error)));
            *self = Self::Silent;
        }
    }

    /// Until there is something to tell although nothing has changed.
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
