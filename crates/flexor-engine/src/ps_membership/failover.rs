//! Failover: backups take over from lost servers, and partitions without a replica restart from a checkpoint.
//!
//! A server whose session breaks first gets a grace period. After it, in-sync replicas take over. Partitions of which the
//! server has the only replica wait longer, because a stopped or cut-off server still has its data.

use std::collections::BTreeSet;
use std::time::Duration;

use flexor_model::Reason;

use super::fact::Fact;
use super::partition_map::{Partition, PartitionReplicas, Source};
use super::server::{ServerId, ServerState};
use super::transfers::TransferPhase;
use super::{Cause, PsMembership, balance};
use crate::natural_order;

/// How long a server without a session has to reconnect before other replicas take over.
const GRACE: Duration = Duration::from_secs(2);
/// Further time for a server that has the only replica of a partition. Partitions without a primary wait as long for
/// missing servers to join before the present ones restore them.
const WAIT_FOR_REPLACEMENT: Duration = Duration::from_secs(5);

/// What happens to a partition whose replicas are all on lost servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SoleReplica {
    /// It waits for a server to reconnect. A replica on another disconnected server counts as lost too.
    Wait,
    /// It has no primary any more.
    Orphan,
}

impl PsMembership {
    /// The session of a server broke.
    pub fn disconnect_server(&mut self, server: &ServerId, now: Duration) {
        self.clock.advance(now);
        let until = self.clock.now() + GRACE;
        if let Some(state) = self.server_mut(server) {
            state.reconnect_by = Some(until);
        }
    }

    /// The controller reports that a server is gone for good.
    pub fn remove_server(&mut self, server: &ServerId, cause: &Cause, now: Duration, facts: &mut Vec<Fact>) {
        self.clock.advance(now);
        if self.server_mut(server).is_some() {
            self.registered.remove(&server.name);
        }
        self.fail_over_removed(cause, facts);
        self.reconcile(facts);
    }

    /// A primary cannot reach the backup of partitions, or the backup rejects it. All partitions change in one map.
    pub fn drop_unreachable_backups(
        &mut self,
        primary: &ServerId,
        partitions: &[Partition],
        backup: &ServerId,
        now: Duration,
        facts: &mut Vec<Fact>,
    ) {
        self.clock.advance(now);
        let is_current = |replicas: &PartitionReplicas| {
            replicas.primary.as_ref() == Some(primary) && replicas.backup.as_ref() == Some(backup)
        };
        let named = partitions.iter().filter_map(|partition| Some((*partition, self.map.replicas(*partition)?)));
        let changed: Vec<(Partition, PartitionReplicas)> = named
            .filter(|(_, replicas)| is_current(replicas))
            .map(|(partition, replicas)| (partition, PartitionReplicas { backup: None, ..replicas.clone() }))
            .collect();
        if changed.is_empty() {
            return;
        }
        let cause = Cause::new(Reason::BackupUnreachable, format!("{primary} cannot reach its backup {backup}"));
        self.publish_map(changed, cause, facts);
        self.reconcile(facts);
    }

    /// Replaces servers whose time to reconnect is over: first where other replicas exist, later everywhere.
    pub(super) fn expire_disconnected(&mut self, facts: &mut Vec<Fact>) {
        let now = self.clock.now();
        if self.registered.values().all(|state| state.reconnect_by.is_some()) {
            // Probably the master is cut off, and no server could take over anyway.
            let deadlines = self.registered.values_mut().filter_map(|state| state.reconnect_by.as_mut());
            deadlines.for_each(|until| *until = (*until).max(now + GRACE));
            return;
        }
        let disconnected = self.registered.iter().filter_map(|(name, state)| {
            Some((ServerId { name: name.clone(), incarnation: state.incarnation }, state.reconnect_by?))
        });
        let expired: Vec<(ServerId, Duration)> = disconnected.filter(|(_, until)| now >= *until).collect();
        for (server, until) in expired {
            let cause = Cause::new(Reason::ServerLost, format!("{server} lost its connection and did not come back"));
            self.fail_over(|other| *other != server, SoleReplica::Wait, &cause, facts);
            if now >= until + WAIT_FOR_REPLACEMENT || self.is_drained(&server.name) {
                self.registered.remove(&server.name);
                self.fail_over_removed(&cause, facts);
                // The wait for this server counts as the wait for its replacement.
                self.orphaned_at = self.orphaned_at.map(|since| since.min(until));
            }
        }
    }

