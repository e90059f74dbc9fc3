//! Damage of the folder at every place: no place forgets acknowledged facts in silence.

use super::*;
use crate::journal::Cut;

/// A folder with the facts 1, 2 and 3 of one master, and the bytes of its segment.
fn written() -> (Machine, PathBuf, Vec<u8>) {
    let machine = Machine::new();
    let (journal, _) = machine.take_over();
    (1..=3).for_each(|number| _ = append(&journal, number));
    drop(journal);
    let segment = machine.segment();
    let bytes = std::fs::read(&segment).unwrap();
    (machine, segment, bytes)
}

/// The length of header and snapshot.
fn snapshot_end() -> usize {
    let machine = Machine::new();
    drop(machine.take_over());
    std::fs::read(machine.segment()).unwrap().len()
}

/// What a master that accepts the loss finds: the facts, and what is said of the rest. Its folder is left as it was.
fn accepted(machine: &Machine) -> (Vec<u32>, Option<Cut>) {
    let recovered = machine.open_with(LossPolicy::Accept).unwrap().recovered;
    (numbers_of(&recovered), recovered.cut)
}

#[test]
fn a_changed_byte_is_refused_or_told_at_every_position() {
    let (machine, segment, bytes) = written();
    let fact = (bytes.len() - snapshot_end()) / 3;
    for at in 0..bytes.len() {
        for mask in [0x01, 0x80, 0xff] {
            let mut changed = bytes.clone();
            changed[at] ^= mask;
            std::fs::write(&segment, &changed).unwrap();
            let (numbers, cut) = accepted(&machine);
            let cut = cut.unwrap_or_else(|| panic!("byte {at}: {numbers:?}, and the damage is not reported"));
            assert!([1, 2, 3].starts_with(&numbers) && numbers.len() < 3, "byte {at}: {numbers:?}");
            let checked = Journal::check(&machine.state, &job());
            let opened = machine.open();
            assert_eq!(checked.is_err(), opened.is_err(), "byte {at}: a check finds what a master finds");
            match opened {
                Err(JournalError::Damaged { path, facts_behind, .. }) => {
                    assert_eq!(path, segment);
                    let behind = if cut.everything { 0 } else { 2 - numbers.len() };
                    assert_eq!(facts_behind, behind, "byte {at}");
                }
                Err(other) => panic!("byte {at}: {other}"),
                // Damage of the last record looks like a write that was cut.
                Ok(recovery) => {
                    assert!(at >= bytes.len() - fact, "byte {at}");
                    assert_eq!(recovery.recovered.cut, Some(cut), "byte {at}");
                }
            }
            assert_eq!(std::fs::read(&segment).unwrap(), changed, "byte {at}: nothing is changed");
        }
    }
}

#[test]
fn a_segment_cut_at_any_byte_is_refused_or_told() {
    let (machine, segment, bytes) = written();
    let (start, fact) = (snapshot_end(), (bytes.len() - snapshot_end()) / 3);
    for length in 0..bytes.len() {
        std::fs::write(&segment, &bytes[..length]).unwrap();
        if length < start {
            assert!(matches!(machine.open(), Err(JournalError::Missing { .. })), "cut at {length}");
            assert!(accepted(&machine).1.is_some_and(|cut| cut.everything && cut.is_damage), "cut at {length}");
            continue;
        }
        let recovered = machine.recovered();
        assert_eq!(numbers_of(&recovered), [1, 2, 3][..(length - start) / fact], "cut at {length}");
        let is_between = (length - start) % fact == 0;
        assert_eq!(recovered.cut.is_none(), is_between, "cut at {length}");
        assert!(recovered.cut.is_none_or(|cut| !cut.is_damage && !cut.may_hold_several), "cut at {length}");
    }
}

#[test]
fn a_missing_journal_is_told_from_one_that_never_was() {
    let (machine, segment, _) = written();
    std::fs::remove_file(&segment).unwrap();
    let refusal = machine.open().unwrap_err();
    assert!(matches!(&refusal, JournalError::Missing { path } if *path == segment));
    let text = refusal.to_string();
    assert!(text.contains("is missing") && text.contains("--accept-journal-loss"), "{text}");
    let recovery = machine.open_with(LossPolicy::Accept).unwrap();
    assert!(recovery.recovered.cut.as_ref().is_some_and(|cut| cut.everything && cut.kept_as().is_none()));
    let journal = recovery.begin(b"").unwrap();
    assert_eq!(journal.generation().0, 2, "clients refuse a generation that they have seen");
    drop(journal);
    assert_eq!(machine.recovered().cut, None, "it is reported once");
}

#[test]
fn an_older_segment_does_not_stand_in_for_a_missing_one() {
    let (machine, first, bytes) = written();
    let (journal, _) = machine.take_over();
    append(&journal, 4);
    drop(journal);
    std::fs::rename(machine.segment(), machine.state.join("elsewhere")).unwrap();
    std::fs::write(&first, bytes).unwrap();
    let refusal = machine.open().unwrap_err();
    assert!(
        matches!(&refusal, JournalError::Missing { path } if path.ends_with("journal-0000000002.log")),
        "{refusal}"
    );
}

#[test]
fn a_damaged_note_of_the_generation_forgets_nothing() {
    let (machine, segment, _) = written();
    for note in [&b""[..], b"7", b"\xff\xff"] {
        std::fs::write(machine.begun(), note).unwrap();
        assert_eq!(numbers_of(&machine.recovered()), [1, 2, 3]);
    }
    std::fs::write(segment, b"").unwrap();
    assert!(matches!(machine.open(), Err(JournalError::Missing { .. })));
}

#[test]
fn an_accepted_loss_keeps_the_evidence_and_goes_on() {
    let (machine, segment, mut bytes) = written();
    bytes[snapshot_end() + 10] ^= 1;
    std::fs::write(&segment, &bytes).unwrap();
    let text = machine.open().unwrap_err().to_string();
    assert!(text.contains("2 good facts behind it would be forgotten"), "{text}");
    assert!(text.contains("--accept-journal-loss"), "{text}");
    let recovery = machine.open_with(LossPolicy::Accept).unwrap();
    let cut = recovery.recovered.cut.clone().unwrap();
    assert_eq!((cut.facts_behind.len(), cut.is_damage, cut.everything), (2, true, false));
    let kept = cut.kept_as().unwrap();
    assert!(kept.to_str().unwrap().ends_with("journal-0000000001.log.damaged"), "{}", kept.display());
    let numbers = numbers_of(&recovery.recovered);
    let journal = recovery.begin(&snapshot_of(&numbers)).unwrap();
    append(&journal, 9);
    drop(journal);
    assert_eq!(std::fs::read(kept).unwrap(), bytes);
    assert_eq!(machine.files().len(), 2, "the segment and the evidence");
    assert_eq!(numbers_of(&machine.recovered()), [9]);
}

#[test]
fn a_torn_end_is_told_and_kept_too() {
    let (machine, segment, bytes) = written();
    std::fs::write(&segment, &bytes[..bytes.len() - 1]).unwrap();
    let cut = machine.recovered().cut.unwrap();
    assert_eq!((cut.offset + cut.bytes, cut.is_damage), (bytes.len() as u64 - 1, false));
    let (journal, before) = machine.take_over();
    assert_eq!(before, [1, 2]);
    append(&journal, 4);
    drop(journal);
    assert_eq!(std::fs::read(cut.kept_as().unwrap()).unwrap(), bytes[..bytes.len() - 1]);
    assert_eq!(numbers_of(&machine.recovered()), [1, 2, 4]);
}
