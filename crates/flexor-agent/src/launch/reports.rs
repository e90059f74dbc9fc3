//! What a launcher tells the master about its workers: who ended how, so that batches that they held are given to others
//! or put under suspicion, and what went wrong.

use flexor_wire::master::v1 as wire;
use nix::sys::signal::Signal;
use wire::request::Op;
use wire::worker_ended::Ending;

use super::Launch;
use super::crew::{Crew, worker_name};
use crate::workers::{FailureReport, LocalRank, WorkerExit};

/// The longest message of an event.
const MESSAGE: usize = 4000;

/// One worker has done its work, and others are at theirs: what it has left is for them.
pub(super) fn worker_finished(launch: &Launch, crew: &Crew, local: LocalRank) -> Op {
    let workers = vec![ended(launch, crew, local.0, Ending::Finished)];
    Op::Ended(wire::WorkersEnded { workers, round: None })
}

/// All workers have ended, and none of them failed by itself.
pub(super) fn all_ended(launch: &Launch, crew: &Crew) -> Op {
    Op::Ended(wire::WorkersEnded { workers: endings(launch, crew, None), round: None })
}

/// All workers have ended, and the program has failed in one of them.
///
/// Where that can only be its own fault it is to blame at once: workers that have opted in do not fail when they lose
/// their peers. Of others it is known when the nodes of their round have met again.
pub(super) fn all_ended_by_failure(launch: &Launch, crew: &Crew, report: &FailureReport) -> Op {
    let root = &report.root_cause;
    // Who was asked to end or killed did not fail of what it was doing.
    let failed = !root.ended_by_launcher && root.exit_code != -(Signal::SIGKILL as i32);
    let workers = endings(launch, crew, failed.then_some(root.local_rank));
    Op::Ended(wire::WorkersEnded { workers, round: crew.round().filter(|_| !crew.opted_in) })
}

/// What went wrong, for people.
pub(super) fn failure(report: &FailureReport) -> Op {
    let mut message = format!("rank {}: {}", report.root_cause.rank, report.root_cause.message);
    message.truncate(message.floor_char_boundary(MESSAGE));
    Op::Event(wire::Event { reason: "ProgramError".to_owned(), message })
}

fn endings(launch: &Launch, crew: &Crew, failed: Option<LocalRank>) -> Vec<wire::WorkerEnded> {
    let has_finished = |local: u32| {
        let of_it = |exit: &&WorkerExit| exit.local_rank.0 == local;
        crew.group.exits().iter().find(of_it).is_some_and(|exit| exit.outcome.is_success() && !exit.ended)
    };
    let ending = |local: u32| match failed {
        Some(LocalRank(failed)) if failed == local => Ending::Failed,
        Some(_) | None if has_finished(local) => Ending::Finished,
        Some(_) | None => Ending::Lost,
    };
    (0..launch.processes).map(|local| ended(launch, crew, local, ending(local))).collect()
}

fn ended(launch: &Launch, crew: &Crew, local: u32, ending: Ending) -> wire::WorkerEnded {
    let worker = wire::Node { name: worker_name(&launch.node.0, local), incarnation: crew.incarnation };
    wire::WorkerEnded { worker: Some(worker), ending: ending.into() }
}
