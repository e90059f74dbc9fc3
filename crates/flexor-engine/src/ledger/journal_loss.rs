//! What a lost part of the journal means for the data: how many records may be processed twice because of it.
//!
//! The ledger continues from the facts before the loss. Batches that were acknowledged in the lost part are open again.
//! The count is an upper bound: every batch that was handed out by then and is not accounted for now. Batches are handed
//! out in order, so facts that were found behind the damage show how far the workers had come.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Ledger;
use super::dataset_state::DatasetState;
use super::fact::Fact;
use super::grant::GrantId;
use super::ranges::{Batches, Ranges};

/// Grants that the unreadable part may have used, so that no later grant has the number of one of them.
const SKIPPED_GRANTS: u64 = 1 << 20;

/// The part of the journal that was not replayed.
#[derive(Debug, Clone, Default)]
pub struct LostFacts {
    /// Facts that were found behind the damage.
    pub behind: Vec<Fact>,
    /// The unreadable part may hold a grant and acknowledgements of it.
    pub may_hold_grants: bool,
}

/// How far the workers had come in a dataset.
#[derive(Debug, Default)]
struct Reached {
    /// The last epoch that has begun.
    epoch: Option<u32>,
    /// The end of the handed out batches, by epoch.
    batches: BTreeMap<u32, u64>,
    /// Whether a grant was found behind the damage: grants within the damage came before it.
    has_grant: bool,
}

impl Ledger {
    /// Counts the records that the lost facts may have accounted for. Returns how many are open again, at most.
    pub fn reopen_lost(&mut self, lost: &LostFacts) -> u64 {
        let mut grants: BTreeMap<GrantId, (Arc<str>, u32)> =
            self.grants.iter().map(|(id, held)| (*id, (Arc::clone(&held.dataset), held.epoch))).collect();
        let mut reached: BTreeMap<Arc<str>, Reached> = BTreeMap::new();
        // Acknowledged batches of grants that nothing else tells of.
        let mut stray = 0;
        let mut rewinds = 0;
        for fact in &lost.behind {
            match fact {
                Fact::Granted { grant, dataset, epoch, batches, .. } => {
                    grants.insert(*grant, (Arc::clone(dataset), *epoch));
                    let reached = reached.entry(Arc::clone(dataset)).or_default();
                    reached.come_to(*epoch, batches.end());
                    reached.has_grant = true;
                }
                Fact::EpochBegun { dataset, epoch } => {
                    reached.entry(Arc::clone(dataset)).or_default().come_to(*epoch, 0);
                }
                Fact::Accounted { grant, batches } => match grants.get(grant) {
                    Some((dataset, epoch)) => {
                        reached.entry(Arc::clone(dataset)).or_default().come_to(*epoch, batches.end());
                    }
                    None => stray = stray.max(batches.end()),
                },
                Fact::Rewound { .. } => rewinds += 1,
                Fact::Registered { .. }
                | Fact::Returned { .. }
                | Fact::Failed { .. }
                | Fact::FailureSettled { .. }
                | Fact::BatchTimeMeasured { .. }
                | Fact::Charged { .. }
                | Fact::Quarantined { .. } => {}
            }
        }
        let mut all = 0_u64;
        for (name, dataset) in &mut self.datasets {
            let reached = reached.remove(name).unwrap_or_default();
            let may_go_further = lost.may_hold_grants && !reached.has_grant;
            // After each rewind the same batches may have been processed once more.
            let open = handed_out(dataset, &reached, stray, may_go_further).saturating_mul(1 + rewinds);
            dataset.repeated = dataset.repeated.saturating_add(open);
            dataset.reopened = dataset.reopened.saturating_add(open);
            all = all.saturating_add(open);
        }
        let last = grants.keys().map(|grant| grant.0).max().unwrap_or(0).max(self.last_grant);
        self.last_grant = last.saturating_add(SKIPPED_GRANTS);
        all
    }
}

impl Reached {
    fn come_to(&mut self, epoch: u32, end: u64) {
        self.epoch = self.epoch.max(Some(epoch));
        let known = self.batches.entry(epoch).or_default();
        *known = end.max(*known);
    }
}

