//! What a launcher reports to the master about its workers: which ended how, and why the program failed.
//!
//! The master gives the batches that an ended worker held to others, or suspects them of having made it fail.

use flexor_wire::master::v1 as wire;
use wire::request::Op;
use wire::worker_ended::Ending;

use super::Launch;
use super::local_group::{LocalGroup, worker_name};
use crate::workers::{FailureReport, FirstFailure, LocalRank, WorkerExit};

/// The longest message of an event, in bytes.
const MAX_MESSAGE: usize = 4000;

/// One worker has succeeded while others run: they take over the batches that it has left.
pub(super) fn worker_finished(launch: &Launch, group: &LocalGroup, local: LocalRank) -> Op {
    let workers = vec![worker_ended(launch, group, local.0, Ending::Finished)];
    Op::Ended(wire::WorkersEnded { workers, round: None })
}

/// The program has failed in one worker, before any other of this node.
///
/// A worker that has opted in does not fail when it loses its peers, so the master blames it at once. For other workers
/// the master waits until the nodes of their round have held a rendezvous again; the report names the round.
pub(super) fn first_failed(launch: &Launch, group: &LocalGroup, first: FirstFailure) -> Op {
    // A killed worker did not fail because of its batches.
    let ending = if first.was_killed { Ending::Lost } else { Ending::Failed };
    let workers = vec![worker_ended(launch, group, first.local_rank.0, ending)];
    Op::Ended(wire::WorkersEnded { workers, round: group.round().filter(|_| !group.opted_in) })
}

/// All workers have ended, and none of them failed by itself.
pub(super) fn all_ended(launch: &Launch, group: &LocalGroup) -> Op {
    all_ended_but(launch, group, None)
}

/// All workers have ended, and none of them failed by itself but the one that was `reported` before.
pub(super) fn all_ended_but(launch: &Launch, group: &LocalGroup, reported: Option<LocalRank>) -> Op {
    let has_finished = |local: u32| {
        let is_it = |exit: &&WorkerExit| exit.local_rank.0 == local;
        let exit = group.workers.exits().iter().find(is_it);
        exit.is_some_and(|exit| exit.outcome.is_success() && !exit.during_shutdown)
    };
    let ending = |local: u32| if has_finished(local) { Ending::Finished } else { Ending::Lost };
    let others = (0..launch.processes).filter(|local| reported != Some(LocalRank(*local)));
    let workers = others.map(|local| worker_ended(launch, group, local, ending(local))).collect();
    Op::Ended(wire::WorkersEnded { workers, round: None })
}

/// Why the program failed, for people.
pub(super) fn failure(report: &FailureReport) -> Op {
    let mut message = report.root_cause.summary();
    message.truncate(message.floor_char_boundary(MAX_MESSAGE));
    Op::Event(wire::Event { reason: "ProgramError".to_owned(), message })
}

fn worker_ended(launch: &Launch, group: &LocalGroup, local: u32, ending: Ending) -> wire::WorkerEnded {
    let worker = wire::Node { name: worker_name(&launch.node.0, local), incarnation: group.incarnation };
    wire::WorkerEnded { worker: Some(worker), ending: ending.into() }
}
