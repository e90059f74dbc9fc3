//! Append, flush and wait.

use std::sync::Arc;

use super::*;

#[test]
fn the_next_master_reads_durable_facts() {
    let machine = Machine::new();
    let (journal, before) = machine.take_over();
    assert!(before.is_empty());
    append(&journal, 1);
    let lsn = append(&journal, 2);
    wait(journal.durable(lsn)).unwrap();
    assert_eq!(journal.durable_lsn(), lsn);
    append(&journal, 3);
    journal.kill();
    assert_eq!(numbers_of(&machine.recovered()), [1, 2]);
}

#[test]
fn flushed_facts_survive_the_process() {
    let machine = Machine::new();
    let (journal, _) = machine.take_over();
    append(&journal, 1);
    journal.flush().unwrap();
    journal.kill();
    assert_eq!(numbers_of(&machine.recovered()), [1]);
}

#[test]
fn an_orderly_end_keeps_everything() {
    let machine = Machine::new();
    let (journal, _) = machine.take_over();
    (0..100).for_each(|number| _ = append(&journal, number));
    drop(journal);
    assert_eq!(numbers_of(&machine.recovered()), (0..100).collect::<Vec<_>>());
}

#[test]
fn a_fact_becomes_durable_without_a_waiter() {
    let machine = Machine::new();
    let (journal, _) = machine.take_over();
    let lsn = append(&journal, 1);
    eventually(|| journal.durable_lsn() == lsn);
}

#[test]
fn progress_can_be_followed_until_the_journal_ends() {
    let machine = Machine::new();
    let (journal, _) = machine.take_over();
    let first = journal.durable_beyond(Lsn(0));
    let lsn = append(&journal, 1);
    assert_eq!(wait(first).unwrap(), lsn);
    let second = journal.durable_beyond(lsn);
    let (_newer, _) = machine.take_over();
    append(&journal, 2);
    assert!(matches!(wait(second), Err(JournalError::Superseded { .. })));
}

#[test]
fn many_waiters_share_one_fsync() {
    let machine = Machine::new();
    let (journal, _) = machine.take_over();
    machine.fsyncs_take(20);
    let journal = Arc::new(journal);
    let before = journal.fsyncs();
    wait(async {
        let waiters = (0..500).map(|number| journal.durable(append(&journal, number)));
        for waited in futures::future::join_all(waiters).await {
            waited.unwrap();
        }
    });
    let fsyncs = journal.fsyncs() - before;
    assert!(fsyncs <= 5, "{fsyncs} fsyncs for 500 waiters");
}

#[test]
fn a_waiter_does_not_outlive_the_journal() {
    let machine = Machine::new();
    let (journal, _) = machine.take_over();
    let never_appended = journal.durable(Lsn(7));
    drop(journal);
    assert!(matches!(wait(never_appended), Err(JournalError::Closed)));
}

#[test]
fn each_master_has_the_next_generation_and_one_segment() {
    let machine = Machine::new();
    for generation in 1..4 {
        let (journal, _) = machine.take_over();
        assert_eq!(journal.generation().0, generation);
        let name = machine.segment().file_name().unwrap().to_str().unwrap().to_owned();
        assert_eq!(name, format!("journal-{generation:010}.log"));
    }
}

#[test]
fn a_claim_that_is_not_begun_leaves_the_folder_as_it_was() {
    let machine = Machine::new();
    let (journal, _) = machine.take_over();
    drop(journal);
    let files = machine.files();
    drop(machine.open().unwrap());
    assert_eq!(machine.files(), files);
}

#[test]
fn a_journal_in_memory_accepts_facts_and_is_not_durable() {
    let journal = Journal::in_memory();
    let lsn = append(&journal, 1);
    journal.flush().unwrap();
    wait(journal.durable(lsn)).unwrap();
    assert_eq!(journal.durable_lsn(), lsn);
    assert!(!journal.is_durable() && !journal.should_compact() && journal.health().borrow().is_writable());
    assert_eq!((journal.generation().0, journal.fsyncs()), (1, 0));
}
