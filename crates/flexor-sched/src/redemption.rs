//! Makes pods of promises whose room is free.
//!
//! The promises of a gang are redeemed together: as long as one of its nodes drains, none of its pods is created. Created
//! earlier they would wait unbound, and the scheduler could give their room to others meanwhile.

use std::collections::BTreeMap;

use crate::index::NodeIx;
use crate::ledger::Tier;
use crate::state::{EndCause, Origin, PodRef, State};

/// Redeems what can be redeemed. Says whether anything changed.
pub(crate) fn redeem(state: &mut State) -> bool {
    let mut gangs: BTreeMap<usize, Vec<PodRef>> = BTreeMap::new();
    let mut single = Vec::new();
    for pod in &state.promised {
        let group = state.group(pod.0);
        if group.is_base(pod.1) { gangs.entry(group.job).or_default().push(*pod) } else { single.push(*pod) }
    }
    let mut changed = false;
    for job in state.order.clone() {
        let Some(gang) = gangs.get(&job).filter(|gang| gang_fits(state, gang)) else { continue };
        gang.iter().for_each(|pod| state.redeem(*pod, Origin::Base));
        changed = true;
    }
    for pod in single {
        let group = state.group(pod.0);
        if !state.base_is_there(group.job) && !state.is_starting(group.job) {
            // A held job cannot use surplus. Its room goes to others.
            state.end(pod, EndCause::PlaceGone);
            changed = true;
            continue;
        }
        let node = group.pods[&pod.1].node;
        let ready = !group.draining.contains(&pod.1) && state.base_is_there(group.job);
        if ready && state.ledger.redeemable(node, state.need(pod.0), Tier::Surplus) {
            state.redeem(pod, Origin::Swap);
            changed = true;
        }
    }
    changed
}

/// Whether all pods of a gang have their room now, and none of their ranks is still in use.
fn gang_fits(state: &State, gang: &[PodRef]) -> bool {
    let mut needs: BTreeMap<NodeIx, Vec<i64>> = BTreeMap::new();
    for (group, rank) in gang {
        if state.group(*group).draining.contains(rank) {
            return false;
        }
        let node = state.group(*group).pods[rank].node;
        let sum = needs.entry(node).or_insert_with(|| vec![0; state.units.width()]);
        sum.iter_mut().zip(state.need(*group)).for_each(|(sum, need)| *sum += need);
    }
    needs.iter().all(|(node, need)| state.ledger.redeemable(*node, need, Tier::Base))
}
