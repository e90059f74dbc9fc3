//! The faults of one job's master: a file that the master follows while it runs, and reads again after a restart.

use std::fs;
use std::io;
use std::path::Path;

use serde::Serialize;

use crate::atomic_file;

/// The content of a master's fault file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct MasterFaults {
    /// Every fsync takes this much longer.
    pub fsync_delay_ms: u64,
    pub clock_offset_ms: i64,
    /// Every write fails with this errno.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_error: Option<&'static str>,
}

/// The faults of a master that are active now. They may overlap.
#[derive(Debug, Default)]
pub(super) struct ActiveMasterFaults {
    /// How many faults keep its disk full.
    full: u32,
    /// The delay of each fault that slows its disk.
    delays: Vec<u64>,
    clock_offset_ms: i64,
}

impl ActiveMasterFaults {
    pub(super) fn fill(&mut self) {
        self.full += 1;
    }

    pub(super) fn make_room(&mut self) {
        self.full = self.full.saturating_sub(1);
    }

    pub(super) fn slow(&mut self, by_ms: u64) {
        self.delays.push(by_ms);
    }

    pub(super) fn speed_up(&mut self, by_ms: u64) {
        if let Some(index) = self.delays.iter().position(|known| *known == by_ms) {
            self.delays.swap_remove(index);
        }
    }

    pub(super) fn jump(&mut self, by_ms: i64) {
        self.clock_offset_ms = self.clock_offset_ms.saturating_add(by_ms);
    }

    /// The file's content: the longest delay, and a full disk if any fault fills it.
    pub(super) fn faults(&self) -> MasterFaults {
        MasterFaults {
            fsync_delay_ms: self.delays.iter().copied().max().unwrap_or(0),
            clock_offset_ms: self.clock_offset_ms,
            write_error: (self.full > 0).then_some("ENOSPC"),
        }
    }
}

impl MasterFaults {
    /// Writes the file that the master follows, whole or not at all.
    ///
    /// # Errors
    ///
    /// The disk refuses.
    pub(super) fn write(&self, file: &Path) -> io::Result<()> {
        fs::create_dir_all(file.parent().unwrap_or(file))?;
        atomic_file::write(file, self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_faults_hold_until_the_last_has_ended() {
        let mut active = ActiveMasterFaults::default();
        active.fill();
        active.fill();
        active.slow(50);
        active.slow(200);
        active.make_room();
        active.speed_up(200);
        let faults = active.faults();
        assert_eq!((faults.write_error, faults.fsync_delay_ms), (Some("ENOSPC"), 50));
        active.make_room();
        active.speed_up(50);
        assert_eq!(active.faults(), MasterFaults::default());
    }

    #[test]
    fn clock_jumps_add_up_and_stay() {
        let mut active = ActiveMasterFaults::default();
        active.jump(5_000);
        active.jump(-7_000);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("chaos/job.json");
        active.faults().write(&file).unwrap();
        assert_eq!(fs::read_to_string(file).unwrap(), r#"{"fsync_delay_ms":0,"clock_offset_ms":-2000}"#);
    }
}
