//! What a launcher tells the master about its workers: who ended how, so that batches that they held are given to others
//! or put under suspicion, and what went wrong.

use flexor_wire::master::v1 as wire;
use nix::sys::signal::Signal;
use wire::request::Op;
use wire::worker_ended::Ending;

use super::Launch;
use super::membership::Membership;
use super::round::worker_name;
use crate::workers::{FailureReport, LocalRank};

/// The longest message of an event.
const MESSAGE: usize = 4000;

/// All workers have done their work.
pub(super) async fn finished(membership: &Membership, launch: &Launch, incarnation: u64) {
    tell(membership, launch, incarnation, true, |_| Ending::Finished).await;
}

/// One worker has done its work, and others are at theirs: what it has left is for them.
pub(super) async fn worker_finished(membership: &Membership, launch: &Launch, incarnation: u64, local: LocalRank) {
    tell_of(membership, launch, incarnation, local.0, Ending::Finished, true).await;
}

/// All workers were ended, and none of them is to blame.
pub(super) async fn lost(membership: &Membership, launch: &Launch, incarnation: u64) {
    tell(membership, launch, incarnation, true, |_| Ending::Lost).await;
}

/// The program has failed in one of them.
///
/// `certain` where that can only be its own fault: workers that have opted in do not fail when they lose their peers.
pub(super) async fn failed(
    membership: &Membership,
    launch: &Launch,
    incarnation: u64,
    report: &FailureReport,
    certain: bool,
) {
    let root = &report.root_cause;
    // Who was asked to end or killed did not fail of what it was doing.
    let failed = !root.ended_by_launcher && root.exit_code != -(Signal::SIGKILL as i32);
    let ending = |local| if local == root.local_rank.0 && failed { Ending::Failed } else { Ending::Lost };
    tell(membership, launch, incarnation, certain, ending).await;
    let mut message = format!("rank {}: {}", report.root_cause.rank, report.root_cause.message);
    message.truncate(message.floor_char_boundary(MESSAGE));
    let event = wire::Event { reason: "ProgramError".to_owned(), message };
    if let Err(error) = membership.call(Op::Event(event)).await {
        tracing::warn!("the master was not told what went wrong: {error}");
    }
}

async fn tell(
    membership: &Membership,
    launch: &Launch,
    incarnation: u64,
    certain: bool,
    ending: impl Fn(u32) -> Ending,
) {
    for local in 0..launch.processes {
        tell_of(membership, launch, incarnation, local, ending(local), certain).await;
    }
}

async fn tell_of(
    membership: &Membership,
    launch: &Launch,
    incarnation: u64,
    local: u32,
    ending: Ending,
    certain: bool,
) {
    let worker = wire::Node { name: worker_name(&launch.node.0, local), incarnation };
    let ended = wire::WorkerEnded { worker: Some(worker), ending: ending.into(), certain };
    if let Err(error) = membership.call(Op::Ended(ended)).await {
        tracing::warn!(local_rank = local, "the master was not told that a worker has ended: {error}");
    }
}
