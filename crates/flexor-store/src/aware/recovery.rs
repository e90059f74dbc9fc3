//! A store out of what was written down, and what has to be written down of a store.

use std::sync::Arc;

use bytes::Bytes;
use flexor_engine::rendezvous::Rendezvous;

use super::facts::{Origin, RunId, StoreFact};
use super::run::Run;
use super::run_key;
use super::{AwareStore, Done};
use crate::keyspace::{Change, Mutation};
use crate::service::{Now, Outbox};
use crate::state::SENTINEL;

impl AwareStore {
    /// Takes over a fact from the journal. To be called before anything else.
    pub fn replay(&mut self, fact: StoreFact) {
        match fact {
            StoreFact::Key(mutation) => {
                self.know_run_of(&mutation);
                self.keyspace.restore(mutation, &mut Outbox::default());
            }
            StoreFact::Rendezvous { run, fact } => {
                let settings = self.settings.clone();
                let machine = || Run::new(Arc::clone(&run), Rendezvous::new(settings));
                self.runs.entry(Arc::clone(&run)).or_insert_with(machine).machine.replay(&fact);
            }
            StoreFact::Operation(Origin { link, connection, number, reply }) => {
                self.operations.insert((link, connection), Done { number, reply, at: Now::ZERO });
            }
        }
    }

    /// A run that nobody has joined is known by its key alone.
    pub(super) fn know_run_of(&mut self, mutation: &Mutation) {
        if mutation.change == Change::Set(Bytes::from_static(SENTINEL))
            && let Some(run) = run_key::run_of(&mutation.key)
            && !self.runs.contains_key(run)
        {
            let run: RunId = run.into();
            self.runs.insert(Arc::clone(&run), Run::new(run, Rendezvous::new(self.settings.clone())));
        }
    }

    /// Takes over the machine of a run from a snapshot of the journal.
    pub fn restore_run(&mut self, run: RunId, machine: Rendezvous) {
        self.runs.insert(Arc::clone(&run), Run::new(run, machine));
    }

    /// Goes to work after facts were taken over: everyone has the reconnect grace to be heard. Changes from here on have
    /// numbers above `first_seq`.
    pub fn resume(&mut self, first_seq: u64, now: Now) {
        self.keyspace.skip_to(first_seq);
        let settings = self.settings.clone();
        self.expected = self.runs.values().find_map(|run| run.machine.expected());
        for run in self.runs.values_mut() {
            let machine = std::mem::replace(&mut run.machine, Rendezvous::new(settings.clone()));
            run.machine = machine.resume(settings.clone(), now);
            run.refresh_view();
        }
        self.operations.values_mut().for_each(|done| done.at = now);
        self.ticked = now;
    }

    /// Forgets what is needed only while sidecars still bring back what the journal has not seen.
    pub fn end_recovery(&mut self) {
        self.keyspace.end_recovery();
    }

    /// The operations of sidecars that must not be done again, for a snapshot.
    pub fn operations(&self) -> impl Iterator<Item = Origin> {
        self.operations.iter().map(|((link, connection), Done { number, reply, .. })| Origin {
            link: *link,
            connection: *connection,
            number: *number,
            reply: reply.clone(),
        })
    }

    /// The machines of all runs, for a snapshot.
    pub fn machines(&self) -> impl Iterator<Item = (&RunId, &Rendezvous)> {
        self.runs.iter().map(|(id, run)| (id, &run.machine))
    }
}
