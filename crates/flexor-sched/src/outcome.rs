//! Reads the decisions off the working copy when all stages are done.

use std::collections::BTreeMap;

use flexor_model::Rank;

use crate::base::Held;
use crate::index::{GroupIx, NodeIx};
use crate::state::{EndCause, Ended, Origin, Phase, State};
use crate::{ClusterPlan, Creation, HeldJob, JobKey, Promise, Removal, RoleDecision, Rule};

/// Removed pods of one role, by rank: where they were, and why they go.
type Removed = BTreeMap<u32, (NodeIx, Phase, Rule)>;

pub(crate) fn read(state: &State, mut held: Held, not_started: Vec<JobKey>, swaps: u32) -> ClusterPlan {
    let mut removed: BTreeMap<GroupIx, Removed> = BTreeMap::new();
    for Ended { pod: (group, rank), slot, cause } in &state.ended {
        match slot.phase {
            // A pod that only this plan knew, or room that held no pod yet.
            Phase::Created(_) | Phase::Promised => {}
            Phase::Bound | Phase::Assigned => {
                let pod = (slot.node, slot.phase, rule_of_end(state, *cause));
                removed.entry(*group).or_default().insert(*rank, pod);
            }
        }
    }
    let decide = |group: GroupIx| decision(state, group, removed.remove(&group).unwrap_or_default());
    let hold = |job: &usize| Some(HeldJob { job: state.jobs[*job].key.clone(), shortage: held.remove(job)? });
    ClusterPlan {
        roles: GroupIx::all(state.groups.len()).filter_map(decide).collect(),
        held: state.order.iter().filter_map(hold).collect(),
        promises: promises(state),
        not_started,
        swaps,
    }
}

fn decision(state: &State, group: GroupIx, mut removed: Removed) -> Option<RoleDecision> {
    let row = state.group(group);
    let mut create = Vec::new();
    for (rank, slot) in &row.pods {
        let Phase::Created(origin) = slot.phase else { continue };
        // A pod that waits for its node and gets the same one again stays as it is.
        let stays = |(node, phase, rule): &(NodeIx, Phase, Rule)| {
            *node == slot.node && *phase == Phase::Assigned && *rule != Rule::PlaceGone
        };
        if removed.get(rank).is_some_and(stays) {
            removed.remove(rank);
            continue;
        }
        create.push(Creation {
            rank: Rank(*rank),
            node: state.nodes[slot.node.get()].clone(),
            base: row.is_base(*rank),
            rule: match origin {
                Origin::Base => Rule::Base,
                Origin::Growth => Rule::Growth,
                Origin::Swap => Rule::Swap,
            },
        });
    }
    let to = row.size();
    if create.is_empty() && removed.is_empty() && to == row.target {
        return None;
    }
    let remove = removed.into_iter().map(|(rank, (_, _, rule))| Removal { rank: Rank(rank), rule }).collect();
    let job = state.jobs[row.job].key.clone();
    Some(RoleDecision { job, role: row.name.clone(), from: row.target, to, remove, create })
}

fn promises(state: &State) -> Vec<Promise> {
    let of = |(group, rank): &(GroupIx, u32)| {
        let row = state.group(*group);
        Promise {
            job: state.jobs[row.job].key.clone(),
            role: row.name.clone(),
            rank: Rank(*rank),
            node: state.nodes[row.pods[rank].node.get()].clone(),
        }
    };
    let mut promises: Vec<Promise> = state.promised.iter().map(of).collect();
    promises.sort();
    promises
}

fn rule_of_end(state: &State, cause: EndCause) -> Rule {
    match cause {
        EndCause::RoomFor(job) => Rule::RoomFor(state.jobs[job].key.clone()),
        EndCause::SwapTo(job) => Rule::SwapTo(state.jobs[job].key.clone()),
        EndCause::AboveMax => Rule::AboveMax,
        EndCause::NotStarted => Rule::NotStarted,
        EndCause::PlaceGone => Rule::PlaceGone,
    }
}
