//! The surplus stage: roles grow into room that is free now, the least fulfilled first.
//!
//! A pod goes to the node where it leaves the least waste; among equals to the one that the fewest classes can use. Room that is still draining is left alone: it belongs to
//! promises, or will be free for the next plan.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::fulfilment::Claim;
use crate::index::{ClassIx, NodeIx};
use crate::state::{Origin, Phase, Slot, State};

/// Fills free room. Says whether any role grew.
pub(crate) fn grow(state: &mut State) -> bool {
    let mut fits: Vec<Option<NodeHeap>> = (0..state.classes.len()).map(|_| None).collect();
    let mut ranks: Vec<u32> = state.groups.iter().map(|group| group.min).collect();
    let mut claims: BinaryHeap<Reverse<Claim>> = BinaryHeap::new();
    for group in state.sharing() {
        let row = state.group(group);
        if row.surplus < row.span() {
            claims.push(Reverse(Claim::next(row.surplus, row.span(), group)));
        }
    }
    let mut grown = false;
    while let Some(Reverse(claim)) = claims.pop() {
        let group = claim.group();
        let row = state.group(group);
        let Some(rank) = row.free_rank(ranks[group.get()]) else { continue };
        let nodes = fits[row.class.get()].get_or_insert_with(|| NodeHeap::new(state, row.class));
        let Some(node) = nodes.best(state) else { continue };
        ranks[group.get()] = rank + 1;
        state.place((group, rank), Slot { node, phase: Phase::Created(Origin::Growth) });
        grown = true;
        let row = state.group(group);
        if row.surplus < row.span() {
            claims.push(Reverse(Claim::next(row.surplus, row.span(), group)));
        }
    }
    grown
}

/// The nodes that fit one class now, the one with the least waste first.
struct NodeHeap {
    class: ClassIx,
    /// Waste, contest and node. An entry may be older than the last change of its node; it is checked when it is used.
    nodes: BinaryHeap<Reverse<(i64, u32, NodeIx)>>,
}

impl NodeHeap {
    fn new(state: &State, class: ClassIx) -> Self {
        let entry = |node| Some((waste(state, class, node)?, state.classes.contest(node), node));
        let nodes = NodeIx::all(state.ledger.nodes()).filter_map(entry);
        Self { class, nodes: nodes.map(Reverse).collect() }
    }

    fn best(&mut self, state: &State) -> Option<NodeIx> {
        while let Some(Reverse((known, contest, node))) = self.nodes.pop() {
            let Some(current) = waste(state, self.class, node) else { continue };
            self.nodes.push(Reverse((current, contest, node)));
            if current <= known {
                return Some(node);
            }
        }
        None
    }
}

/// The waste that a node would have with one more pod, if it fits there now.
fn waste(state: &State, class: ClassIx, node: NodeIx) -> Option<i64> {
    let row = state.classes.get(class);
    if !row.accepted_by(node) || !state.ledger.fits_now(node, &row.need) {
        return None;
    }
    let rest: Vec<i64> = state.ledger.after(node).iter().zip(&row.need).map(|(room, need)| room - need).collect();
    Some(state.classes.unusable(node, &rest))
}
