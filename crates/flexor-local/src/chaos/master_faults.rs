//! The faults of one job's master: a file that the master follows while it runs, and finds again when it is started again.

use std::fs;
use std::io;
use std::path::Path;

use serde::Serialize;

use crate::whole_file;

/// What holds for a master, in the words of its faults file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct MasterFaults {
    /// Every fsync takes this much longer.
    pub fsync_delay_ms: u64,
    /// How far the clock is off.
    pub clock_offset_ms: i64,
    /// Every write fails with this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_error: Option<&'static str>,
}

/// What was done to a master and is not over.
#[derive(Debug, Default)]
pub(super) struct Harm {
    /// How many acts keep its disk full.
    full: u32,
    /// By how much each of these acts slows its disk.
    delays: Vec<u64>,
    clock_offset_ms: i64,
}

impl Harm {
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

    /// What follows for the master.
    pub(super) fn faults(&self) -> MasterFaults {
        MasterFaults {
            fsync_delay_ms: self.delays.iter().copied().max().unwrap_or(0),
            clock_offset_ms: self.clock_offset_ms,
            write_error: (self.full > 0).then_some("ENOSPC"),
        }
    }
}

impl MasterFaults {
    /// Tells the master that follows `file`; it always finds a whole one.
    ///
    /// # Errors
    ///
    /// The disk refuses.
    pub(super) fn tell(&self, file: &Path) -> io::Result<()> {
        fs::create_dir_all(file.parent().unwrap_or(file))?;
        whole_file::write(file, self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acts_that_overlap_hold_until_the_last_is_over() {
        let mut harm = Harm::default();
        harm.fill();
        harm.fill();
        harm.slow(50);
        harm.slow(200);
        harm.make_room();
        harm.speed_up(200);
        let faults = harm.faults();
        assert_eq!((faults.write_error, faults.fsync_delay_ms), (Some("ENOSPC"), 50));
        harm.make_room();
        harm.speed_up(50);
        assert_eq!(harm.faults(), MasterFaults::default());
    }

    #[test]
    fn a_clock_that_has_jumped_stays_there() {
        let mut harm = Harm::default();
        harm.jump(5_000);
        harm.jump(-7_000);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("chaos/job.json");
        harm.faults().tell(&file).unwrap();
        assert_eq!(fs::read_to_string(file).unwrap(), r#"{"fsync_delay_ms":0,"clock_offset_ms":-2000}"#);
    }
}
