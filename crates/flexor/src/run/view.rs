//! The live view: a picture of the cluster on a terminal, redrawn as it changes. The last picture stays.
//!
//! [`picture`] is a pure function that renders the lines, and [`Screen`] draws them. This module decides when: at most ten
//! times a second, and at least once a second, because ages change.

mod heads;
mod line;
mod picture;
mod pod_rows;
mod screen;
#[cfg(test)]
mod tests;

use std::time::Duration;

use anyhow::Context;
use flexor_local::cluster::Cluster;
use flexor_model::UnixTime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

use self::picture::picture;
pub use self::screen::Screen;
use super::history::History;

const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);
const LONGEST_INTERVAL: Duration = Duration::from_secs(1);

pub struct LiveView {
    screen: Screen,
    drawn_at: Option<Instant>,
    due: Instant,
    resized: Signal,
    continued: Signal,
}

impl LiveView {
    /// Must be called inside a runtime.
    pub fn new(screen: Screen) -> anyhow::Result<Self> {
        let watch = |kind| signal(kind).context("cannot watch signals");
        Ok(Self {
            screen,
            drawn_at: None,
            due: Instant::now(),
            resized: watch(SignalKind::window_change())?,
            continued: watch(SignalKind::from_raw(nix::libc::SIGCONT))?,
        })
    }

    /// Notes that the cluster has changed, so the next picture is due soon.
    pub fn notify(&mut self) {
        let soon = self.drawn_at.map_or_else(Instant::now, |drawn_at| drawn_at + SHORTEST_INTERVAL);
        self.due = self.due.min(soon);
    }

    /// The time at which the next picture is due.
    pub fn due(&self) -> Instant {
        self.due
    }

    pub fn is_due(&self) -> bool {
        Instant::now() >= self.due
    }

    /// Waits until the terminal has another size, or until this process continues after it was stopped.
    pub async fn disturbed(&mut self) {
        tokio::select! {
            _ = self.resized.recv() => {}
            _ = self.continued.recv() => self.screen.leave(),
        }
        self.due = Instant::now();
    }

    /// Draws for the last time. Later output goes below the picture.
    pub fn draw_last(&mut self, cluster: &Cluster, history: &History, now: UnixTime) -> anyhow::Result<()> {
        self.draw(cluster, history, now)?;
        self.screen.leave();
        Ok(())
    }

    pub fn draw(&mut self, cluster: &Cluster, history: &History, now: UnixTime) -> anyhow::Result<()> {
        let size = self.screen.size();
        let lines = picture(&cluster.jobs(), &cluster.pods(), history.events(), size, now);
        self.screen.draw(&lines, size.columns).context("cannot draw the view")?;
        let drawn_at = Instant::now();
        (self.drawn_at, self.due) = (Some(drawn_at), drawn_at + LONGEST_INTERVAL);
        Ok(())
    }
}
