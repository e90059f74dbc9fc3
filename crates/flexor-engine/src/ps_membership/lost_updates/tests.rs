//! Lost updates by the reports of workers and servers.

use super::super::tests::Story;
use super::super::{Cause, Mode, PartitionGeneration, PartitionReplicas, Reason};
use super::*;

const PARTITION: Partition = Partition(3);

impl Story {
    fn acknowledge(&mut self, generation: u64, versions: &[(u64, u64)]) {
        self.acknowledge_of(PARTITION, generation, versions);
    }

    /// Both ends are included.
    fn acknowledge_of(&mut self, partition: Partition, generation: u64, versions: &[(u64, u64)]) {
        let versions: Vec<(u64, u64)> = versions.iter().map(|(first, last)| (*first, last + 1)).collect();
        self.members.record_acknowledged([(partition, generation, versions.into())], &mut self.facts);
    }

    /// The map gets generations up to this one.
    fn reach_generation(&mut self, partition: Partition, generation: u64) {
        let replicas = self.members.map().replicas(partition).unwrap().clone();
        for number in replicas.generation.number + 1..=generation {
            let generation = PartitionGeneration { number, ..replicas.generation };
            let changed = vec![(partition, PartitionReplicas { generation, ..replicas.clone() })];
            let cause = Cause::new(Reason::PartitionsRestored, "its servers are lost");
            self.members.publish_map(changed, cause, &mut self.facts);
        }
    }

    fn start_generation(&mut self, generation: u64, version: u64) {
        self.start_generation_of(PARTITION, generation, version);
    }

    fn start_generation_of(&mut self, partition: Partition, generation: u64, version: u64) {
        self.reach_generation(partition, generation);
        self.members.record_generation_starts([(partition, generation, version)], &mut self.facts);
    }

    fn lost(&self) -> u64 {
        self.members.lost_updates()
    }

    /// The master after the next one has read the journal.
    fn next_master(&self) -> PsMembership {
        let mut next = PsMembership::new(self.members.settings.clone());
        self.facts.iter().for_each(|fact| next.replay(fact));
        let read: PsMembership = serde_json::from_str(&serde_json::to_string(&next).unwrap()).unwrap();
        let [next, read] = [next, read].map(|members| members.resume(self.members.settings.clone(), 2, self.now));
        assert_eq!((&next.versions, &next.lost), (&read.versions, &read.lost));
        read
    }
}

fn story() -> Story {
    Story::start(1, Mode::Async, &["ps-0"])
}

#[test]
fn acknowledged_updates_that_no_checkpoint_has_are_lost() {
    let mut story = story();
    story.acknowledge(1, &[(1, 90)]);
    story.acknowledge(1, &[(80, 100)]);
    assert_eq!(story.lost(), 0);
    story.start_generation(2, 60);
    assert_eq!(story.lost(), 40);
    // A worker reports late.
    story.acknowledge(1, &[(70, 80), (101, 104)]);
    assert_eq!(story.lost(), 44);
    story.acknowledge_of(Partition(4), 1, &[(1, 5)]);
    story.start_generation_of(Partition(4), 2, 5);
    assert_eq!(story.lost(), 44);
}

#[test]
fn an_update_that_no_client_was_acknowledged_is_not_lost() {
    let mut story = story();
    // Version 98 was applied for a worker that never received the answer. It pushes the batch again.
    story.acknowledge(1, &[(1, 97), (99, 100)]);
    story.start_generation(2, 90);
    story.acknowledge(2, &[(91, 91)]);
    assert_eq!(story.lost(), 9);
}

#[test]
fn updates_that_a_lost_generation_started_with_are_lost_too() {
    let mut story = story();
    story.acknowledge(1, &[(1, 100)]);
    story.start_generation(2, 50);
    // No client is acknowledged, and the checkpoint that it started from becomes unreadable.
    story.start_generation(3, 30);
    assert_eq!(story.lost(), 70);
}

#[test]
fn an_update_in_a_checkpoint_counts_once_its_client_is_acknowledged() {
    let mut story = story();
    // The checkpoint contains version 50, whose worker had no answer yet.
    story.acknowledge(1, &[(1, 49), (51, 60)]);
    story.start_generation(2, 55);
    assert_eq!(story.lost(), 5);
    story.start_generation(3, 45);
    assert_eq!(story.lost(), 5 + 9, "version 50 is pushed again");
    story.acknowledge(2, &[(50, 50)]);
    assert_eq!(story.lost(), 5 + 10, "the repeated push was answered in generation 2");
}

#[test]
fn a_generation_whose_start_nobody_reported_counts_its_own_updates_only() {
    let mut story = story();
    story.acknowledge(1, &[(1, 100)]);
    story.reach_generation(PARTITION, 2);
    story.acknowledge(2, &[(81, 90)]);
    story.start_generation(3, 70);
    assert_eq!(story.lost(), 30 + 10, "71 to 100 of the first one, and 81 to 90 of the second one");
    story.start_generation(4, 60);
    assert_eq!(story.lost(), 30 + 10 + 10);
}

