//! The connections that wait for keys.
//!
//! A wait has one ticket for each key that was missing when it began. Setting a key uses up all tickets for it, even if
//! the key is deleted later. A wait without tickets is over. Tickets are numbered in order, so that the first of several
//! waiters for an item of a queue is served first.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;

use crate::service::ConnId;

/// The unanswered waits of all connections; at most one for each.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    by_key: HashMap<Bytes, BTreeMap<Ticket, ConnId>>,
    by_conn: HashMap<ConnId, Wait>,
    last: Ticket,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Ticket(u64);

#[derive(Debug)]
struct Wait {
    tickets: Vec<(Ticket, Bytes)>,
    /// The number of tickets that are not used up.
    left: usize,
}

impl Waiters {
    /// Begins a wait for missing keys. The connection must not have another wait.
    pub(super) fn wait(&mut self, conn: ConnId, missing: Vec<Bytes>) {
        let left = missing.len();
        let mut tickets = Vec::with_capacity(left);
        for key in missing {
            self.last.0 += 1;
            self.by_key.entry(key.clone()).or_default().insert(self.last, conn);
            tickets.push((self.last, key));
        }
        self.by_conn.insert(conn, Wait { tickets, left });
    }

    /// Ends the wait of a connection, if it has one.
    pub(super) fn cancel(&mut self, conn: ConnId) {
        let Some(wait) = self.by_conn.remove(&conn) else { return };
        for (ticket, key) in wait.tickets {
            let Some(tickets) = self.by_key.get_mut(&key) else { continue };
            tickets.remove(&ticket);
            if tickets.is_empty() {
                self.by_key.remove(&key);
            }
        }
    }

    /// Uses up all tickets for a key that was set. Calls `over` for each connection whose wait is over.
    pub(super) fn key_set(&mut self, key: &[u8], mut over: impl FnMut(ConnId)) {
        if self.by_key.is_empty() {
            return;
        }
        for conn in self.by_key.remove(key).into_iter().flat_map(BTreeMap::into_values) {
            if self.use_up(conn) {
                over(conn);
            }
        }
    }

    /// Uses up the oldest ticket for a queue that got an item.
    pub(super) fn item_pushed(&mut self, queue: &[u8], over: impl FnOnce(ConnId)) {
        let Some(tickets) = self.by_key.get_mut(queue) else { return };
        let oldest = tickets.pop_first();
        if tickets.is_empty() {
            self.by_key.remove(queue);
        }
        if let Some((_, conn)) = oldest
            && self.use_up(conn)
        {
            over(conn);
        }
    }

    /// The missing keys of a connection's wait.
    pub(super) fn missing(&self, conn: ConnId) -> Option<Vec<Bytes>> {
        let wait = self.by_conn.get(&conn)?;
        let open =
            |(ticket, key): &&(Ticket, Bytes)| self.by_key.get(key).is_some_and(|tickets| tickets.contains_key(ticket));
        Some(wait.tickets.iter().filter(open).map(|(_, key)| key.clone()).collect())
    }

    /// Uses up one ticket of a connection. Returns whether it was the last.
    fn use_up(&mut self, conn: ConnId) -> bool {
        let Some(wait) = self.by_conn.get_mut(&conn) else { return false };
        wait.left -= 1;
        let over = wait.left == 0;
        if over {
            self.by_conn.remove(&conn);
        }
        over
    }
}
