//! Sets free the agents that wait in the store for a peer that will never come.
//!
//! torchrun's agents wait for each other twice outside of the rendezvous: after a round, to exchange ranks, and at the
//! end, until the workers of all have ended. Both waits last minutes and end in failure when a peer is lost, because the
//! agent looks at nothing else meanwhile. Filling in what the lost one would have written lets them go on: to the loop in
//! which they learn that the world has to meet again, or to their own good end.

use bytes::Bytes;
use flexor_engine::rendezvous::{MemberId, World};

use super::run::Run;
use super::run_key::{
    ASSIGNED_RANKS, EXIT_COUNT, EXIT_DONE, LEADER_ADDRESS, LEADER_PORT, ROLE_INFO, exit_round, round_prefix,
};
use crate::keyspace::Keyspace;
use crate::service::Outbox;

/// An agent counted itself out, or waits for the others to. Returns whether the key is one of that barrier.
pub(super) fn counted_out(run: &mut Run, member: &MemberId, key: &[u8]) -> bool {
    let Some(round) = exit_round(&run.id, key) else { return false };
    if run.exits.round != round {
        run.exits.round = round;
        run.exits.members.clear();
    }
    run.exits.members.insert(member.clone());
    true
}

/// Ends the wait at the end of a job when everybody who is still there has come to it.
pub(super) fn release_exit_barrier(run: &Run, keyspace: &mut Keyspace, out: &mut Outbox) {
    let Some(world) = run.machine.world().filter(|world| world.round == run.exits.round) else { return };
    let here = |member: &MemberId| run.exits.members.contains(member);
    let all_here_or_lost = world.members.iter().all(|member| here(member) || run.machine.place_of(member).is_none());
    if run.exits.members.is_empty() || !all_here_or_lost {
        return;
    }
    let prefix = round_prefix(&run.id, world.round);
    let done = Bytes::from(format!("{prefix}{EXIT_DONE}"));
    let counted = keyspace.get(format!("{prefix}{EXIT_COUNT}").as_bytes()).is_some();
    if counted && keyspace.get(&done).is_none() {
        tracing::info!(run = %run.id, round = %world.round, "all that are left have ended; the exit barrier is open");
        keyspace.set(done, Bytes::from_static(b"<val_ignored>"), out);
    }
}

/// Writes what a lost member of the world had still to write in the exchange of ranks.
pub(super) fn fill_rank_exchange(run: &Run, lost: &MemberId, keyspace: &mut Keyspace, out: &mut Outbox) {
    let Some(world) = run.machine.world() else { return };
    let Some(rank) = world.rank_of(lost) else { return };
    let prefix = round_prefix(&run.id, world.round);
    let mut fill = |name: String, value: String| {
        let key = Bytes::from(format!("{prefix}{name}"));
        if keyspace.get(&key).is_none() {
            keyspace.set(key, Bytes::from(value), out);
        }
    };
    let info = format!(r#"{{"role": "default", "rank": {rank}, "local_world_size": 1}}"#);
    fill(format!("{ROLE_INFO}{rank}"), info);
    if rank.0 == 0 {
        // Nobody will answer there; the workers that try are stopped as soon as their agents see that all meet again.
        fill(LEADER_ADDRESS.to_owned(), "127.0.0.1".to_owned());
        fill(LEADER_PORT.to_owned(), "1".to_owned());
        let size = world.members.len();
        for other in 0..size {
            fill(format!("{ASSIGNED_RANKS}{other}"), format!("[{other}, {size}, {other}, {size}]"));
        }
    }
}

/// Removes the keys of rounds that nobody looks at any more.
pub(super) fn forget_old_rounds(run: &Run, world: &World, keyspace: &mut Keyspace) {
    if let Some(old) = world.round.0.checked_sub(3) {
        keyspace.remove_prefix(round_prefix(&run.id, flexor_model::Round(old)).as_bytes());
    }
}
