//! A failing disk: nothing is lost or acknowledged, and the journal continues when there is room.

use std::fs::File;
use std::io::Write;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use super::*;
use crate::journal::tail::BACKLOG;

#[test]
fn a_full_disk_makes_waiters_wait_and_not_fail() {
    let machine = Machine::new();
    let (journal, _) = machine.take_over();
    wait(journal.durable(append(&journal, 1))).unwrap();
    machine.writes_fail(Some(DiskError::NoSpace));
    let lsn = append(&journal, 2);
    let refusal = journal.flush().unwrap_err();
    assert!(matches!(&refusal, JournalError::Full { .. }) && !refusal.is_final());
    let health = wait_for_health(&journal, |health| !health.is_writable());
    assert!(matches!(health, Health::Full { since, .. } if since <= machine.clock.wall()));
    assert_eq!(journal.durable_lsn(), Lsn(1));
    append(&journal, 3);
    assert!(matches!(journal.flush(), Err(JournalError::Full { .. })));
    machine.writes_fail(None);
    wait(journal.durable(lsn)).unwrap();
    wait_for_health(&journal, Health::is_writable);
    journal.flush().unwrap();
    journal.kill();
    assert_eq!(numbers_of(&machine.recovered()), [1, 2, 3]);
}

#[test]
fn half_a_record_does_not_stay() {
    let machine = Machine::new();
    let (journal, _) = machine.take_over();
    let good = std::fs::metadata(machine.segment()).unwrap().len();
    machine.writes_fail(Some(DiskError::Quota));
    append(&journal, 1);
    journal.flush().unwrap_err();
    assert_eq!(std::fs::metadata(machine.segment()).unwrap().len(), good);
    journal.kill();
    machine.writes_fail(None);
    assert_eq!(machine.recovered().cut, None);
}

#[test]
fn a_failed_fsync_acknowledges_nothing_and_writes_again() {
    let machine = Machine::new();
    let (journal, _) = machine.take_over();
    machine.fsyncs_fail(Some(DiskError::Device));
    let lsn = append(&journal, 1);
    let waiter = journal.durable(lsn);
    wait_for_health(&journal, |health| !health.is_writable());
    assert_eq!(journal.durable_lsn(), Lsn(0));
    // The system dropped the pages.
    let segment = File::options().write(true).open(machine.segment()).unwrap();
    segment.set_len(segment.metadata().unwrap().len() - 3).unwrap();
    machine.fsyncs_fail(None);
    wait(waiter).unwrap();
    journal.kill();
    assert_eq!(numbers_of(&machine.recovered()), [1]);
}

#[test]
fn the_backlog_is_bounded() {
    let machine = Machine::new();
    let (journal, _) = machine.take_over();
    machine.writes_fail(Some(DiskError::NoSpace));
    let fact = vec![7; BACKLOG / 4];
    let taken = (0..5).take_while(|_| journal.append(&fact).is_ok()).count();
    assert_eq!(taken, 3);
    let refusal = journal.append(&fact).unwrap_err();
    assert!(matches!(&refusal, JournalError::Backlog { bytes } if *bytes <= BACKLOG) && !refusal.is_final());
    journal.kill();
}

#[test]
fn a_master_that_cannot_begin_changes_nothing() {
    let machine = Machine::new();
    let (journal, _) = machine.take_over();
    append(&journal, 1);
    drop(journal);
    let files = machine.files();
    machine.writes_fail(Some(DiskError::NoSpace));
    assert!(matches!(machine.open(), Err(JournalError::Full { .. })));
    machine.writes_fail(None);
    let recovery = machine.open().unwrap();
    machine.fsyncs_fail(Some(DiskError::NoSpace));
    assert!(matches!(recovery.begin(b""), Err(JournalError::Full { .. })));
    machine.fsyncs_fail(None);
    assert_eq!(machine.files(), files);
    assert_eq!(numbers_of(&machine.recovered()), [1]);
}

#[test]
fn a_file_system_that_is_really_full_is_survived() {
    let folder = tempfile::tempdir().unwrap();
    let Some(machine) = small_file_system(folder.path()) else { return };
    let (journal, _) = machine.take_over();
    wait(journal.durable(append(&journal, 1))).unwrap();
    let ballast = machine.state.join("ballast");
    let mut file = File::create(&ballast).unwrap();
    while file.write_all(&[0; 4096]).is_ok() {}
    let numbers: Vec<u32> = (1..5000).collect();
    let last = numbers[1..].iter().map(|&number| append(&journal, number)).last().unwrap();
    let waiter = journal.durable(last);
    wait_for_health(&journal, |health| matches!(health, Health::Full { .. }));
    assert_eq!(journal.durable_lsn(), Lsn(1));
    std::fs::remove_file(&ballast).unwrap();
    drop(file);
    wait(waiter).unwrap();
    journal.kill();
    assert_eq!(numbers_of(&machine.recovered()), numbers);
}

/// A tmpfs of 256 KiB at `folder`, visible only to this thread and its children; it ends with them.
fn small_file_system(folder: &Path) -> Option<Machine> {
    let none = None::<&str>;
    let mounted = unshare(CloneFlags::CLONE_NEWNS)
        .and_then(|()| mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none))
        .and_then(|()| mount(Some("tmpfs"), folder, Some("tmpfs"), MsFlags::empty(), Some("size=256k")));
    match mounted {
        Ok(()) => Some(Machine::with_state(folder)),
        Err(error) => {
            println!("skipped: a small file system needs the right to mount ({error})");
            None
        }
    }
}
