//! The smallest owner of a [`RendezvousStore`]: it owns the runs, and publishes at once because it journals nothing.

use std::time::Duration;

use flexor_engine::rendezvous::{Event, Runs, Settings};
use flexor_store::codec::Request;
use flexor_store::rendezvous_store::RendezvousStore;
use flexor_store::service::{ConnId, Outbox};

pub(crate) struct Owner {
    runs: Runs,
    store: RendezvousStore,
}

impl Owner {
    pub(crate) fn new(settings: Settings) -> Self {
        Self { runs: Runs::new(settings), store: RendezvousStore::new(Box::new(|| 1_700_000_000_000_000)) }
    }

    pub(crate) fn request(&mut self, conn: ConnId, request: Request, now: Duration, out: &mut Outbox) {
        self.store.request(conn, request, &mut self.runs, now, out).unwrap();
        self.store.answer(&self.runs, |_| true, now, out);
    }

    pub(crate) fn tick(&mut self, now: Duration, out: &mut Outbox) {
        self.store.renew_waiting_connections(false, &mut self.runs, now, out);
        for run in self.runs.ids() {
            let facts = self.runs.apply(&run, Event::Tick, now);
            self.store.observe(&self.runs, &run, &facts, out);
        }
        self.store.answer(&self.runs, |_| true, now, out);
    }
}
