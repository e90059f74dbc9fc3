//! The ledger's invariants, for debug builds, property tests and simulations.

use super::{Ledger, Ranges};

/// The first broken invariant, in words.
pub fn broken(ledger: &Ledger) -> Option<String> {
    // Debug builds run this after every call; with more grants that would be quadratic.
    if ledger.grants.len() > 64 {
        return None;
    }
    for (name, dataset) in &ledger.datasets {
        let all = dataset.spec.batches();
        for (number, epoch) in &dataset.epochs {
            let of = format!("epoch {number} of {name}");
            let held = || ledger.grants.values().filter(|held| held.dataset == *name && held.epoch == *number);
            let granted: u64 = held().map(super::Grant::outstanding).sum();
            if granted != epoch.granted {
                return Some(format!("{of} counts {} granted batches, workers have {granted}", epoch.granted));
            }
            let mut everywhere = Ranges::default();
            let mut sum = all - epoch.fresh;
            let states = [&epoch.returned, &epoch.suspects, &epoch.quarantined];
            for batches_in_state in states.into_iter().chain(held().flat_map(|held| [&held.leased, &held.unleased])) {
                sum += batches_in_state.count();
                batches_in_state.iter().for_each(|batches| everywhere.insert(batches));
            }
            if everywhere.count() + (all - epoch.fresh) != sum || everywhere.end() > epoch.fresh {
                return Some(format!("a batch of {of} is in two states"));
            }
            if sum + epoch.accounted_batches != all {
                return Some(format!("{of} has {all} batches; {sum} are open, {} done", epoch.accounted_batches));
            }
            if epoch.is_finished(all) {
                return Some(format!("{of} is finished and still kept"));
            }
        }
        let totals = ledger.totals(name)?;
        if totals.expected != totals.accounted + totals.quarantined + totals.outstanding {
            return Some(format!("the records of {name} do not add up: {totals:?}"));
        }
    }
    let index: usize = ledger.workers.values().map(|worker| worker.grants.len()).sum();
    let known = |id: &super::GrantId, held: &super::Grant| {
        let worker = ledger.workers.get(&held.worker.name);
        worker.is_some_and(|worker| worker.incarnation == held.worker.incarnation && worker.grants.contains(id))
    };
    if index != ledger.grants.len() || !ledger.grants.iter().all(|(id, held)| known(id, held)) {
        return Some("a grant is not with its worker".to_owned());
    }
    None
}
