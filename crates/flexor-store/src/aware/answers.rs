//! From a decision to the answer: written down first, told when it may be known.

use flexor_engine::rendezvous::{Fact, Place};

use super::AwareStore;
use super::facts::{Recorded, StoreFact};
use super::view::{self, Reader, member_of};
use crate::service::{Now, Outbox};
use crate::state::Stamp;

impl AwareStore {
    /// More of the journal is durable: those who wait for that can be answered.
    pub fn journal_advanced(&mut self, now: Now, out: &mut Outbox) {
        if !std::mem::replace(&mut self.had_room, self.recorder.has_room()) && self.had_room {
            self.connections.keys().for_each(|conn| out.resume(*conn));
        }
        self.settle(now, out);
    }

    /// Writes down what changed and answers whoever can be answered.
    pub fn settle(&mut self, now: Now, out: &mut Outbox) {
        self.write_down();
        self.answer(now, out);
        self.withhold(out);
        let epoch = self.runs.values().map(|run| run.epoch).sum();
        self.changes.send_if_modified(|last| std::mem::replace(last, epoch) != epoch);
    }

    /// Keeps what would be sent while the journal takes nothing, and lets it go when it does again.
    pub(super) fn withhold(&mut self, out: &mut Outbox) {
        if self.withheld_until == 0 {
            return;
        }
        if !out.is_empty() {
            self.withheld.push(std::mem::take(out));
        }
        if self.recorder.durable() < self.withheld_until {
            return;
        }
        self.withheld_until = 0;
        for mut kept in std::mem::take(&mut self.withheld) {
            kept.take_sent().into_iter().for_each(|(conn, bytes)| out.send_bytes(conn, bytes));
            kept.take_closed().into_iter().for_each(|(conn, reason)| out.close(conn, reason));
        }
    }

    pub(super) fn answer(&mut self, now: Now, out: &mut Outbox) {
        let durable = self.recorder.durable();
        let (runs, connections, wall_clock) = (&mut self.runs, &mut self.connections, &self.wall_clock);
        for run in runs.values_mut() {
            let visible = durable >= run.visible_after;
            run.note_visibility(visible);
            let due = run.take_due(now, visible, |run, conn| {
                let node = connections.get(&conn).and_then(|connection| connection.node.as_ref());
                let place = node.and_then(|node| run.machine.place_of(&member_of(node)));
                run.machine.closed().is_some() || !matches!(place, Some(Place::Joined | Place::Spare))
            });
            for conn in due {
                let Some(connection) = connections.get_mut(&conn) else { continue };
                let wall = wall_clock();
                let clock = match connection.clock {
                    Some(seen) => seen.by(wall, now),
                    None => Stamp::from_unix_micros(wall),
                };
                let reader = Reader {
                    node: connection.node.as_ref(),
                    clock: clock.unwrap_or(Stamp::MIN),
                    sees_closed: connection.sees_closed,
                };
                let shown = view::shown(&run.machine, run.view.as_ref(), reader);
                shown.reply().into_iter().for_each(|piece| out.send_bytes(conn, piece));
                connection.shown = Some(shown).filter(view::Shown::is_long);
            }
        }
    }

    pub(super) fn write_down(&mut self) {
        let keys = self.keyspace.take_mutations().into_iter().map(StoreFact::Key);
        self.pending.extend(keys);
        if self.pending.is_empty() {
            return;
        }
        let facts = std::mem::take(&mut self.pending);
        let Recorded { lsn, kept } = self.recorder.record(&facts);
        self.had_room &= self.recorder.has_room();
        if !kept {
            self.withheld_until = self.withheld_until.max(lsn);
        }
        for fact in facts {
            if let StoreFact::Rendezvous { run, fact: Fact::Completed { .. } | Fact::Closed { .. } } = fact
                && let Some(run) = self.runs.get_mut(&run)
            {
                run.visible_after = lsn;
            }
        }
    }
}
