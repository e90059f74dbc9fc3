//! Injected faults: slow or failing disks and jumping clocks, for tests and benches of a running master.
//!
//! Off unless `FLEXOR_FAULTS` names a file. The file lists the active faults and may be rewritten at any time. The
//! journal's files and [`crate::clock`] read [`Faults::active`] before they touch the disk or the clock. Faults of
//! peers and networks are injected outside of the process.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::Duration;

use nix::errno::Errno;
use serde::Deserialize;

/// A change of the file takes effect within this time.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The active faults; the default is none. The JSON of the faults file has these fields.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ActiveFaults {
    /// Every fsync takes this much longer.
    pub fsync_delay_ms: u64,
    /// The clock's offset. A change is a jump.
    pub clock_offset_ms: i64,
    /// Every write fails with this error after half of its bytes.
    pub write_error: Option<DiskError>,
    /// Every fsync fails with this error.
    pub fsync_error: Option<DiskError>,
}

/// The error of a failing disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum DiskError {
    /// The disk is full.
    #[serde(rename = "ENOSPC")]
    NoSpace,
    /// The user's quota is used up.
    #[serde(rename = "EDQUOT")]
    Quota,
    /// The device failed.
    #[serde(rename = "EIO")]
    Device,
}

impl From<DiskError> for io::Error {
    fn from(error: DiskError) -> Self {
        match error {
            DiskError::NoSpace => Errno::ENOSPC,
            DiskError::Quota => Errno::EDQUOT,
            DiskError::Device => Errno::EIO,
        }
        .into()
    }
}

/// The source of active faults. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Faults(Option<Arc<RwLock<ActiveFaults>>>);

impl Faults {
    #[must_use]
    pub fn off() -> Self {
        Self(None)
    }

    /// Faults that the process sets with [`Faults::set`]; none at first.
    #[must_use]
    pub fn settable() -> Self {
        Self(Some(Arc::default()))
    }

    /// The faults in `file`, which is watched as long as a clone of this lives. A missing file means no faults. An
    /// invalid file is logged and changes nothing.
    #[must_use]
    pub fn from_file(file: PathBuf) -> Self {
        let faults = Arc::new(RwLock::default());
        tracing::warn!(file = %file.display(), "fault injection is on; this master is under test");
        let mut last = None;
        follow(&file, &mut last, &faults);
        let watched = Arc::downgrade(&faults);
        let follower = move || watch_while_used(&file, &mut last, &watched);
        if let Err(error) = std::thread::Builder::new().name("faults".to_owned()).spawn(follower) {
            tracing::warn!(%error, "cannot start a thread; changes of the faults file are ignored");
        }
        Self(Some(faults))
    }

    /// The active faults.
    #[must_use]
    pub fn active(&self) -> ActiveFaults {
        match &self.0 {
            Some(faults) => *faults.read().unwrap_or_else(PoisonError::into_inner),
            None => ActiveFaults::default(),
        }
    }

    /// Replaces the active faults. Does nothing where faults are off.
    pub fn set(&self, active: ActiveFaults) {
        if let Some(faults) = &self.0 {
            *faults.write().unwrap_or_else(PoisonError::into_inner) = active;
        }
    }

    /// Whether faults can become active.
    #[must_use]
    pub fn are_possible(&self) -> bool {
        self.0.is_some()
    }
}

fn watch_while_used(file: &Path, last: &mut Option<Vec<u8>>, watched: &Weak<RwLock<ActiveFaults>>) {
    loop {
        std::thread::sleep(POLL_INTERVAL);
        let Some(faults) = watched.upgrade() else { return };
        follow(file, last, &faults);
    }
}

/// Applies the content of `file` when it differs from `last`. The text is compared, not the modification time: two
/// changes may fall into one tick of the file system's clock.
fn follow(file: &Path, last: &mut Option<Vec<u8>>, faults: &RwLock<ActiveFaults>) {
    let text = match std::fs::read(file) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return tracing::warn!(file = %file.display(), %error, "cannot read the faults file"),
    };
    if text == *last {
        return;
    }
    let active = text.as_deref().map_or(Ok(ActiveFaults::default()), serde_json::from_slice);
    *last = text;
    match active {
        Ok(active) => {
            tracing::warn!(?active, "injected faults changed");
            *faults.write().unwrap_or_else(PoisonError::into_inner) = active;
        }
        Err(error) => {
            tracing::warn!(file = %file.display(), %error, "the faults file is invalid; write it again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_watched_and_invalid_content_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("faults.json");
        let (mut last, faults) = (None, RwLock::default());
        let mut say = |text: &str| {
            std::fs::write(&file, text).unwrap();
            follow(&file, &mut last, &faults);
            *faults.read().unwrap()
        };
        let full = ActiveFaults { write_error: Some(DiskError::NoSpace), ..ActiveFaults::default() };
        assert_eq!(say(r#"{"write_error": "ENOSPC"}"#), full);
        assert_eq!(say(r#"{"write_error": "ENOSP"#), full);
        assert_eq!(say(r#"{"write_eror": "EIO"}"#), full);
        let slow = ActiveFaults { fsync_delay_ms: 10, clock_offset_ms: -5, ..ActiveFaults::default() };
        assert_eq!(say(r#"{"fsync_delay_ms": 10, "clock_offset_ms": -5}"#), slow);
        std::fs::remove_file(&file).unwrap();
        follow(&file, &mut last, &faults);
        assert_eq!(*faults.read().unwrap(), ActiveFaults::default());
    }

    #[test]
    fn faults_of_an_existing_file_are_active_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("faults.json");
        std::fs::write(&file, r#"{"fsync_error": "EIO"}"#).unwrap();
        assert_eq!(Faults::from_file(file).active().fsync_error, Some(DiskError::Device));
        assert!(!Faults::off().are_possible());
    }
}
