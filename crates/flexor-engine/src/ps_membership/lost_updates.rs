//! Counts lost updates: updates acknowledged to clients that a new generation of a partition does not contain.
//!
//! Workers report the versions that servers acknowledged to them; servers report the version that a generation starts
//! with. The difference is lost.

use std::collections::BTreeMap;
use std::time::Duration;

use super::PsMembership;
use super::fact::Fact;
use super::partition_map::Partition;

/// How often acknowledged versions go to the journal. The next master needs them if the acknowledged workers are gone.
const PERSIST_EVERY: Duration = Duration::from_secs(2);

/// Versions by partition and generation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Versions {
    /// The highest version acknowledged to a client.
    acknowledged: BTreeMap<(Partition, u64), u64>,
    /// The version that the generation started with.
    started: BTreeMap<(Partition, u64), u64>,
    /// Some acknowledged version is not in the journal.
    is_dirty: bool,
    persisted_at: Duration,
}

/// Generation of a partition, and its highest acknowledged version.
pub(super) type AcknowledgedEntry = (u64, u64);

impl PsMembership {
    /// A worker reports a version that a server acknowledged. The generation may be over already.
    pub fn record_acknowledged(&mut self, partition: Partition, generation: u64, version: u64, facts: &mut Vec<Fact>) {
        let known = self.versions.acknowledged.entry((partition, generation)).or_default();
        self.versions.is_dirty |= *known < version;
        *known = (*known).max(version);
        self.count_lost(partition, generation, facts);
    }

    pub fn acknowledged_version(&self, partition: Partition, generation: u64) -> Option<u64> {
        self.versions.acknowledged.get(&(partition, generation)).copied()
    }

    /// Journals the acknowledged versions of current generations, if that is due.
    pub fn persist_acknowledged(&mut self, now: Duration, facts: &mut Vec<Fact>) {
        self.clock.advance(now);
        if !self.versions.is_dirty || self.clock.now() < self.versions.persisted_at + PERSIST_EVERY {
            return;
        }
        (self.versions.is_dirty, self.versions.persisted_at) = (false, self.clock.now());
        let acknowledged = self.map.iter().filter_map(|(partition, replicas)| {
            let generation = replicas.generation.number;
            Some((partition, generation, *self.versions.acknowledged.get(&(partition, generation))?))
        });
        let acknowledged = acknowledged.collect();
        self.decide(Fact::VersionsAcknowledged { acknowledged }, facts);
    }

    pub(super) fn apply_acknowledged(&mut self, acknowledged: &[(Partition, u64, u64)]) {
        for (partition, generation, version) in acknowledged {
            self.persisted_acknowledged.insert(*partition, (*generation, *version));
        }
        self.load_persisted();
    }

    /// Takes over the versions that earlier masters journalled.
    pub(super) fn load_persisted(&mut self) {
        for (partition, (generation, version)) in &self.persisted_acknowledged {
            let known = self.versions.acknowledged.entry((*partition, *generation)).or_default();
            *known = (*known).max(*version);
        }
    }

    /// A generation of a partition has started with this version.
    pub fn record_generation_start(
        &mut self,
        partition: Partition,
        generation: u64,
        version: u64,
        facts: &mut Vec<Fact>,
    ) {
        self.versions.started.insert((partition, generation), version);
        // The updates it starts with were acknowledged earlier. They are lost too if this generation is lost before any
        // further acknowledgement.
        self.record_acknowledged(partition, generation, version, facts);
        let earlier = self.versions.acknowledged.range((partition, 0)..(partition, generation));
        let earlier: Vec<u64> = earlier.map(|((_, earlier), _)| *earlier).collect();
        for generation in earlier {
            self.count_lost(partition, generation, facts);
        }
    }

    /// Acknowledged updates that the model does not contain any more, over all partitions.
    pub fn lost_updates(&self) -> u64 {
        self.lost.values().flat_map(BTreeMap::values).sum()
    }

    fn count_lost(&mut self, partition: Partition, generation: u64, facts: &mut Vec<Fact>) {
        let Some(acknowledged) = self.acknowledged_version(partition, generation) else { return };
        let later = (partition, generation + 1)..=(partition, u64::MAX);
        let Some(started) = self.versions.started.range(later).next().map(|(_, version)| *version) else { return };
        let updates = acknowledged.saturating_sub(started);
        let known = self.lost.get(&partition).and_then(|lost| lost.get(&generation)).copied().unwrap_or(0);
        if updates > known {
            self.decide(Fact::UpdatesLost { partition, generation, updates }, facts);
        }
    }

    pub(super) fn apply_lost(&mut self, partition: Partition, generation: u64, updates: u64) {
        self.lost.entry(partition).or_default().insert(generation, updates);
    }
}