    /// Takes unregistered servers out of the map: their backups take over at once.
    pub(super) fn fail_over_removed(&mut self, cause: &Cause, facts: &mut Vec<Fact>) {
        let registered: BTreeSet<ServerId> = self.servers().collect();
        self.fail_over(|server| registered.contains(server), SoleReplica::Orphan, cause, facts);
        let has_orphans = self.map.partitions.iter().any(|replicas| replicas.primary.is_none());
        self.orphaned_at = has_orphans.then(|| self.orphaned_at.unwrap_or(self.clock.now()));
    }

    /// Takes servers that are not `alive` out of the map where an alive server has the same data.
    fn fail_over(
        &mut self,
        alive: impl Fn(&ServerId) -> bool,
        sole: SoleReplica,
        cause: &Cause,
        facts: &mut Vec<Fact>,
    ) {
        let mut changed = Vec::new();
        for (partition, replicas) in self.map.iter() {
            let primary = replicas.primary.clone().filter(&alive);
            let backup = replicas.backup.clone().filter(&alive);
            // The receiver of a transfer that is in sync has everything too.
            let receiver =
                || self.in_sync_receiver(partition).filter(|server| alive(server) && self.is_registered(server));
            let after = match primary {
                Some(primary) => PartitionReplicas { primary: Some(primary), backup, ..replicas.clone() },
                None => {
                    // Prefer a connected server: a disconnected one may never reconnect.
                    let successors: Vec<ServerId> = backup.into_iter().chain(receiver()).collect();
                    let connected = successors.iter().find(|server| self.is_connected(server));
                    let primary = connected.or(successors.first()).cloned();
                    PartitionReplicas { primary, backup: None, ..replicas.clone() }
                }
            };
            let is_decided = match sole {
                SoleReplica::Orphan => true,
                SoleReplica::Wait => after.primary.as_ref().is_some_and(|primary| self.is_connected(primary)),
            };
            if is_decided && after != *replicas {
                changed.push((partition, after));
            }
        }
        if !changed.is_empty() {
            self.publish_map(changed, cause.clone(), facts);
        }
    }

    fn in_sync_receiver(&self, partition: Partition) -> Option<ServerId> {
        let transfer = self.transfers.get(&partition)?;
        let primary = self.map.replicas(partition)?.primary.as_ref()?;
        let is_in_sync = match transfer.phase {
            TransferPhase::Syncing => false,
            TransferPhase::InSync | TransferPhase::Freezing | TransferPhase::Frozen => true,
        };
        (is_in_sync && transfer.from == *primary).then(|| transfer.to.clone())
    }

    /// Assigns partitions without a primary to servers, restored from the last checkpoint or from the initial values.
    pub(super) fn restore_orphans(&mut self, facts: &mut Vec<Fact>) {
        let servers = self.connected_servers();
        let Some(since) = self.orphaned_at.filter(|_| !servers.is_empty()) else { return };
        let is_complete = self.desired.expected.is_none_or(|expected| servers.len() >= expected as usize);
        if !is_complete && self.clock.now() < since + WAIT_FOR_REPLACEMENT {
            return;
        }
        self.orphaned_at = None;
        let from = match self.restore_source() {
            Source::Initial => "their initial values".to_owned(),
            Source::Checkpoint(number) => format!("checkpoint {number}"),
        };
        let targets = balance::targets(&self.map, &servers, self.settings.replication_factor);
        let rewinds = self.is_synchronous();
        let restart = |(partition, replicas): (Partition, &PartitionReplicas)| {
            let target = targets.get(partition.0 as usize)?;
            let is_lost = replicas.primary.is_none();
            let primary = if is_lost { target.primary.clone() } else { replicas.primary.clone()? };
            // Primary and backup start from the same values, so the backup is in sync.
            let backup = target.backup.clone().filter(|backup| *backup != primary);
            let generation = self.next_generation(replicas);
            let restarted = PartitionReplicas { primary: Some(primary), backup, generation, ..replicas.clone() };
            (is_lost || rewinds).then_some((partition, restarted))
        };
        let changed: Vec<(Partition, PartitionReplicas)> = self.map.iter().filter_map(restart).collect();
        let lost = self.count_without_primary();
        let all = if rewinds { "; all others are rewound with them" } else { "" };
        let cause =
            Cause::new(Reason::PartitionsRestored, format!("{lost} partitions were lost and restart from {from}{all}"));
        self.publish_map(changed, cause.clone(), facts);
        if rewinds {
            let checkpoint = self.checkpoints.last().map(|latest| latest.number);
            self.decide(Fact::Rewound { checkpoint, cause }, facts);
        }
    }

