//! Two masters on one folder: the newer one wins, and no acknowledged fact is lost.

use super::*;

#[test]
fn the_older_master_ends_at_its_next_commit() {
    let machine = Machine::new();
    let (older, _) = machine.take_over();
    wait(older.durable(append(&older, 1))).unwrap();
    let (newer, before) = machine.take_over();
    assert_eq!(before, [1]);
    let refused = wait(older.durable(append(&older, 2))).unwrap_err();
    assert!(matches!(&refused, JournalError::Superseded { by } if *by == newer.generation()), "{refused}");
    assert!(matches!(older.append(b"more"), Err(JournalError::Superseded { .. })));
    assert!(matches!(wait_for_health(&older, |health| !health.is_writable()), Health::Ended(_)));
    wait(newer.durable(append(&newer, 3))).unwrap();
    drop(older);
    drop(newer);
    assert_eq!(numbers_of(&machine.recovered()), [1, 3]);
}

#[test]
fn a_flush_is_refused_too() {
    let machine = Machine::new();
    let (older, _) = machine.take_over();
    append(&older, 1);
    let (_newer, before) = machine.take_over();
    assert!(before.is_empty());
    assert!(matches!(older.flush(), Err(JournalError::Superseded { .. })));
}

#[test]
fn a_claim_alone_stops_the_older_master() {
    let machine = Machine::new();
    let (older, _) = machine.take_over();
    let recovery = machine.open().unwrap();
    assert!(matches!(wait(older.durable(append(&older, 1))), Err(JournalError::Superseded { .. })));
    assert!(numbers_of(&recovery.recovered).is_empty());
}

#[test]
fn of_two_that_claim_only_the_later_begins() {
    let machine = Machine::new();
    drop(machine.take_over());
    let earlier = machine.open().unwrap();
    let later = machine.open().unwrap();
    assert!(matches!(earlier.begin(b""), Err(JournalError::Superseded { .. })));
    later.begin(b"").unwrap();
}

#[test]
fn a_master_with_a_full_disk_ends_as_well() {
    let machine = Machine::new();
    let (older, _) = machine.take_over();
    machine.writes_fail(Some(DiskError::NoSpace));
    append(&older, 1);
    assert!(matches!(older.flush(), Err(JournalError::Full { .. })));
    let healthy = Machine::with_state(&machine.state);
    let (_newer, _) = healthy.take_over();
    wait_for_health(&older, |health| matches!(health, Health::Ended(JournalError::Superseded { .. })));
}

#[test]
fn a_journal_removed_under_its_master_acknowledges_nothing() {
    let machine = Machine::new();
    let (journal, _) = machine.take_over();
    std::fs::remove_dir_all(&machine.state).unwrap();
    assert!(matches!(wait(journal.durable(append(&journal, 1))), Err(JournalError::Removed { .. })));
}

/// Appends, waits and sometimes compacts until it is superseded; returns its last acknowledged state.
fn rule_until_superseded(journal: Journal, mut numbers: Vec<u32>) -> Vec<u32> {
    let mut acknowledged = numbers.len();
    loop {
        numbers.push(numbers.len() as u32);
        let Ok(lsn) = journal.append(&(numbers.len() as u32 - 1).to_le_bytes()) else { break };
        if numbers.len().is_multiple_of(3) {
            let _ = journal.compact(snapshot_of(&numbers));
        }
        let answered = if numbers.len().is_multiple_of(2) { journal.flush() } else { wait(journal.durable(lsn)) };
        match answered {
            Ok(()) => acknowledged = numbers.len(),
            Err(error) => {
                assert!(error.is_final(), "{error}");
                break;
            }
        }
    }
    numbers.truncate(acknowledged);
    numbers
}

#[test]
fn no_acknowledged_fact_is_lost_whenever_a_takeover_happens() {
    let machine = Machine::new();
    let (mut journal, mut numbers) = machine.take_over();
    for pause_us in (0..60).map(|step| step * 97 % 3000) {
        let ruler = std::thread::spawn(move || rule_until_superseded(journal, numbers));
        std::thread::sleep(Duration::from_micros(pause_us));
        let recovery = machine.open().unwrap();
        let found = numbers_of(&recovery.recovered);
        let next = recovery.begin(&snapshot_of(&found)).unwrap();
        let acknowledged = ruler.join().unwrap();
        assert!(found.starts_with(&acknowledged), "{} found, {} acknowledged", found.len(), acknowledged.len());
        (journal, numbers) = (next, found);
    }
    let order: Vec<u32> = (0..numbers.len() as u32).collect();
    assert_eq!(numbers, order);
}
