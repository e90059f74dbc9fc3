//! Rebuilds a store from journaled facts, and lists what a snapshot has to contain.

use bytes::Bytes;
use flexor_engine::rendezvous::Runs;

use super::facts::{OperationRecord, RunId};
use super::run_key;
use super::{CompletedOperation, RendezvousStore};
use crate::keyspace::{Change, Mutation};
use crate::service::{Now, Outbox};
use crate::state::SENTINEL;

impl RendezvousStore {
    /// Applies a journaled change of a key. To be called before any request.
    pub fn replay_key(&mut self, mutation: Mutation, runs: &mut Runs) {
        restore_run_of(&mutation, runs);
        self.keyspace.restore(mutation, &mut Outbox::default());
    }

    /// Applies a journaled operation of a sidecar. To be called before any request.
    pub fn replay_operation(&mut self, operation: OperationRecord) {
        let OperationRecord { link, connection, number, reply } = operation;
        self.operations.insert((link, connection), CompletedOperation { number, reply, at: Now::ZERO });
    }

    /// Starts the store after the replay. Changes from here on have sequence numbers above `first_seq`.
    pub fn resume(&mut self, runs: &Runs, first_seq: u64, now: Now) {
        self.keyspace.skip_to(first_seq);
        for (id, machine) in runs.iter() {
            self.runs.entry(id.clone()).or_default().refresh_view(machine);
        }
        self.operations.values_mut().for_each(|operation| operation.at = now);
    }

    /// Forgets the state that is needed only while sidecars bring back changes that the journal has not seen.
    pub fn end_recovery(&mut self) {
        self.keyspace.end_recovery();
    }

    /// The operations of sidecars that must not be repeated, for a snapshot.
    pub fn operations(&self) -> impl Iterator<Item = OperationRecord> {
        self.operations.iter().map(|((link, connection), CompletedOperation { number, reply, .. })| OperationRecord {
            link: *link,
            connection: *connection,
            number: *number,
            reply: reply.clone(),
        })
    }
}

/// Makes a run known by its state key: a run without members has no other record.
pub(super) fn restore_run_of(mutation: &Mutation, runs: &mut Runs) {
    if mutation.change == Change::Set(Bytes::from_static(SENTINEL))
        && let Some(run) = run_key::run_of(&mutation.key)
        && !run_key::is_of_known_round(runs, &mutation.key)
        && !runs.is_full()
    {
        runs.restore(&RunId::from(run));
    }
}
