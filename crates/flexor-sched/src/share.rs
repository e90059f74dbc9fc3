//! The share of each role: the surplus that equal fulfilment would give it.
//!
//! All surplus is taken away in thought and handed out again, pod by pod in the order of claims, to the first node that
//! fits, contested nodes last. The result does not depend on the present holders, so swaps towards it come to an end.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::classes::fits;
use crate::fulfilment::Claim;
use crate::index::{GroupIx, NodeIx};
use crate::state::State;

/// Surplus pods by group. Groups that take no part keep what they have.
pub(crate) fn shares(state: &State) -> Vec<u32> {
    let sharing = state.sharing();
    let mut takes_part = vec![false; state.groups.len()];
    sharing.iter().for_each(|group| takes_part[group.get()] = true);
    let mut shares: Vec<u32> = state.groups.iter().map(|group| group.surplus).collect();
    let mut room = state.potential.clone();
    for (node, pods) in state.surplus_on.iter().enumerate() {
        for (group, _) in pods.iter().filter(|(group, _)| !takes_part[group.get()]) {
            room[node].iter_mut().zip(state.need(*group)).for_each(|(room, need)| *room -= need);
        }
    }
    sharing.iter().for_each(|group| shares[group.get()] = 0);
    let mut nodes: Vec<usize> = (0..room.len()).collect();
    nodes.sort_by_key(|node| (state.classes.contest(NodeIx::at(*node)), *node));
    // Room only shrinks here: a node that does not fit a class is passed for good.
    let mut cursors = vec![0; state.classes.len()];
    let claim = |shares: &[u32], group: GroupIx| Claim::next(shares[group.get()], state.group(group).span(), group);
    let mut claims: BinaryHeap<Reverse<Claim>> = sharing.iter().map(|group| Reverse(claim(&shares, *group))).collect();
    while let Some(Reverse(next)) = claims.pop() {
        let group = next.group();
        let row = state.group(group);
        let class = state.classes.get(row.class);
        let cursor = &mut cursors[row.class.get()];
        let fit = |node: usize| class.accepted_by(NodeIx::at(node)) && fits(&room[node], &class.need);
        *cursor = (*cursor..nodes.len()).find(|at| fit(nodes[*at])).unwrap_or(nodes.len());
        let Some(node) = nodes.get(*cursor).copied() else { continue };
        room[node].iter_mut().zip(&class.need).for_each(|(room, need)| *room -= need);
        shares[group.get()] += 1;
        if shares[group.get()] < row.span() {
            claims.push(Reverse(claim(&shares, group)));
        }
    }
    shares
}