#[test]
fn a_first_generation_from_a_checkpoint_has_all_its_updates() {
    let mut story = story();
    story.start_generation(1, 500);
    assert_eq!(story.members.acknowledged_version(PARTITION, 1), Some(500));
    story.acknowledge(1, &[(501, 510)]);
    story.start_generation(2, 400);
    assert_eq!((story.lost(), story.members.acknowledged_version(PARTITION, 1)), (110, Some(510)));
}

#[test]
fn many_generations_are_counted_and_few_are_kept() {
    let mut story = story();
    story.acknowledge(1, &[(1, 100)]);
    for generation in 2..=40 {
        // Each acknowledges three updates, and two of them are lost; so is a tenth of the first ones in the end.
        story.start_generation(generation, 100 + generation - 2);
        story.acknowledge(generation, &[(99 + generation, 101 + generation)]);
        assert_eq!(story.lost(), (generation - 2) * 2, "generation {generation}");
    }
    assert_eq!(story.members.versions[&PARTITION].len(), MOST_GENERATIONS);
    story.acknowledge(2, &[(1, 1000)]);
    assert_eq!(story.lost(), 76, "a report about a forgotten generation");
    story.start_generation(41, 90);
    assert_eq!(story.lost(), 76 + 51);
}

#[test]
fn a_report_about_an_unknown_partition_or_generation_is_ignored() {
    let mut story = story();
    story.acknowledge(1, &[(1, 100)]);
    let known = story.members.versions.clone();
    for generation in (2..20).chain([0, u64::MAX]) {
        story.acknowledge(generation, &[(1, 1000)]);
        story.members.record_generation_starts([(PARTITION, generation, 7)], &mut story.facts);
    }
    let partitions = story.members.settings.partitions;
    for partition in [partitions, u32::MAX] {
        story.acknowledge_of(Partition(partition), 1, &[(1, 5)]);
        story.members.record_generation_starts([(Partition(partition), 1, 7)], &mut story.facts);
    }
    assert_eq!(story.members.versions, known);
    story.start_generation(2, 60);
    assert_eq!(story.lost(), 40);
}

#[test]
fn versions_of_any_size_are_counted() {
    let mut story = story();
    for partition in [PARTITION, Partition(4)] {
        story.acknowledge_of(partition, 1, &[(1, u64::MAX - 1)]);
        story.start_generation_of(partition, 2, 1);
        story.start_generation_of(partition, 2, u64::MAX);
        story.start_generation_of(partition, 3, 0);
    }
    assert_eq!(story.lost(), u64::MAX);
}

#[test]
fn gaps_beyond_the_limit_count_as_acknowledged() {
    let mut story = story();
    let every_other: Vec<(u64, u64)> = (1..=2 * MOST_VERSION_RANGES as u64).map(|at| (at * 2, at * 2)).collect();
    let (first, second) = every_other.split_at(MOST_VERSION_RANGES);
    story.acknowledge(1, first);
    story.acknowledge(1, second);
    assert_eq!(story.members.versions[&PARTITION][&1].acknowledged.ranges(), MOST_VERSION_RANGES);
    story.start_generation(2, 0);
    let (rows, filled) = (every_other.len() as u64, MOST_VERSION_RANGES as u64);
    assert_eq!(story.lost(), rows + filled, "the lowest gaps, and never too few");
}

#[test]
fn the_journal_names_what_partitions_have_in_common_once() {
    let mut story = story();
    story.facts.clear();
    let version = |number: u64| Spans::from(vec![(number, number + 1)]);
    let reported = (0..12).map(|partition| (Partition(partition), 1, version(if partition == 5 { 8 } else { 7 })));
    story.members.record_acknowledged(reported.clone(), &mut story.facts);
    let others = Spans::from(vec![(0, 5), (6, 12)]);
    let acknowledged = vec![(1, version(7), others), (1, version(8), Spans::from(vec![(5, 6)]))];
    assert_eq!(story.facts, [Fact::VersionsAcknowledged { acknowledged }]);
    // A repeated report brings nothing new.
    story.members.record_acknowledged(reported, &mut story.facts);
    assert_eq!(story.facts.len(), 1);
}

#[test]
fn the_next_master_knows_the_acknowledged_versions() {
    let mut story = story();
    story.acknowledge(1, &[(1, 85), (87, 90)]);
    story.acknowledge(1, &[(91, 100)]);
    let mut next = Story { members: story.next_master(), ..story };
    next.start_generation(2, 60);
    assert_eq!(next.lost(), 39);
    let mut next = Story { members: next.next_master(), ..next };
    assert_eq!(next.lost(), 39);
    // A worker reports late about an earlier generation.
    next.acknowledge(1, &[(86, 86)]);
    assert_eq!(next.lost(), 40);
}
