//! Compaction loses nothing at any instant.

use super::*;
use crate::journal::compaction::MIN_GROWTH;

/// Requests a compaction and waits until the snapshot is in place.
fn compact(machine: &Machine, journal: &Journal, numbers: &[u32]) {
    let before = std::fs::metadata(machine.segment_of(journal)).unwrap();
    journal.compact(snapshot_of(numbers)).unwrap();
    let inode = |metadata: &std::fs::Metadata| std::os::unix::fs::MetadataExt::ino(metadata);
    eventually(|| inode(&std::fs::metadata(machine.segment_of(journal)).unwrap()) != inode(&before));
}

impl Machine {
    fn segment_of(&self, journal: &Journal) -> PathBuf {
        self.state.join(format!("journal-{:010}.log", journal.generation().0))
    }
}

#[test]
fn facts_before_and_after_a_compaction_are_all_there() {
    let machine = Machine::new();
    let (journal, _) = machine.take_over();
    wait(journal.durable(append(&journal, 1))).unwrap();
    append(&journal, 2);
    compact(&machine, &journal, &[1, 2]);
    let lsn = append(&journal, 3);
    assert_eq!(lsn, Lsn(3));
    wait(journal.durable(lsn)).unwrap();
    journal.kill();
    let recovered = machine.recovered();
    assert_eq!(recovered.snapshot, Some(snapshot_of(&[1, 2])));
    assert_eq!(numbers_of(&recovered), [1, 2, 3]);
    assert_eq!(machine.files().len(), 1);
}

#[test]
fn facts_appended_during_a_compaction_are_kept() {
    let machine = Machine::new();
    let (journal, _) = machine.take_over();
    append(&journal, 1);
    machine.fsyncs_take(50);
    journal.compact(snapshot_of(&[1])).unwrap();
    append(&journal, 2);
    journal.flush().unwrap();
    append(&journal, 3);
    eventually(|| journal.durable_lsn() == Lsn(3));
    journal.kill();
    assert_eq!(numbers_of(&machine.recovered()), [1, 2, 3]);
}

#[test]
fn a_long_segment_asks_for_compaction_and_is_short_afterwards() {
    let machine = Machine::new();
    let (journal, _) = machine.take_over();
    let fact = vec![0; 64 << 10];
    while !journal.should_compact() {
        journal.append(&fact).unwrap();
    }
    journal.flush().unwrap();
    assert!(std::fs::metadata(machine.segment()).unwrap().len() >= MIN_GROWTH);
    journal.compact(vec![]).unwrap();
    assert!(!journal.should_compact(), "one at a time");
    eventually(|| std::fs::metadata(machine.segment_of(&journal)).unwrap().len() < 100);
    assert!(!journal.should_compact());
}

#[test]
fn a_failed_compaction_changes_nothing_and_is_requested_again_later() {
    let machine = Machine::new();
    let (journal, _) = machine.take_over();
    append(&journal, 1);
    machine.fsyncs_fail(Some(DiskError::NoSpace));
    journal.compact(snapshot_of(&[1])).unwrap();
    wait_for_health(&journal, |health| !health.is_writable());
    machine.fsyncs_fail(None);
    wait_for_health(&journal, Health::is_writable);
    assert_eq!(machine.files().len(), 1, "no unfinished file stays");
    journal.kill();
    let recovered = machine.recovered();
    assert_eq!((recovered.snapshot, recovered.facts.len()), (Some(vec![]), 1));
}

#[test]
fn a_compaction_delayed_by_a_full_disk_is_dropped_when_later_facts_are_durable() {
    let machine = Machine::new();
    let (journal, _) = machine.take_over();
    machine.writes_fail(Some(DiskError::NoSpace));
    append(&journal, 1);
    journal.flush().unwrap_err();
    journal.compact(snapshot_of(&[1])).unwrap();
    let lsn = append(&journal, 2);
    machine.writes_fail(None);
    wait(journal.durable(lsn)).unwrap();
    eventually(|| journal.should_compact());
    journal.kill();
    assert_eq!(numbers_of(&machine.recovered()), [1, 2]);
}

#[test]
fn a_superseded_master_does_not_put_its_segment_back() {
    let machine = Machine::new();
    let (older, _) = machine.take_over();
    let (newer, _) = machine.take_over();
    older.compact(snapshot_of(&[7])).unwrap();
    wait_for_health(&older, |health| matches!(health, Health::Ended(JournalError::Superseded { .. })));
    drop(older);
    assert_eq!(machine.files(), [machine.segment_of(&newer)]);
}

#[test]
fn an_unfinished_segment_is_ignored_and_removed() {
    let machine = Machine::new();
    let (journal, _) = machine.take_over();
    append(&journal, 1);
    drop(journal);
    let mut complete = std::fs::read(machine.segment()).unwrap();
    complete.truncate(complete.len() - 5);
    let in_the_making = machine.state.join("journal-0000000001.log.new");
    for length in [0, 10, complete.len()] {
        std::fs::write(&in_the_making, &complete[..length]).unwrap();
        assert_eq!(numbers_of(&machine.recovered()), [1]);
    }
    let (_journal, before) = machine.take_over();
    assert_eq!(before, [1]);
    assert_eq!(machine.files().len(), 1);
}

#[test]
fn a_master_that_died_between_its_snapshot_and_cleaning_up_is_the_one_that_counts() {
    let machine = Machine::new();
    let (journal, _) = machine.take_over();
    append(&journal, 1);
    drop(journal);
    let older = std::fs::read(machine.segment()).unwrap();
    let (journal, _) = machine.take_over();
    append(&journal, 2);
    drop(journal);
    std::fs::write(machine.state.join("journal-0000000001.log"), &older).unwrap();
    assert_eq!(numbers_of(&machine.recovered()), [1, 2]);
}

#[test]
fn a_master_that_died_before_its_snapshot_was_complete_does_not_count() {
    let machine = Machine::new();
    let (journal, _) = machine.take_over();
    append(&journal, 1);
    drop(journal);
    let (older, begun) = (std::fs::read(machine.segment()).unwrap(), std::fs::read(machine.begun()).unwrap());
    drop(machine.take_over());
    let newer = std::fs::read(machine.segment()).unwrap();
    std::fs::write(machine.begun(), begun).unwrap();
    for length in 0..newer.len() {
        std::fs::write(machine.state.join("journal-0000000001.log"), &older).unwrap();
        std::fs::write(machine.state.join("journal-0000000002.log"), &newer[..length]).unwrap();
        assert_eq!(numbers_of(&machine.recovered()), [1], "cut at {length}");
    }
}
