//! Decides what a backup does with a replicated change.
//!
//! Servers learn of new partition maps at different times and may skip some. So the sender may no longer be primary, or may
//! be primary by a map that this server does not know yet. The contents that the change follows may be here, on their way,
//! or cancelled. The decision is a pure function of what this server knows.

use flexor_model::MapEpoch;
use flexor_wire::ps::v1 as wire;

use super::inbox::PartitionInbox;
use crate::server::replica_state::{ReplicaRole, ReplicaState};
use crate::server::sequence::{PartitionGeneration, SequenceNumber, SyncId};

/// A replicated change of one partition.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReplicatedChange {
    pub(super) sequence: SequenceNumber,
    /// The sync that the change follows; none for a backup that started in sync.
    pub(super) sync_id: Option<SyncId>,
    /// Epoch of the map that makes the sender primary.
    pub(super) map_epoch: MapEpoch,
}

impl ReplicatedChange {
    pub(super) fn of(part: &wire::ReplicatedPart) -> Self {
        let sequence = SequenceNumber { generation: PartitionGeneration(part.generation), number: part.sequence };
        Self { sequence, sync_id: part.sync_id.map(SyncId), map_epoch: MapEpoch(part.map_epoch) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Disposition {
    /// The sender is no longer primary, and must not count the change as applied.
    Reject,
    /// There is nothing to do: the contents here include the change, or its sync is cancelled.
    Skip,
    /// The change is applied after its predecessors. The sender waits for that.
    Queue,
    /// The same, for an incomplete sync. The sender does not wait: the sync completes only with the change.
    QueueForSync,
}

impl Disposition {
    pub(super) fn of(change: &ReplicatedChange, replica: &ReplicaState, inbox: &PartitionInbox) -> Self {
        let sender_knows_more = change.map_epoch > replica.map_epoch;
        let is_primary = replica.role == ReplicaRole::Primary;
        if change.map_epoch < replica.primary_since || (is_primary && !sender_knows_more) {
            return Self::Reject;
        }
        let is_for_contents_here = inbox.is_for_contents_here(change.sync_id);
        let is_pointless = match change.sync_id {
            Some(sync_id) => sync_id <= inbox.cancelled_up_to && !is_for_contents_here,
            // This server was a backup, and is none any more.
            None => replica.role == ReplicaRole::Absent && !sender_knows_more,
        };
        // A change of a sync that is still to come does not compare with the contents here, which may be from an earlier
        // primary. Nor do the contents of a primary that is about to be replaced compare with its successor's changes.
        let last_applied = replica.last_applied;
        let is_included = is_for_contents_here
            && change.sequence.generation == last_applied.generation
            && change.sequence <= last_applied;
        let is_old = !is_primary && (change.sequence.generation < last_applied.generation || is_included);
        match is_for_contents_here {
            _ if is_pointless || is_old => Self::Skip,
            true => Self::Queue,
            false => Self::QueueForSync,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::inbox::InstalledSync;
    use super::*;

    const CANCELLED: Option<SyncId> = Some(SyncId(3));
    const INSTALLED: Option<SyncId> = Some(SyncId(5));
    const INCOMING: Option<SyncId> = Some(SyncId(7));
    const FROM_THE_START: Option<SyncId> = None;

    /// The server knows map 10; the primary was appointed in map 8. The contents include change 4 of generation 2. Sync 5
    /// is installed; sync 4 and the earlier ones are cancelled.
    fn disposition(
        role: ReplicaRole,
        map: u64,
        sync_id: Option<SyncId>,
        (generation, number): (u64, u64),
    ) -> Disposition {
        let sequence = |generation, number| SequenceNumber { generation: PartitionGeneration(generation), number };
        let replica = ReplicaState {
            role,
            map_epoch: MapEpoch(10),
            primary_since: MapEpoch(8),
            // A server without a role may still have the contents of a sync that the map has not made its own yet.
            last_applied: sequence(2, 4),
            ..ReplicaState::default()
        };
        let installed = Some(InstalledSync { sync_id: SyncId(5), map_epoch: MapEpoch(8) });
        let inbox = PartitionInbox { installed, cancelled_up_to: SyncId(4), ..PartitionInbox::default() };
        let change = ReplicatedChange { sequence: sequence(generation, number), sync_id, map_epoch: MapEpoch(map) };
        Disposition::of(&change, &replica, &inbox)
    }

    #[test]
    fn the_disposition_depends_on_role_map_sync_and_sequence_number() {
        use Disposition::{Queue, QueueForSync, Reject, Skip};
        use ReplicaRole::{Absent, Backup, Primary};
        let table = [
            // A backup, and the current primary.
            (Backup, 8, INSTALLED, (2, 5), Queue, "the next change"),
            (Backup, 8, INSTALLED, (2, 9), Queue, "a later change, which waits for its predecessors"),
            (Backup, 8, INSTALLED, (2, 4), Skip, "the contents include it"),
            (Backup, 9, FROM_THE_START, (2, 5), Queue, "the primary has learnt that the sync is complete"),
            (Backup, 9, FROM_THE_START, (2, 3), Skip, "the contents include it"),
            (Backup, 8, CANCELLED, (2, 5), Skip, "its sync is cancelled"),
            (Backup, 8, INCOMING, (2, 3), QueueForSync, "a sync that is to come does not compare with the contents"),
            (Backup, 8, INSTALLED, (1, 9), Skip, "of an earlier generation"),
            (Backup, 11, FROM_THE_START, (3, 1), Queue, "of a generation that is not known here yet"),
            // A former primary.
            (Backup, 7, INSTALLED, (2, 5), Reject, "another server is primary since map 8"),
            (Absent, 7, INCOMING, (2, 5), Reject, "another server is primary since map 8"),
            (Primary, 7, FROM_THE_START, (2, 5), Reject, "this server is primary since map 8"),
            (Primary, 10, INSTALLED, (2, 5), Reject, "a map has one primary"),
            // The next primary, by a map that this server does not know yet.
            (Primary, 11, FROM_THE_START, (2, 5), Queue, "it may be a backup by then"),
            (Primary, 11, FROM_THE_START, (2, 2), Queue, "its contents do not compare with its successor's changes"),
            (Primary, 11, INCOMING, (2, 5), QueueForSync, "it gets a sync by then"),
            (Primary, 11, CANCELLED, (2, 5), Skip, "its sync is cancelled"),
            (Absent, 11, FROM_THE_START, (2, 5), Queue, "it may be a backup by then"),
            // A server without a role by the map.
            (Absent, 10, FROM_THE_START, (2, 5), Skip, "it was a backup, and is none any more"),
            (Absent, 10, INCOMING, (2, 5), QueueForSync, "a sync is on its way"),
            (Absent, 10, INSTALLED, (2, 5), Queue, "a sync is installed that the map does not name yet"),
            (Absent, 10, CANCELLED, (2, 5), Skip, "its sync is cancelled"),
        ];
        for (role, map, sync_id, sequence, expected, why) in table {
            let actual = disposition(role, map, sync_id, sequence);
            assert_eq!(actual, expected, "{role:?} {sync_id:?} {sequence:?} by map {map}: {why}");
        }
    }
}
