//! How many updates were lost with partitions that began again: what clients were answered for, less what a checkpoint
//! had.

use std::collections::BTreeMap;
use std::time::Duration;

use super::PsMembers;
use super::fact::Fact;
use super::map::Partition;

/// How often it is written down what clients were answered with: the next master knows it too, should those who were
/// answered be gone by then.
const KEEP_EVERY: Duration = Duration::from_secs(2);

/// What is known of the beginnings of partitions, by partition and number of the beginning.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Versions {
    /// The highest version that a client was answered with.
    answered: BTreeMap<(Partition, u64), u64>,
    /// The version that it began with.
    begun: BTreeMap<(Partition, u64), u64>,
    /// There is something that was not written down since then.
    unkept: bool,
    kept_at: Duration,
}

/// The beginning of a partition, and the highest version of it that a client was answered with.
pub(super) type KeptAnswer = (u64, u64);

impl PsMembers {
    /// A client was answered with this version of a partition, before it began again.
    pub fn answered(&mut self, partition: Partition, origin: u64, version: u64, facts: &mut Vec<Fact>) {
        let known = self.versions.answered.entry((partition, origin)).or_default();
        self.versions.unkept |= *known < version;
        *known = (*known).max(version);
        self.count_lost(partition, origin, facts);
    }

    /// The highest version that a client was answered with, of a beginning of a partition.
    pub fn answered_version(&self, partition: Partition, origin: u64) -> Option<u64> {
        self.versions.answered.get(&(partition, origin)).copied()
    }

    /// Writes down what clients were answered with, if that is due.
    pub fn keep_answers(&mut self, now: Duration, facts: &mut Vec<Fact>) {
        self.clock.advance(now);
        if !self.versions.unkept || self.clock.now() < self.versions.kept_at + KEEP_EVERY {
            return;
        }
        (self.versions.unkept, self.versions.kept_at) = (false, self.clock.now());
        let answered = self.map.iter().filter_map(|(partition, seat)| {
            let origin = seat.origin.number;
            Some((partition, origin, *self.versions.answered.get(&(partition, origin))?))
        });
        let answered = answered.collect();
        self.decide(Fact::Answered { answered }, facts);
    }

    pub(super) fn apply_answered(&mut self, answered: &[(Partition, u64, u64)]) {
        for (partition, origin, version) in answered {
            self.kept_answers.insert(*partition, (*origin, *version));
        }
        self.recall_answers();
    }

    /// What masters before this one have written down.
    pub(super) fn recall_answers(&mut self) {
        for (partition, (origin, version)) in &self.kept_answers {
            let known = self.versions.answered.entry((*partition, *origin)).or_default();
            *known = (*known).max(*version);
        }
    }

    /// A partition has begun with this version.
    pub fn begun(&mut self, partition: Partition, origin: u64, version: u64, facts: &mut Vec<Fact>) {
        self.versions.begun.insert((partition, origin), version);
        // What it begins with was answered for before; it is lost too if this beginning is, before anybody is answered.
        self.answered(partition, origin, version, facts);
        let before: Vec<u64> =
            self.versions.answered.range((partition, 0)..(partition, origin)).map(|((_, before), _)| *before).collect();
        for origin in before {
            self.count_lost(partition, origin, facts);
        }
    }

    /// How many updates were lost: of each partition those that some client was answered for and that are in no model
    /// any more.
    pub fn updates_lost(&self) -> u64 {
        self.lost.values().flat_map(BTreeMap::values).sum()
    }

    fn count_lost(&mut self, partition: Partition, origin: u64, facts: &mut Vec<Fact>) {
        let Some(answered) = self.versions.answered.get(&(partition, origin)).copied() else { return };
        let after = (partition, origin + 1)..=(partition, u64::MAX);
        let Some(begun) = self.versions.begun.range(after).next().map(|(_, version)| *version) else { return };
        let updates = answered.saturating_sub(begun);
        let known = self.lost.get(&partition).and_then(|lost| lost.get(&origin)).copied().unwrap_or(0);
        if updates > known {
            self.decide(Fact::Lost { partition, origin, updates }, facts);
        }
    }

    pub(super) fn apply_lost(&mut self, partition: Partition, origin: u64, updates: u64) {
        self.lost.entry(partition).or_default().insert(origin, updates);
    }
}
