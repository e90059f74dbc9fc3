//! Counts lost updates: updates of acknowledged batches that a new generation of a partition does not contain.
//!
//! A version of a partition is one update. A worker that acknowledges a batch also reports the versions of its updates.
//! Both reach the journal in this order, so no batch counts as trained without its versions. Servers report the version
//! that a generation starts with. Acknowledged versions above it are lost. An update of a batch that nobody acknowledged is
//! not lost: its worker, or another one, pushes the batch again.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use flexor_model::Spans;
use flexor_model::spans::MOST_VERSION_RANGES;
use serde::{Deserialize, Serialize};

use super::PsMembership;
use super::fact::Fact;
use super::partition_map::Partition;

/// Generations of a partition whose versions are kept. Reports about earlier ones are ignored.
pub const MOST_GENERATIONS: usize = 8;

/// The versions of one generation of a partition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct GenerationVersions {
    /// The version that the generation started with, once a server has reported it.
    started: Option<u64>,
    /// Of updates of acknowledged batches.
    acknowledged: Spans,
}

/// Versions by generation. A change of the partition map adds a generation, a report does not.
pub(super) type Generations = BTreeMap<u64, GenerationVersions>;

impl PsMembership {
    /// A worker reports versions by partition and generation. The generation may be over already.
    pub fn record_acknowledged(
        &mut self,
        reported: impl IntoIterator<Item = (Partition, u64, Spans)>,
        facts: &mut Vec<Fact>,
    ) {
        // Most partitions have the same number of updates, so few entries say it all.
        let mut new: BTreeMap<(u64, Vec<(u64, u64)>), Spans> = BTreeMap::new();
        let mut replaced = BTreeSet::new();
        for (partition, generation, mut versions) in reported {
            let Some(generations) = self.versions.get(&partition) else { continue };
            let Some(known) = generations.get(&generation) else { continue };
            versions.join_lowest(MOST_VERSION_RANGES);
            let unknown: Vec<(u64, u64)> = versions
                .iter()
                .filter(|range| !known.acknowledged.covers(range))
                .map(|range| (range.start, range.end))
                .collect();
            if unknown.is_empty() {
                continue;
            }
            if is_replaced(generations, generation) {
                replaced.insert(partition);
            }
            let partitions = new.entry((generation, unknown)).or_default();
            partitions.insert(u64::from(partition.0)..u64::from(partition.0) + 1);
        }
        if new.is_empty() {
            return;
        }
        let acknowledged =
            new.into_iter().map(|((generation, versions), partitions)| (generation, versions.into(), partitions));
        self.decide(Fact::VersionsAcknowledged { acknowledged: acknowledged.collect() }, facts);
        self.count_lost_updates(replaced, facts);
    }

    /// Servers report the versions that generations of partitions started with.
    pub fn record_generation_starts(
        &mut self,
        reported: impl IntoIterator<Item = (Partition, u64, u64)>,
        facts: &mut Vec<Fact>,
    ) {
        let is_new = |(partition, generation, version): &(Partition, u64, u64)| {
            let known = self.versions.get(partition).and_then(|generations| generations.get(generation));
            known.is_some_and(|known| known.started != Some(*version))
        };
        let started: Vec<(Partition, u64, u64)> = reported.into_iter().filter(is_new).collect();
        if started.is_empty() {
            return;
        }
        let partitions = started.iter().map(|(partition, ..)| *partition).collect();
        self.decide(Fact::GenerationsStarted { started }, facts);
        self.count_lost_updates(partitions, facts);
    }

    /// The highest version of a generation that is acknowledged, or that it started with.
    pub fn acknowledged_version(&self, partition: Partition, generation: u64) -> Option<u64> {
        let versions = self.versions.get(&partition)?.get(&generation)?;
        versions.started.max(versions.acknowledged.last())
    }

    /// Lost updates over all partitions.
    pub fn lost_updates(&self) -> u64 {
        self.lost.values().flat_map(BTreeMap::values).fold(0, |sum, updates| sum.saturating_add(*updates))
    }