    /// Connected servers that may keep partitions, in natural order of their names.
    pub(super) fn connected_servers(&self) -> Vec<ServerId> {
        self.candidates(|state| state.reconnect_by.is_none())
    }

    /// The same, with servers that may still reconnect: nothing moves because of a short disconnection.
    pub(super) fn registered_servers(&self) -> Vec<ServerId> {
        self.candidates(|_| true)
    }

    fn candidates(&self, is_eligible: impl Fn(&ServerState) -> bool) -> Vec<ServerId> {
        let eligible = self.registered.iter().filter(|(_, state)| is_eligible(state));
        let id = |(name, state): (&std::sync::Arc<str>, &ServerState)| ServerId {
            name: name.clone(),
            incarnation: state.incarnation,
        };
        let mut servers: Vec<ServerId> = eligible.clone().filter(|(name, _)| !self.is_leaving(name)).map(id).collect();
        if servers.is_empty() {
            // Leaving servers keep the partitions until there is another one.
            servers = eligible.map(id).collect();
        }
        servers.sort_by(|one, other| natural_order::compare(&one.name, &other.name));
        servers
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Story, server};
    use super::super::{Mode, Partition};

    #[test]
    fn a_master_that_is_cut_off_removes_no_server() {
        for replication_factor in [1, 2] {
            let mut story = Story::start(replication_factor, Mode::Sync, &["ps-0", "ps-1"]);
            let map = story.members.map().clone();
            story.members.disconnect_server(&server("ps-0"), story.now);
            story.members.disconnect_server(&server("ps-1"), story.now);
            story.advance(60);
            assert_eq!(*story.members.map(), map, "the servers have everything");
            story.connect("ps-1", 1);
            story.advance(1);
            assert_eq!(*story.members.map(), map, "the other has had no time to reconnect");
            story.connect("ps-0", 1);
            story.advance(60);
            assert_eq!(*story.members.map(), map);
        }
    }

    #[test]
    fn all_unreachable_backups_of_a_primary_are_dropped_in_one_map() {
        let mut story = Story::start(2, Mode::Async, &["ps-0", "ps-1"]);
        let map = story.members.map().clone();
        let (zero, one) = (server("ps-0"), server("ps-1"));
        let all: Vec<Partition> = map.iter().map(|(partition, _)| partition).collect();
        story.members.drop_unreachable_backups(&zero, &all, &one, story.now, &mut story.facts);
        assert_eq!(story.members.map().epoch.0, map.epoch.0 + 1);
        for (replicas, before) in story.members.map().partitions.iter().zip(&map.partitions) {
            let is_lost = before.primary.as_ref() == Some(&zero);
            assert_eq!(
                replicas.backup,
                if is_lost { None } else { before.backup.clone() },
                "other primaries report for themselves"
            );
        }
        let after = story.members.map().clone();
        story.members.drop_unreachable_backups(&zero, &all, &one, story.now, &mut story.facts);
        assert_eq!(*story.members.map(), after, "a repeated report changes nothing");
        story.run_orders();
        assert!(story.members.is_fully_replicated());
    }

    #[test]
    fn a_disconnected_server_takes_over_nothing() {
        let mut story = Story::start(2, Mode::Async, &["ps-0", "ps-1", "ps-2"]);
        let map = story.members.map().clone();
        story.members.disconnect_server(&server("ps-0"), story.now);
        story.members.disconnect_server(&server("ps-1"), story.now);
        story.advance(4);
        let of_both = |name: &str| [server("ps-0"), server("ps-1")].contains(&server(name));
        for (replicas, before) in story.members.map().partitions.iter().zip(&map.partitions) {
            let (Some(primary), Some(backup)) = (&before.primary, &before.backup) else {
                panic!("every partition has two replicas")
            };
            match of_both(&primary.name) && of_both(&backup.name) {
                true => assert_eq!(replicas, before, "either server may reconnect with it"),
                false => assert_eq!(replicas.primary, Some(server("ps-2")), "it is connected and in sync"),
            }
        }
        story.connect("ps-0", 1);
        story.connect("ps-1", 1);
        story.advance(10);
        story.run_orders();
        assert!(story.members.is_fully_replicated());
        assert_eq!(story.members.restorations().0, 0, "nothing was lost");
    }
}
