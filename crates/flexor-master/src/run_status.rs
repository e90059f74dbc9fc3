//! The status of a run for people, and the log of its decisions.

use std::collections::HashMap;
use std::sync::Arc;

use flexor_engine::rendezvous::{Cause, Fact, MemberId, MemberState, Rendezvous, RunId};
use flexor_model::Severity;
use serde::Serialize;

/// A run in `/api/status`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunStatus {
    /// The name of the run: torchrun's `--rdzv-id`.
    pub run: String,
    /// The round of the world, if there is one.
    pub round: Option<u64>,
    pub world_size: usize,
    pub program_failures: u32,
    /// The target number of nodes, if the controller has set it.
    pub expected: Option<u32>,
    /// What the run is doing or waiting for, and why.
    pub status: Cause,
    /// Why the world has to restart, if it has to.
    pub restart: Option<Cause>,
    pub closed: bool,
    /// All live members.
    pub members: Vec<MemberStatus>,
}

/// A member of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MemberStatus {
    pub node: String,
    /// The pod, if a sidecar has reported it.
    pub pod: Option<String>,
    pub state: MemberState,
    /// The rank of a member that is in the world.
    pub rank: Option<u32>,
}

/// The status of a run. `pod_of` gives the pod of a member, if it is known.
pub(crate) fn of_run<'a>(
    id: &RunId,
    machine: &Rendezvous,
    pod_of: impl Fn(&MemberId) -> Option<&'a Arc<str>>,
) -> RunStatus {
    let world = machine.world();
    let ranks: HashMap<_, u32> = world.iter().flat_map(|world| world.members.iter().zip(0..)).collect();
    let member = |(id, state): (MemberId, MemberState)| MemberStatus {
        node: id.to_string(),
        pod: pod_of(&id).map(ToString::to_string),
        state,
        rank: ranks.get(&id).copied().filter(|_| state == MemberState::InWorld),
    };
    RunStatus {
        run: id.to_string(),
        round: world.map(|world| world.round.0),
        world_size: world.map_or(0, |world| world.members.len()),
        program_failures: machine.program_failures(),
        expected: machine.expected(),
        status: machine.status(),
        restart: machine.restart_cause(),
        closed: machine.closed().is_some(),
        members: machine.members().map(member).collect(),
    }
}

/// Logs a fact as one line, in the span of its node.
pub(crate) fn log(id: &RunId, fact: &Fact) {
    let of_node = |node: &MemberId| tracing::info_span!("node", name = %node).entered();
    match fact {
        Fact::Joined { id: node, newcomer, .. } => {
            let _span = of_node(node);
            tracing::info!(run = %id, newcomer, "joined");
        }
        Fact::Standby { id: node, cause, .. } => {
            let _span = of_node(node);
            tracing::info!(run = %id, %cause, "is a standby");
        }
        Fact::ProcessesChanged { id: node, processes } => {
            let _span = of_node(node);
            tracing::debug!(run = %id, ?processes, "has other processes");
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
            tracing::info!(run = %id, %cause, "ended");
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
        Fact::Reopened { cause } => tracing::info!(run = %id, %cause, "run reopened"),
        Fact::Expected { nodes } => tracing::info!(run = %id, ?nodes, "target number of nodes"),
    }
}
