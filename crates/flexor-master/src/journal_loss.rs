//! What a part of the journal that was not read means for the job, in words and in records.

use flexor_engine::ledger::LostFacts;
use flexor_engine::ps_membership::PsMembership;

use crate::data::JournaledData;
use crate::journal::Cut;
use crate::records::{self, JournalFact};

/// A part of the journal that this master did not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalLoss {
    /// Acknowledged facts are lost for certain; otherwise the last record was not written completely.
    pub is_damage: bool,
    /// What was found, what is open again, and where the evidence is.
    pub detail: String,
}

impl JournalLoss {
    /// Counts in the data what the loss has opened again, continues the partition map beyond it, and describes it.
    pub(crate) fn account(cut: &Cut, data: &mut JournaledData, members: &mut PsMembership) -> Self {
        let (mut facts, mut changes) = (Vec::new(), Vec::new());
        for fact in cut.facts_behind.iter().filter_map(|record| records::decode(record).ok()).flatten() {
            match fact {
                JournalFact::Data(fact) => facts.push(fact),
                JournalFact::Servers(fact) => changes.push(fact),
                JournalFact::Store(_) | JournalFact::SkippedRecords(_) => {}
            }
        }
        members.skip_lost_epochs(&changes);
        let reopened = data.ledger.reopen_lost(&LostFacts { behind: facts, may_hold_grants: cut.may_hold_several });
        let Cut { file, offset, bytes, .. } = cut;
        let file = file.display();
        let found = match (cut.everything, cut.is_damage) {
            (true, _) if *bytes == 0 => format!("{file} is missing or empty, so every fact of the job is lost"),
            (true, _) => {
                format!("the snapshot in {file} is damaged at byte {offset}, so every fact of the job is lost")
            }
            (false, true) => {
                let behind = cut.facts_behind.len();
                format!("{file} is damaged at byte {offset}, and the {behind} facts found behind it are lost")
            }
            (false, false) => format!("{file} ends in an incomplete record of {bytes} bytes at byte {offset}"),
        };
        let kept = cut.kept_as().map(|kept| format!("; it is kept as {}", kept.display())).unwrap_or_default();
        let records = match (cut.everything, reopened) {
            (true, _) => "all records are open again".to_owned(),
            (false, 0) => "no record is open again".to_owned(),
            (false, records) => format!("at most {records} records are open again"),
        };
        Self { is_damage: cut.is_damage, detail: format!("{found}; {records}{kept}") }
    }
}
