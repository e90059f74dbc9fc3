//! The live view: a picture of the cluster on a terminal, drawn again as it changes. The last one stays.
//!
//! What is seen is [`picture`]'s, a pure function; where it is drawn is [`Screen`]'s. Here is when: at most ten times a
//! second, and once a second even if nothing changes, because ages do.

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

/// Not more often than this.
const QUICKEST: Duration = Duration::from_millis(100);
/// Not more seldom than this.
const SLOWEST: Duration = Duration::from_secs(1);

/// The view.
pub struct LiveView {
    screen: Screen,
    drawn_at: Option<Instant>,
    due: Instant,
    resized: Signal,
    continued: Signal,
}

impl LiveView {
    /// A view on this terminal. To be called inside a runtime.
    pub fn new(screen: Screen) -> anyhow::Result<Self> {
        let watch = |kind| signal(kind).context("signals cannot be watched");
        Ok(Self {
            screen,
            drawn_at: None,
            due: Instant::now(),
            resized: watch(SignalKind::window_change())?,
            continued: watch(SignalKind::from_raw(nix::libc::SIGCONT))?,
        })
    }

    /// There is something new to see, so that the next picture is wanted soon.
    pub fn changed(&mut self) {
        let soon = self.drawn_at.map_or_else(Instant::now, |drawn_at| drawn_at + QUICKEST);
        self.due = self.due.min(soon);
    }

    /// When the next picture is due.
    pub fn due(&self) -> Instant {
        self.due
    }

    /// Whether it is time to draw.
    pub fn is_due(&self) -> bool {
        Instant::now() >= self.due
    }

    /// Until the terminal is another than it was: larger, smaller, or in the hands of somebody else meanwhile.
    pub async fn disturbed(&mut self) {
        tokio::select! {
            _ = self.resized.recv() => {}
            _ = self.continued.recv() => self.screen.leave(),
        }
        self.due = Instant::now();
    }

    /// Draws for the last time: whatever comes now is written below.
    pub fn draw_last(&mut self, cluster: &Cluster, history: &History, now: UnixTime) -> anyhow::Result<()> {
        self.draw(cluster, history, now)?;
        self.screen.leave();
        Ok(())
    }

    /// Draws.
    pub fn draw(&mut self, cluster: &Cluster, history: &History, now: UnixTime) -> anyhow::Result<()> {
        let size = self.screen.size();
        let lines = picture(&cluster.jobs(), &cluster.pods(), history.events(), size, now);
        self.screen.draw(&lines, size.columns).context("the view cannot be drawn")?;
        let drawn_at = Instant::now();
        (self.drawn_at, self.due) = (Some(drawn_at), drawn_at + SLOWEST);
        Ok(())
    }
}
