//! What a launcher tells the master about its workers: who ended how, so that batches that they held are given to others
//! or put under suspicion, and what went wrong.

use flexor_wire::master::v1 as wire;
use wire::request::Op;
use wire::worker_ended::Ending;

use super::Launch;
use super::crew::{Crew, worker_name};
use crate::workers::{FailureReport, FirstFailure, LocalRank, WorkerExit};

/// The longest message of an event.
const MESSAGE: usize = 4000;

/// One worker has done its work, and others are at theirs: what it has left is for them.
pub(super) fn worker_finished(launch: &Launch, crew: &Crew, local: LocalRank) -> Op {
    let workers = vec![ended(launch, crew, local.0, Ending::Finished)];
    Op::Ended(wire::WorkersEnded { workers, round: None })
}

/// The program has failed in one worker, before any other of this node.
///
/// Where that can only be its own fault it is to blame at once: workers that have opted in do not fail when they lose
/// their peers. Of others it is known when the nodes of their round have met again.
pub(super) fn first_failed(launch: &Launch, crew: &Crew, first: FirstFailure) -> Op {
    // Who was killed did not fail of what it was doing.
    let ending = if first.was_killed { Ending::Lost } else { Ending::Failed };
    let workers = vec![ended(launch, crew, first.local_rank.0, ending)];
    Op::Ended(wire::WorkersEnded { workers, round: crew.round().filter(|_| !crew.opted_in) })
}

/// All workers have ended, and none of them failed by itself.
pub(super) fn all_ended(launch: &Launch, crew: &Crew) -> Op {
    all_ended_but(launch, crew, None)
}

/// All workers have ended, and none of them failed by itself but one that was told of.
pub(super) fn all_ended_but(launch: &Launch, crew: &Crew, told: Option<LocalRank>) -> Op {
    let has_finished = |local: u32| {
        let of_it = |exit: &&WorkerExit| exit.local_rank.0 == local;
        crew.group.exits().iter().find(of_it).is_some_and(|exit| exit.outcome.is_success() && !exit.ended)
    };
    let ending = |local: u32| if has_finished(local) { Ending::Finished } else { Ending::Lost };
    let others = (0..launch.processes).filter(|local| told != Some(LocalRank(*local)));
    let workers = others.map(|local| ended(launch, crew, local, ending(local))).collect();
    Op::Ended(wire::WorkersEnded { workers, round: None })
}

/// What went wrong, for people.
pub(super) fn failure(report: &FailureReport) -> Op {
    let mut message = format!("{}: {}", report.root_cause.place(), report.root_cause.message);
    message.truncate(message.floor_char_boundary(MESSAGE));
    Op::Event(wire::Event { reason: "ProgramError".to_owned(), message })
}

fn ended(launch: &Launch, crew: &Crew, local: u32, ending: Ending) -> wire::WorkerEnded {
    let worker = wire::Node { name: worker_name(&launch.node.0, local), incarnation: crew.incarnation };
    wire::WorkerEnded { worker: Some(worker), ending: ending.into() }
}
