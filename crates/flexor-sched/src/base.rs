//! The base stage: master, servers and least replicas of a job are placed together or not at all.
//!
//! Jobs go by priority, then age. A pod goes where the scheduler would put it; where it fits on no node, surplus makes
//! room ([`crate::room`]). Places are promises first; [`crate::redemption`] makes pods of them as soon as all of a job's
//! room is free. A gang that does not fit leaves no trace, and smaller jobs behind it get their turn.

use std::collections::BTreeMap;

use crate::index::{ClassIx, GroupIx, NodeIx};
use crate::room::RoomFinder;
use crate::shortage::Shortage;
use crate::state::{EndCause, Ended, Phase, PodRef, Slot, State};

/// The numbers of pods of a gang, by class.
type Demand = BTreeMap<ClassIx, u32>;

/// Held jobs, by position, and what they lack.
pub(crate) type Held = BTreeMap<usize, Shortage>;

/// Places the base of every job that lacks a part of it. Says whether anything changed; `held` has the others.
pub(crate) fn place(state: &mut State, held: &mut Held) -> bool {
    held.clear();
    let mut failed: BTreeMap<Demand, (u64, Shortage)> = BTreeMap::new();
    let mut changed = false;
    for job in state.order.clone() {
        let missing = missing(state, job);
        if missing.is_empty() {
            continue;
        }
        let demand = demand(state, &missing);
        if let Some((commits, shortage)) = failed.get(&demand)
            && *commits == state.commits
            && !has_promised_base(state, job)
        {
            held.insert(job, shortage.clone());
            continue;
        }
        let attempt = Shortage::before(state, &demand).map_or_else(|| attempt(state, job, &missing), Err);
        match attempt {
            Ok(ended) => {
                state.ended.extend(ended);
                state.commits += 1;
                changed = true;
            }
            Err(shortage) => {
                changed |= release(state, job);
                failed.insert(demand, (state.commits, shortage.clone()));
                held.insert(job, shortage);
            }
        }
    }
    changed
}

/// The missing ranks of a job, the largest pods first.
fn missing(state: &State, job: usize) -> Vec<(GroupIx, Vec<u32>)> {
    let ranks = |group: GroupIx| (group, state.group(group).missing().collect::<Vec<_>>());
    let mut missing: Vec<_> = state.groups_of(job).map(ranks).filter(|(_, ranks)| !ranks.is_empty()).collect();
    missing.sort_by_key(|(group, _)| {
        (std::cmp::Reverse(state.classes.get(state.group(*group).class).part_of_node()), *group)
    });
    missing
}

fn demand(state: &State, missing: &[(GroupIx, Vec<u32>)]) -> Demand {
    let mut demand = Demand::new();
    for (group, ranks) in missing {
        *demand.entry(state.group(*group).class).or_default() += u32::try_from(ranks.len()).unwrap_or(u32::MAX);
    }
    demand
}

/// Places all missing pods, or none.
fn attempt(state: &mut State, job: usize, missing: &[(GroupIx, Vec<u32>)]) -> Result<Vec<Ended>, Shortage> {
    let (mut placed, mut ended) = (Vec::new(), Vec::new());
    for (group, ranks) in missing {
        if let Err(left) = place_group(state, job, *group, ranks, &mut placed, &mut ended) {
            let shortage = Shortage::fragments(state, *group, left, ranks.len());
            // The last change is taken back first, so that every step finds the state that it left.
            for pod in placed.into_iter().rev() {
                state.end(pod, EndCause::PlaceGone);
            }
            ended.into_iter().rev().for_each(|pod| state.reinstate(pod));
            return Err(shortage);
        }
    }
    Ok(ended)
}

/// Places these ranks of a role. The error is the number of pods without a place.
fn place_group(
    state: &mut State,
    job: usize,
    group: GroupIx,
    ranks: &[u32],
    placed: &mut Vec<PodRef>,
    ended: &mut Vec<Ended>,
) -> Result<(), usize> {
    let class = state.group(group).class;
    let mut finder: Option<RoomFinder> = None;
    let mut left = ranks;
    while !left.is_empty() {
        let (node, fit) = match roomiest(state, class) {
            Some(node) => (node, 1),
            None => {
                let finder = finder.get_or_insert_with(|| RoomFinder::new(state, class, left.len()));
                let room = finder.best(state, left.len()).ok_or(left.len())?;
                ended.extend(room.victims.into_iter().map(|pod| state.end(pod, EndCause::RoomFor(job))));
                (room.node, room.fit)
            }
        };
        let (now, later) = left.split_at(fit.min(left.len()));
        for rank in now {
            state.place((group, *rank), Slot { node, phase: Phase::Promised });
            placed.push((group, *rank));
        }
        left = later;
    }
    Ok(())
}

/// The node with the largest free share that fits such a pod: now if possible, else after drains.
fn roomiest(state: &State, class: ClassIx) -> Option<NodeIx> {
    let class = state.classes.get(class);
    let roomiest = |fits: &dyn Fn(NodeIx) -> bool| {
        let mut best: Option<(i64, NodeIx)> = None;
        for node in NodeIx::all(state.ledger.nodes()) {
            let share = state.free_share(node);
            if best.is_none_or(|(most, _)| share > most) && class.accepted_by(node) && fits(node) {
                best = Some((share, node));
            }
        }
        best.map(|(_, node)| node)
    };
    roomiest(&|node| state.ledger.fits_now(node, &class.need))
        .or_else(|| roomiest(&|node| state.ledger.fits_after(node, &class.need)))
}

fn promised_base(state: &State, job: usize) -> Vec<PodRef> {
    let promised = |group: GroupIx| {
        let pods = state.group(group).pods.range(..state.group(group).min);
        pods.filter(|(_, slot)| slot.phase == Phase::Promised).map(move |(rank, _)| (group, *rank))
    };
    state.groups_of(job).flat_map(promised).collect()
}

fn has_promised_base(state: &State, job: usize) -> bool {
    !promised_base(state, job).is_empty()
}

/// Gives back what was promised to a gang that cannot be completed. Says whether there was anything.
fn release(state: &mut State, job: usize) -> bool {
    let promised = promised_base(state, job);
    for pod in &promised {
        state.end(*pod, EndCause::PlaceGone);
    }
    state.commits += u64::from(!promised.is_empty());
    !promised.is_empty()
}
