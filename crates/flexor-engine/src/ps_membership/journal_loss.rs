//! What a lost part of the journal means for the partition map: servers know maps that the master has forgotten, and
//! ignore a map of a lower epoch.

use super::{Fact, PsMembership};

/// More map changes than the unreadable part of a journal can hold.
const SKIPPED_EPOCHS: u64 = 1 << 20;

impl PsMembership {
    /// Continues with epochs that no server has seen. `behind` are facts that were found behind the damage.
    pub fn skip_lost_epochs(&mut self, behind: &[Fact]) {
        let seen = behind.iter().filter_map(|fact| match fact {
            Fact::MapChanged { epoch, .. } => Some(epoch.0),
            Fact::ModelDeclared { .. }
            | Fact::CheckpointStarted { .. }
            | Fact::CheckpointCompleted { .. }
            | Fact::CheckpointDamaged { .. }
            | Fact::UpdatesLost { .. }
            | Fact::VersionsAcknowledged { .. }
            | Fact::GenerationsStarted { .. }
            | Fact::Rewound { .. } => None,
        });
        let last = seen.max().unwrap_or(0).max(self.map.epoch.0).max(self.epoch_floor);
        self.epoch_floor = last.saturating_add(SKIPPED_EPOCHS);
        if self.map.epoch.0 > 0 {
            self.map.epoch.0 = self.epoch_floor;
        }
    }
}

#[cfg(test)]
mod tests {
    use flexor_model::MapEpoch;

    use super::*;
    use crate::Cause;

    #[test]
    fn the_next_map_is_newer_than_every_lost_one() {
        let changed = |epoch: u64| Fact::MapChanged {
            epoch: MapEpoch(epoch),
            changed: Vec::new(),
            cause: Cause::new(flexor_model::Reason::PsMembershipFormed, ""),
        };
        let mut members = PsMembership::default();
        members.skip_lost_epochs(&[changed(7), changed(9)]);
        assert_eq!(members.map.epoch, MapEpoch(0), "there is no map yet");
        assert!(members.epoch_floor > 9);
        let mut members = PsMembership::default();
        members.replay(&changed(3));
        members.skip_lost_epochs(&[]);
        assert!(members.map.epoch.0 > 1000, "servers at a later map take this one");
    }
}
