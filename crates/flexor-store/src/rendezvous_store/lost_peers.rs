//! Releases agents that wait in the store for a lost peer.
//!
//! torchrun's agents wait for each other twice outside of the rendezvous: after a round, to exchange ranks, and at the
//! end, until the workers of all agents have ended. Both waits last minutes and end in failure when a peer is lost,
//! because the agent reads nothing else meanwhile. The store fills in what the lost peer would have written. The agents go
//! on, and then either learn that the world restarts or end successfully.

use bytes::Bytes;
use flexor_engine::rendezvous::{MemberId, Rendezvous, World};

use super::run_clients::ExitBarrier;
use super::run_key::{
    ASSIGNED_RANKS, EXIT_COUNT, EXIT_DONE, LEADER_ADDRESS, LEADER_PORT, ROLE_INFO, exit_round, round_prefix,
};
use crate::keyspace::Keyspace;
use crate::service::Outbox;

/// Notes that an agent has counted itself in at an exit barrier, or waits there. Returns whether the key belongs to one.
pub(super) fn enter_exit_barrier(run: &str, exits: &mut ExitBarrier, member: &MemberId, key: &[u8]) -> bool {
    let Some(round) = exit_round(run, key) else { return false };
    if exits.round != round {
        exits.round = round;
        exits.members.clear();
    }
    exits.members.insert(member.clone());
    true
}

/// Opens the exit barrier when all members of the world that are not lost have reached it.
pub(super) fn release_exit_barrier(
    run: &str,
    machine: &Rendezvous,
    exits: &ExitBarrier,
    keyspace: &mut Keyspace,
    out: &mut Outbox,
) {
    let Some(world) = machine.world().filter(|world| world.round == exits.round) else { return };
    let has_arrived = |member: &MemberId| exits.members.contains(member);
    let all_arrived_or_lost =
        world.members.iter().all(|member| has_arrived(member) || machine.state_of(member).is_none());
    if exits.members.is_empty() || !all_arrived_or_lost {
        return;
    }
    let prefix = round_prefix(run, world.round);
    let done = Bytes::from(format!("{prefix}{EXIT_DONE}"));
    let counted = keyspace.get(format!("{prefix}{EXIT_COUNT}").as_bytes()).is_some();
    if counted && keyspace.get(&done).is_none() {
        tracing::info!(run = %run, round = %world.round, "all remaining nodes have ended; the exit barrier is open");
        keyspace.set(done, Bytes::from_static(b"<val_ignored>"), out);
    }
}

/// Writes what a lost member of the world had still to write in the exchange of ranks.
pub(super) fn fill_rank_exchange(
    run: &str,
    machine: &Rendezvous,
    lost: &MemberId,
    keyspace: &mut Keyspace,
    out: &mut Outbox,
) {
    let Some(world) = machine.world() else { return };
    let Some(rank) = world.rank_of(lost) else { return };
    let prefix = round_prefix(run, world.round);
    let mut fill = |name: String, value: String| {
        let key = Bytes::from(format!("{prefix}{name}"));
        if keyspace.get(&key).is_none() {
            keyspace.set(key, Bytes::from(value), out);
        }
    };
    let info = format!(r#"{{"role": "default", "rank": {rank}, "local_world_size": 1}}"#);
    fill(format!("{ROLE_INFO}{rank}"), info);
    if rank.0 == 0 {
        // No process listens there. Agents stop the workers that try as soon as they see that the world restarts.
        fill(LEADER_ADDRESS.to_owned(), "127.0.0.1".to_owned());
        fill(LEADER_PORT.to_owned(), "1".to_owned());
        let size = world.members.len();
        for other in 0..size {
            fill(format!("{ASSIGNED_RANKS}{other}"), format!("[{other}, {size}, {other}, {size}]"));
        }
    }
}

/// Removes the keys of the round three rounds ago, which no agent reads any more.
pub(super) fn forget_old_rounds(run: &str, world: &World, keyspace: &mut Keyspace) {
    if let Some(old) = world.round.0.checked_sub(3) {
        keyspace.remove_prefix(round_prefix(run, flexor_model::Round(old)).as_bytes());
    }
}
