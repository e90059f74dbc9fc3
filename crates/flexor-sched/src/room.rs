//! Which surplus pods end so that base pods fit: the fewest for each pod placed.
//!
//! Candidates are a node and a number of its surplus pods. The best has the lowest victims per placed pod, then leaves
//! the least new waste, then takes the highest rank. On a node those victims go first whose job is furthest above its share, then pods that do not
//! run yet, then the highest rank.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap};

use crate::classes::fitting;
use crate::fulfilment::Claim;
use crate::index::{ClassIx, GroupIx, NodeIx};
use crate::state::{Phase, PodRef, State};

/// Room that can be made on one node.
#[derive(Debug)]
pub(crate) struct Room {
    pub node: NodeIx,
    pub victims: Vec<PodRef>,
    /// How many pods fit then.
    pub fit: usize,
}

/// Finds room for pods of one class, again and again. Candidates are computed once and checked when they are used.
#[derive(Debug)]
pub(crate) struct RoomFinder {
    class: ClassIx,
    candidates: BinaryHeap<Reverse<Candidate>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Candidate {
    victims: usize,
    fit: usize,
    /// Waste that it makes; below zero if it makes use of waste.
    waste: i64,
    /// The rank of the pod that goes first.
    rank: u32,
    node: NodeIx,
}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        let rate = (self.victims * other.fit).cmp(&(other.victims * self.fit));
        rate.then(self.waste.cmp(&other.waste)).then(other.rank.cmp(&self.rank)).then(self.node.cmp(&other.node))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl RoomFinder {
    pub(crate) fn new(state: &State, class: ClassIx, pods: usize) -> Self {
        let candidates = NodeIx::all(state.ledger.nodes()).filter_map(|node| candidate(state, class, node, pods));
        Self { class, candidates: candidates.map(Reverse).collect() }
    }

    /// The best room for at most so many pods.
    pub(crate) fn best(&mut self, state: &State, pods: usize) -> Option<Room> {
        while let Some(Reverse(known)) = self.candidates.pop() {
            let Some(current) = candidate(state, self.class, known.node, pods) else { continue };
            if self.candidates.peek().is_some_and(|Reverse(next)| *next < current) {
                self.candidates.push(Reverse(current));
                continue;
            }
            // The node may have room for more later.
            self.candidates.push(Reverse(current));
            let victims = victims(state, current.node).take(current.victims).collect();
            return Some(Room { node: current.node, victims, fit: current.fit });
        }
        None
    }
}

/// The best number of victims on a node.
fn candidate(state: &State, class: ClassIx, node: NodeIx, pods: usize) -> Option<Candidate> {
    let class = state.classes.get(class);
    if !class.accepted_by(node) || state.surplus_on[node.get()].is_empty() {
        return None;
    }
    let before = state.classes.unusable(node, state.ledger.after(node));
    let mut room = state.ledger.after(node).to_vec();
    let mut best: Option<Candidate> = None;
    let mut first = None;
    for (count, victim) in victims(state, node).enumerate() {
        room.iter_mut().zip(state.need(victim.0)).for_each(|(room, need)| *room += need);
        let rank = *first.get_or_insert(victim.1);
        let fit = (fitting(&room, &class.need) as usize).min(pods);
        if fit == 0 {
            continue;
        }
        let taken = i64::try_from(fit).unwrap_or(i64::MAX);
        let rest: Vec<i64> = room.iter().zip(&class.need).map(|(room, need)| room - taken * need).collect();
        let waste = state.classes.unusable(node, &rest) - before;
        let found = Candidate { victims: count + 1, fit, waste, rank, node };
        best = Some(best.map_or(found, |best| best.min(found)));
        if fit == pods {
            break;
        }
    }
    best
}

/// The surplus pods of a node in the order in which they would go.
fn victims(state: &State, node: NodeIx) -> impl Iterator<Item = PodRef> + '_ {
    let mut by_group: BTreeMap<GroupIx, Vec<u32>> = BTreeMap::new();
    for (group, rank) in &state.surplus_on[node.get()] {
        by_group.entry(*group).or_default().push(*rank);
    }
    let runs = |group: GroupIx, rank: u32| state.group(group).pods.get(&rank).is_some_and(|s| s.phase == Phase::Bound);
    let mut groups: Vec<(GroupIx, u32, Vec<u32>)> = Vec::with_capacity(by_group.len());
    for (group, mut ranks) in by_group {
        // The last of the list goes first.
        ranks.sort_by_key(|rank| (Reverse(runs(group, *rank)), *rank));
        groups.push((group, state.group(group).surplus, ranks));
    }
    std::iter::from_fn(move || {
        let open = groups.iter_mut().filter(|(_, _, ranks)| !ranks.is_empty());
        let (group, surplus, ranks) =
            open.max_by_key(|(group, surplus, _)| Claim::last(*surplus, state.group(*group).span(), *group))?;
        *surplus -= 1;
        ranks.pop().map(|rank| (*group, rank))
    })
}
