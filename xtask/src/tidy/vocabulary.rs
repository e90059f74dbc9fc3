//! Refuses identifiers that the glossary has replaced.
//!
//! `docs/design/glossary.md` holds the words of the project. The list here is short on purpose: it names the old
//! identifiers that were once everywhere and would come back by copying from an old branch. It reads code only;
//! comments and messages are a reviewer's part.

use anyhow::Result;

use super::Finding;
use crate::source;
use crate::tree::Tree;

/// Each replaced identifier and its new word, as complete words of Rust and protocol buffers.
const REPLACED: &[(&str, &str)] = &[
    ("Because", "Cause"),
    ("PodWish", "DesiredPod"),
    ("ServiceWish", "DesiredService"),
    ("WishError", "ApiError"),
    ("PodSeen", "ObservedPod"),
    ("PlanSeen", "ObservedPlan"),
    ("SeatRecord", "Slot"),
    ("SeatEnd", "SlotEnd"),
    ("seats", "slots"),
    ("look_again_at", "requeue_at"),
    ("Standing", "TrainingStatus or another status"),
    ("ServersStanding", "PsClusterStatus"),
    ("Told", "what was sent, by its own name"),
    ("Obstacle", "PreflightError"),
    ("Tenancy", "StateDirLock"),
    ("Deed", "Fault"),
    ("AwareStore", "RendezvousStore"),
    ("Crew", "WorkerGroup"),
    ("Errands", "Outbox"),
    ("psmembers", "ps_membership"),
    ("PsMembers", "PsMembership"),
    ("ps_copies", "ps_replication_factor"),
    ("CopyOrder", "SyncOrder"),
    ("PsEpoch", "MapEpoch"),
    ("ComeBack", "Resume"),
];

pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for path in tree.with_extension("rs").chain(tree.with_extension("proto")) {
        let code = source::code_only(&tree.text(path)?.unwrap_or_default());
        for (index, line) in code.lines().enumerate() {
            let words = line.split(|character: char| !(character.is_alphanumeric() || character == '_'));
            for word in words.filter(|word| !word.is_empty()) {
                if let Some((old, new)) = REPLACED.iter().find(|(old, _)| *old == word) {
                    let message = format!("{old}: write {new}; docs/design/glossary.md has the words");
                    findings.push(Finding::fails(format!("{}:{}", path.display(), index + 1), message));
                }
            }
        }
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::test_folder::TestFolder;

    #[test]
    fn an_old_identifier_fails_and_the_same_word_in_prose_does_not() {
        let good = TestFolder::with(&[("a.rs", "// Because it rains.\nconst WHY: &str = \"seats\";\nfn slots() {}\n")]);
        assert_eq!(check(&good.tree()).unwrap(), []);
        let bad =
            TestFolder::with(&[("a.rs", "struct Slot;\nfn f(b: Because) {}\n"), ("b.proto", "message Told {}\n")]);
        let locations: Vec<_> = check(&bad.tree()).unwrap().into_iter().map(|finding| finding.location).collect();
        assert_eq!(locations, ["a.rs:2", "b.proto:1"]);
    }

    #[test]
    fn a_longer_identifier_is_another_word() {
        let folder = TestFolder::with(&[("a.rs", "fn because_of(told_at: u64) { let seats_left = told_at; }\n")]);
        assert_eq!(check(&folder.tree()).unwrap(), []);
    }
}
