//! The events that the probe records, and waiting for them.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use anyhow::bail;
use serde::{Deserialize, Deserializer};

use crate::keeper::wait_until;

/// One line of the probe. All fields are as the worker sees them: its environment and its clock.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct ProbeEvent {
    /// When it happened.
    #[serde(rename = "t", deserialize_with = "seconds_since_epoch")]
    pub at: SystemTime,
    #[serde(rename = "event")]
    pub kind: ProbeEventKind,
    /// How many steps this process has made.
    pub step: u64,
    /// The name of the agent.
    pub node: String,
    /// The worker's process id.
    pub pid: u32,
    /// Its rank in the world.
    pub rank: u32,
    /// The size of the world.
    pub world: u32,
    /// How many restarts its agent has charged.
    pub restart: u32,
    /// The port of the worker of rank 0; together with `restart` it distinguishes worlds.
    pub master_port: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProbeEventKind {
    /// The worker was started; torch is not imported yet.
    Start,
    /// The worker made a step together with all others of its world.
    Step,
    /// The worker made its last step.
    End,
}

fn seconds_since_epoch<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SystemTime, D::Error> {
    let seconds = f64::deserialize(deserializer)?;
    Duration::try_from_secs_f64(seconds).map(|since| SystemTime::UNIX_EPOCH + since).map_err(serde::de::Error::custom)
}

/// The file that the workers of one agent write to, one after the other.
#[derive(Debug)]
pub(super) struct EventLog {
    path: PathBuf,
}

impl EventLog {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Everything so far. A line that a killed worker did not finish is left out.
    pub(super) fn read(&self) -> Vec<ProbeEvent> {
        let text = fs::read_to_string(&self.path).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Waits for the first event, past or future, for which `wanted` holds. `ended` is polled and ends the wait with
    /// its reason.
    pub(super) fn await_event(
        &self,
        deadline: Duration,
        mut wanted: impl FnMut(&ProbeEvent) -> bool,
        mut ended: impl FnMut() -> Option<String>,
    ) -> anyhow::Result<ProbeEvent> {
        // A file's growth has no wake-up that all systems share; events carry their own time, so the interval of
        // `wait_until` is in no measurement.
        let mut last_words = None;
        let mut found = None;
        wait_until(deadline, || {
            last_words = ended();
            found = self.read().into_iter().find(&mut wanted);
            found.is_some() || last_words.is_some()
        });
        match (found, last_words) {
            (Some(event), _) => Ok(event),
            (None, Some(reason)) => bail!("{reason}"),
            (None, None) => match self.read().last() {
                Some(last) => bail!("waited {deadline:?} in vain; the last event was {last:?}"),
                None => bail!("waited {deadline:?} in vain; no worker was ever started"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: &str = r#"{"t": 1000.5, "event": "start", "step": 0, "node": "n0", "pid": 7, "rank": 0, "world": 2, "restart": 0, "master_port": 4000}"#;

    fn log(text: &str) -> (tempfile::TempDir, EventLog) {
        let folder = tempfile::tempdir().unwrap();
        let log = EventLog::new(folder.path().join("events"));
        fs::write(log.path(), text).unwrap();
        (folder, log)
    }

    #[test]
    fn lines_are_read_and_a_broken_last_one_is_skipped() {
        let (_folder, log) = log(&format!("{START}\n{{\"t\": 1001.0, \"ev"));
        let events = log.read();
        assert_eq!(events.len(), 1);
        assert_eq!(events[0].kind, ProbeEventKind::Start);
        assert_eq!(events[0].at, SystemTime::UNIX_EPOCH + Duration::from_millis(1_000_500));
    }

    #[test]
    fn a_wait_ends_with_the_event_the_reason_or_the_deadline() {
        let (_folder, log) = log(START);
        let any = |_: &ProbeEvent| true;
        let never = |_: &ProbeEvent| false;
        assert_eq!(log.await_event(Duration::ZERO, any, || Some("gone".into())).unwrap().pid, 7);
        let gone = log.await_event(Duration::from_secs(60), never, || Some("gone".into())).unwrap_err();
        assert_eq!(gone.to_string(), "gone");
        let late = log.await_event(Duration::ZERO, never, || None).unwrap_err().to_string();
        assert!(late.contains("the last event was"), "{late}");
    }
}