/// Records of batches that were handed out and are not accounted for.
fn handed_out(dataset: &DatasetState, reached: &Reached, stray: u64, may_go_further: bool) -> u64 {
    let spec = &dataset.spec;
    let records = |ranges: &Ranges| ranges.iter().map(|batches| spec.records_in(batches)).sum::<u64>();
    let last_here = dataset.begun.checked_sub(1);
    let Some(last) = reached.epoch.max(last_here) else { return 0 };
    // A journal of this job names no later epoch than its data has.
    let last = last.min(spec.epochs.map_or(last, |epochs| epochs.saturating_sub(1)));
    // After the end of an epoch the next one may have begun.
    let is_between = may_go_further && dataset.epochs.is_empty() && last < dataset.begun;
    let last = if is_between && spec.has_epoch(dataset.begun) { dataset.begun } else { last };
    let end_of = |number: u32, fresh: u64| match number == last && !may_go_further {
        true => reached.batches.get(&number).copied().unwrap_or(0).max(stray).max(fresh).min(spec.batches()),
        // The next epoch begins when all batches are handed out.
        false => spec.batches(),
    };
    let until = |end: u64| spec.records_in(Batches::new(0, end));
    let mut open = 0_u64;
    for (number, epoch) in &dataset.epochs {
        let done = epoch.accounted + records(&epoch.quarantined);
        open = open.saturating_add(until(end_of(*number, epoch.fresh)).saturating_sub(done));
    }
    if let Some(unknown) = last.checked_sub(dataset.begun) {
        // Epochs that began in the lost part; all but the last were handed out completely.
        let complete = u64::from(unknown).saturating_mul(spec.records);
        open = open.saturating_add(complete).saturating_add(until(end_of(last, 0)));
    }
    open
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::ledger::{ClientKind, DatasetSpec, LeaseOutcome, LeaseRequest, WorkerId};

    /// The facts of a worker that leases and acknowledges `batches` batches of 10 records, one by one.
    fn history(batches: u64) -> Vec<Fact> {
        let (mut ledger, mut facts) = (Ledger::default(), Vec::new());
        ledger.register(DatasetSpec::new("d", 1000, 10).unwrap(), &mut facts).unwrap();
        let (worker, now) = (WorkerId::new("w", 1), Duration::from_secs(1));
        let request = LeaseRequest { dataset: "d".into(), batches: 1, epoch: None, client: ClientKind::Stateless };
        for _ in 0..batches {
            let leased = ledger.lease(&worker, &request, now, &mut facts).unwrap();
            let LeaseOutcome::Lease(lease) = leased else { panic!("{leased:?}") };
            ledger.acknowledge(&worker, lease.grant, lease.batches, now, &mut facts).unwrap();
        }
        facts
    }

    fn replayed(facts: &[Fact]) -> Ledger {
        let mut ledger = Ledger::default();
        facts.iter().for_each(|fact| ledger.replay(fact));
        ledger
    }

    /// Whatever single fact is lost, the count covers every record that was accounted for behind it.
    #[test]
    fn the_count_covers_what_was_accounted_for_behind_the_damage() {
        let facts = history(30);
        let accounted = |ledger: &Ledger| ledger.totals("d").map_or(0, |totals| totals.accounted);
        let whole = accounted(&replayed(&facts));
        assert_eq!(whole, 300);
        for bad in 1..facts.len() {
            let mut ledger = replayed(&facts[..bad]);
            let before = accounted(&ledger);
            let lost = LostFacts { behind: facts[bad + 1..].to_vec(), may_hold_grants: false };
            let open = ledger.reopen_lost(&lost);
            // The damaged fact itself may be the last acknowledgement.
            assert!(before + open >= whole, "fact {bad}: {before} + {open}");
            assert!(open <= whole + 10 * 64, "fact {bad}: the count {open} is no guess");
            let totals = ledger.totals("d").unwrap();
            assert_eq!((totals.repeated_at_most, totals.reopened_at_most), (open, open));
        }
    }

    #[test]
    fn an_unreadable_end_may_hold_the_rest_of_the_epoch() {
        let facts = history(30);
        let mut ledger = replayed(&facts[..facts.len() / 2]);
        let before = ledger.totals("d").unwrap().accounted;
        let open = ledger.reopen_lost(&LostFacts { behind: Vec::new(), may_hold_grants: true });
        assert_eq!(before + open, 1000);
    }

    #[test]
    fn no_grant_has_the_number_of_a_lost_one() {
        let facts = history(30);
        let last = replayed(&facts).last_grant;
        let mut ledger = replayed(&facts[..2]);
        ledger.reopen_lost(&LostFacts { behind: Vec::new(), may_hold_grants: true });
        assert!(ledger.last_grant > last);
    }

    /// The checked-in inputs of the fuzz target `journal_loss`, behind the byte that says what the gap may hold.
    #[test]
    fn facts_of_the_corpus_are_counted_without_an_overflow() {
        let open = |input: &str| {
            let mut ledger = replayed(&history(3));
            ledger
                .reopen_lost(&LostFacts { behind: serde_json::from_str(&input[1..]).unwrap(), may_hold_grants: false })
        };
        assert!(open(include_str!("../../../../fuzz/corpus/journal_loss/granted_and_accounted")) >= 10);
        assert_eq!(open(include_str!("../../../../fuzz/corpus/journal_loss/stray_acknowledgement")), 970);
        assert_eq!(
            open(include_str!("../../../../fuzz/corpus/journal_loss/late_epoch")),
            open("0[]"),
            "it has one epoch"
        );
    }
}