    fn count_lost_updates(&mut self, partitions: BTreeSet<Partition>, facts: &mut Vec<Fact>) {
        for partition in partitions {
            let lost = self.versions.get(&partition).map(lost_by_generation).unwrap_or_default();
            for (generation, updates) in lost {
                let known = self.lost.get(&partition).and_then(|lost| lost.get(&generation)).copied().unwrap_or(0);
                if updates > known {
                    self.decide(Fact::UpdatesLost { partition, generation, updates }, facts);
                }
            }
        }
    }

    /// The partition map has this generation of a partition.
    pub(super) fn apply_generation(&mut self, partition: Partition, generation: u64) {
        let generations = self.versions.entry(partition).or_default();
        generations.entry(generation).or_default();
        while generations.len() > MOST_GENERATIONS {
            forget_oldest(generations);
        }
    }

    pub(super) fn apply_acknowledged(&mut self, acknowledged: &[(u64, Spans, Spans)]) {
        for (generation, versions, partitions) in acknowledged {
            for partition in partitions.iter().flatten().filter_map(|number| u32::try_from(number).ok()) {
                let generations = self.versions.get_mut(&Partition(partition));
                if let Some(known) = generations.and_then(|generations| generations.get_mut(generation)) {
                    known.acknowledged.extend(versions);
                    known.acknowledged.join_lowest(MOST_VERSION_RANGES);
                }
            }
        }
    }

    pub(super) fn apply_starts(&mut self, started: &[(Partition, u64, u64)]) {
        for (partition, generation, version) in started {
            let generations = self.versions.get_mut(partition);
            if let Some(known) = generations.and_then(|generations| generations.get_mut(generation)) {
                known.started = Some(*version);
            }
        }
    }

    pub(super) fn apply_lost(&mut self, partition: Partition, generation: u64, updates: u64) {
        self.lost.entry(partition).or_default().insert(generation, updates);
    }
}

fn is_replaced(generations: &Generations, generation: u64) -> bool {
    generations.last_key_value().is_some_and(|(last, _)| *last > generation)
}

/// Removes the oldest generation. The next one keeps the acknowledged versions that are not lost yet.
fn forget_oldest(generations: &mut Generations) {
    let Some((_, oldest)) = generations.pop_first() else { return };
    let mut kept = contents(&Spans::default(), &oldest, true);
    if let Some(started) = generations.values().find_map(|later| later.started) {
        kept.remove(started.saturating_add(1)..u64::MAX);
    }
    if let Some(mut next) = generations.first_entry() {
        // The start is known no longer: it would stand for all versions up to it, as if all were acknowledged.
        next.get_mut().started = None;
        next.get_mut().acknowledged.extend(&kept);
    }
}

/// The lost updates of each generation that a later one has replaced.
fn lost_by_generation(generations: &Generations) -> Vec<(u64, u64)> {
    let mut lost = Vec::new();
    let mut inherited = Spans::default();
    for (at, (generation, versions)) in generations.iter().enumerate() {
        if let Some(started) = versions.started {
            inherited.remove(started.saturating_add(1)..u64::MAX);
        }
        let contents = contents(&inherited, versions, at == 0);
        let mut later = generations.range((Bound::Excluded(generation), Bound::Unbounded));
        if let Some(next) = later.find_map(|(_, later)| later.started) {
            lost.push((*generation, contents.count_from(next.saturating_add(1))));
        }
        inherited.extend(&contents);
    }
    lost
}

/// The acknowledged updates that a generation contained. Earlier generations acknowledged what it started with. Nothing is
/// known about the generations before the first.
fn contents(inherited: &Spans, versions: &GenerationVersions, is_first: bool) -> Spans {
    let mut contents = versions.acknowledged.clone();
    match versions.started {
        Some(started) if is_first => contents.insert(1..started.saturating_add(1)),
        Some(_) => contents.extend(inherited),
        // The generation was lost before its server reported the start. The one before counts what both contained.
        None => {}
    }
    contents
}

#[cfg(test)]
mod tests;
