//! The settle stage: surplus changes hands, pod for pod on its node, until every role has its share.
//!
//! Each swap ends a pod that works, so a budget limits them. A swap takes from a role above its share and gives to one
//! below: the sum of what roles lack falls by one each time and nothing else raises it, so swapping ends.

use std::cmp::Reverse;

use crate::classes::fits;
use crate::fulfilment::Claim;
use crate::index::GroupIx;
use crate::share::shares;
use crate::state::{EndCause, Phase, PodRef, Slot, State};

/// Makes at most `budget` swaps. Returns their number.
pub(crate) fn swap(state: &mut State, budget: u32) -> u32 {
    if budget == 0 {
        return 0;
    }
    let shares = shares(state);
    (0..budget).take_while(|_| swap_one(state, &shares)).fold(0, |swaps, _| swaps + 1)
}

fn swap_one(state: &mut State, shares: &[u32]) -> bool {
    let Some((pod, receiver)) = best_swap(state, shares) else { return false };
    let rank = state.group(receiver).free_rank(0).expect("a receiver has a free rank");
    let ended = state.end(pod, EndCause::SwapTo(state.group(receiver).job));
    state.ended.push(ended);
    state.place((receiver, rank), Slot { node: ended.slot.node, phase: Phase::Promised });
    true
}

/// The pod of the role furthest above its share that the role furthest below can use.
fn best_swap(state: &State, shares: &[u32]) -> Option<(PodRef, GroupIx)> {
    let sharing = state.sharing();
    let claim = |group: &GroupIx, at: fn(u32, u32, GroupIx) -> Claim| {
        at(state.group(*group).surplus, state.group(*group).span(), *group)
    };
    let above = |group: &&GroupIx| state.group(**group).surplus > shares[group.get()];
    let below = |group: &&GroupIx| {
        state.group(**group).surplus < shares[group.get()] && state.group(**group).free_rank(0).is_some()
    };
    let mut donors: Vec<GroupIx> = sharing.iter().filter(above).copied().collect();
    donors.sort_by_key(|group| Reverse(claim(group, Claim::last)));
    let mut receivers: Vec<GroupIx> = sharing.iter().filter(below).copied().collect();
    receivers.sort_by_key(|group| claim(group, Claim::next));
    // Receivers of one class can use the same pods.
    let mut classes = Vec::new();
    receivers.retain(|group| {
        let class = state.group(*group).class;
        let first = !classes.contains(&class);
        classes.push(class);
        first
    });
    let pairs = donors.iter().flat_map(|donor| receivers.iter().map(move |receiver| (*donor, *receiver)));
    pairs.into_iter().find_map(|(donor, receiver)| Some((usable_pod(state, donor, receiver)?, receiver)))
}

/// The surplus pod of the donor with the highest rank whose place the receiver's pod can take.
fn usable_pod(state: &State, donor: GroupIx, receiver: GroupIx) -> Option<PodRef> {
    let (group, class) = (state.group(donor), state.classes.get(state.group(receiver).class));
    let usable = |slot: &Slot| {
        let freed = state.ledger.after(slot.node).iter().zip(state.need(donor)).map(|(room, need)| room + need);
        class.accepted_by(slot.node) && fits(&freed.collect::<Vec<_>>(), &class.need)
    };
    let pods = group.pods.range(group.min..).rev();
    pods.into_iter().find(|(_, slot)| usable(slot)).map(|(rank, _)| (donor, *rank))
}
