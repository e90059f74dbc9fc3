//! The replies to agents that read the state of their run. The owner asks for them after it has journaled all facts.

use flexor_engine::rendezvous::{MemberState, Runs};

use super::facts::StoreFact;
use super::view::{self, StateReader, member_of};
use super::{RendezvousStore, RunId};
use crate::service::{Now, Outbox};
use crate::state::Stamp;

impl RendezvousStore {
    /// Takes the changes of keys and the completed operations that are not journaled yet.
    pub fn take_facts(&mut self) -> Vec<StoreFact> {
        let keys = self.keyspace.take_mutations().into_iter().map(StoreFact::Key);
        self.facts.extend(keys);
        std::mem::take(&mut self.facts)
    }

    /// Answers all connections whose replies are due. `is_visible` says whether the world of a run may be published: it
    /// may not before the journal has made it durable.
    pub fn answer(&mut self, runs: &Runs, is_visible: impl Fn(&RunId) -> bool, now: Now, out: &mut Outbox) {
        let (connections, wall_clock) = (&mut self.connections, &self.wall_clock);
        for (id, clients) in &mut self.runs {
            let Some(machine) = runs.get(id) else { continue };
            let due = clients.take_due(now, is_visible(id), |conn| {
                let node = connections.get(&conn).and_then(|connection| connection.node.as_ref());
                let state = node.and_then(|node| machine.state_of(&member_of(node)));
                machine.closed().is_some() || !matches!(state, Some(MemberState::Joined | MemberState::Standby))
            });
            for conn in due {
                let Some(connection) = connections.get_mut(&conn) else { continue };
                let wall = wall_clock();
                let clock = match connection.clock {
                    Some(reading) => reading.extrapolate(wall, now),
                    None => Stamp::from_unix_micros(wall),
                };
                let reader = StateReader {
                    node: connection.node.as_ref(),
                    clock: clock.unwrap_or(Stamp::MIN),
                    sees_closed: connection.sees_closed,
                };
                let value = view::state_for(machine, clients.view.as_ref(), reader);
                value.reply().into_iter().for_each(|piece| out.send_bytes(conn, piece));
                connection.last_value = Some(value).filter(view::StateValue::is_long);
            }
        }
    }

    /// When a held reply has to be sent at the latest.
    pub fn next_release(&self) -> Option<Now> {
        self.runs.values().filter_map(super::RunClients::next_release).min()
    }
}
