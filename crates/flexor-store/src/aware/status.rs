//! What there is to tell of a run: to people, and to the log.

use std::collections::HashMap;

use flexor_engine::rendezvous::{Cause, Fact, MemberId, Place};
use flexor_model::Severity;
use serde::Serialize;

use super::run::Run;

/// A run, for `/api`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunStatus {
    /// What `--rdzv-id` names.
    pub run: String,
    /// The round of the world, if there is one.
    pub round: Option<u64>,
    /// How many are in the world.
    pub world_size: usize,
    /// How many times the program has failed.
    pub program_failures: u32,
    /// How many nodes are expected, if that is known.
    pub expected: Option<u32>,
    /// Why things are as they are.
    pub standing: Cause,
    /// Why the world has to meet again, if it has to.
    pub restart: Option<Cause>,
    /// Whether nobody can join any more.
    pub closed: bool,
    /// Everyone who is alive.
    pub members: Vec<MemberStatus>,
}

/// A member of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MemberStatus {
    /// Its name.
    pub node: String,
    /// Its pod, if its sidecar told it.
    pub pod: Option<String>,
    /// Where it stands.
    pub place: Place,
    /// Its rank, if it is in the world.
    pub rank: Option<u32>,
}

pub(super) fn of_run(run: &Run) -> RunStatus {
    let machine = &run.machine;
    let world = machine.world();
    let ranks: HashMap<_, u32> = world.iter().flat_map(|world| world.members.iter().zip(0..)).collect();
    let member = |(id, place): (MemberId, Place)| MemberStatus {
        node: id.to_string(),
        pod: run.pods.get(&id).map(ToString::to_string),
        place,
        rank: ranks.get(&id).copied().filter(|_| place == Place::World),
    };
    RunStatus {
        run: run.id.to_string(),
        round: world.map(|world| world.round.0),
        world_size: world.map_or(0, |world| world.members.len()),
        program_failures: machine.program_failures(),
        expected: machine.expected(),
        standing: machine.standing(),
        restart: machine.restart_wanted(),
        closed: machine.closed().is_some(),
        members: machine.members().map(member).collect(),
    }
}

/// One line for what was decided, in the span of the node that it is about.
pub(super) fn log(run: &Run, fact: &Fact) {
    let id = &run.id;
    let of_node = |node: &MemberId| tracing::info_span!("node", name = %node).entered();
    match fact {
        Fact::Joined { id: node, newcomer, .. } => {
            let _span = of_node(node);
            tracing::info!(run = %id, newcomer, "joined");
        }
        Fact::Spared { id: node, cause, .. } => {
            let _span = of_node(node);
            tracing::info!(run = %id, %cause, "kept as a spare");
        }
        Fact::Brings { id: node, processes } => {
            let _span = of_node(node);
            tracing::debug!(run = %id, ?processes, "brings something else");
        }
        Fact::Left { id: node } => {
            let _span = of_node(node);
            tracing::debug!(run = %id, "left");
        }
        Fact::Finished { id: node } => {
            let _span = of_node(node);
            tracing::info!(run = %id, "finished");
        }
        Fact::Dropped { id: node, cause } if cause.reason.severity() == Severity::Notice => {
            let _span = of_node(node);
            tracing::info!(run = %id, %cause, "gone");
        }
        Fact::Dropped { id: node, cause } => {
            let _span = of_node(node);
            tracing::warn!(run = %id, %cause, "lost");
        }
        Fact::Completed { round, members, cause, trigger, program_failures } => {
            let trigger = trigger.as_ref().map(ToString::to_string).unwrap_or_default();
            tracing::info!(run = %id, %round, size = members.len(), %cause, %trigger, program_failures, "round complete");
        }
        Fact::Closed { cause } if cause.reason.severity() == Severity::Error => {
            tracing::error!(run = %id, %cause, "run closed");
        }
        Fact::Closed { cause } => tracing::info!(run = %id, %cause, "run closed"),
        Fact::Reopened { cause } => tracing::info!(run = %id, %cause, "run opened again"),
        Fact::Expected { nodes } => tracing::info!(run = %id, ?nodes, "expected number of nodes"),
    }
}
