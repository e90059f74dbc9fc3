//! Folders that cannot be taken over: the error names the file and the remedy, and nothing is changed.

use super::*;
use crate::journal::segment::FORMAT;

/// The refusal text; the folder must be unchanged.
fn refusal(machine: &Machine, job: &str) -> String {
    let contents = || machine.files().into_iter().map(|file| (std::fs::read(&file).unwrap(), file)).collect::<Vec<_>>();
    let before = contents();
    let error = {
        let parts = (&machine.faults, &machine.clock);
        Journal::open(&machine.state, &JobUid::from(job), LossPolicy::Refuse, parts).unwrap_err()
    };
    assert_eq!(contents(), before);
    error.to_string()
}

fn used() -> Machine {
    let machine = Machine::new();
    let (journal, _) = machine.take_over();
    append(&journal, 1);
    drop(journal);
    machine
}

#[test]
fn the_folder_of_another_job() {
    let machine = used();
    let text = refusal(&machine, "another");
    assert!(text.contains("journal of job 7c0f-11, not of another"), "{text}");
    assert!(text.contains(machine.segment().to_str().unwrap()), "{text}");
}

#[test]
fn a_journal_of_a_later_version() {
    let machine = used();
    let mut bytes = std::fs::read(machine.segment()).unwrap();
    bytes[8..12].copy_from_slice(&(FORMAT + 1).to_le_bytes());
    let covered = 8 + 4 + 8 + 4 + job().to_string().len();
    let crc = crc32fast::hash(&bytes[..covered]);
    bytes[covered..covered + 4].copy_from_slice(&crc.to_le_bytes());
    std::fs::write(machine.segment(), bytes).unwrap();
    let text = refusal(&machine, "7c0f-11");
    assert!(text.contains("has format 2, this program knows up to 1"), "{text}");
}

#[test]
fn a_damaged_snapshot_with_facts_behind_it() {
    let machine = used();
    let mut bytes = std::fs::read(machine.segment()).unwrap();
    bytes[40] ^= 1;
    std::fs::write(machine.segment(), bytes).unwrap();
    let text = refusal(&machine, "7c0f-11");
    assert!(text.contains("is damaged at byte 35") && text.contains("restore the file from a backup"), "{text}");
}

#[test]
fn a_file_where_the_folder_should_be() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let machine = Machine::with_state(file.path());
    let text = machine.open().unwrap_err().to_string();
    assert!(text.starts_with(&format!("cannot make the folder {}: ", file.path().display())), "{text}");
    assert!(text.contains("must be one that this user may read and write"), "{text}");
}

#[test]
fn a_segment_that_is_a_folder() {
    let machine = Machine::new();
    std::fs::create_dir_all(machine.state.join("journal-0000000004.log")).unwrap();
    let text = machine.open().unwrap_err().to_string();
    assert!(text.contains("cannot read") && text.contains("journal-0000000004.log"), "{text}");
    assert_eq!(machine.files().len(), 1);
}
