//! The shared state of a server: the service, its lock, and all connections.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::net::tcp::OwnedWriteHalf;
use tokio::runtime;
use tokio::sync::Notify;

use super::Clock;
use super::connection::Connection;
use super::limits::{Limits, SMALL_REQUEST};
use super::sinks::Sinks;
use crate::service::{ConnId, Now, Outbox, Parcel, Service};

/// How many connections one task writes to when many are woken at once: small enough to use all cores, large enough that
/// the cost of a task does not matter.
const WAKE_UPS_PER_TASK: usize = 256;

pub(super) struct Hub<S> {
    service: Arc<Mutex<S>>,
    connections: Mutex<HashMap<ConnId, Arc<Connection>>>,
    pub(super) sinks: Sinks,
    pub(super) clock: Clock,
    pub(super) limits: Limits,
    runtime: runtime::Handle,
    /// When the next tick is expected; changed only under the service's lock.
    expected_tick: Mutex<Option<Now>>,
    /// Notified when the service wants a tick earlier than `expected_tick`.
    pub(super) earlier_tick: Notify,
    /// The bytes of incomplete requests of all connections.
    incomplete: AtomicUsize,
}

impl<S: Service> Hub<S> {
    pub(super) fn new(service: Arc<Mutex<S>>, clock: Clock, limits: Limits) -> Hub<S> {
        Hub {
            service,
            connections: Mutex::default(),
            sinks: Sinks::default(),
            clock,
            limits,
            runtime: runtime::Handle::current(),
            expected_tick: Mutex::default(),
            earlier_tick: Notify::new(),
            incomplete: AtomicUsize::new(0),
        }
    }

    /// Runs a function on the service and delivers the replies. `own` is the connection that most replies go to, if it is
    /// known.
    pub(super) fn with<R>(&self, own: Option<&Arc<Connection>>, act: impl FnOnce(&mut S, Now, &mut Outbox) -> R) -> R {
        let mut out = Outbox::default();
        let mut service = lock(&self.service);
        let result = act(&mut service, (self.clock)(), &mut out);
        let touched = self.queue(out, own);
        self.expect_tick_at(service.next_tick());
        drop(service);
        self.flush(touched);
        result
    }

    /// Asks the service when it wants to be ticked, and remembers the answer.
    pub(super) fn next_tick(&self) -> Option<Now> {
        let service = lock(&self.service);
        let next = service.next_tick();
        *lock(&self.expected_tick) = next;
        next
    }

    /// Admits a new connection; none if there are too many.
    pub(super) fn admit(&self, socket: OwnedWriteHalf, peer: SocketAddr) -> Option<Arc<Connection>> {
        let mut connections = lock(&self.connections);
        if connections.len() >= self.limits.connections {
            return None;
        }
        let connection = Arc::new(Connection::new(socket, peer, (self.clock)()));
        connections.insert(connection.id, connection.clone());
        Some(connection)
    }

    /// Whether the service takes another request of a connection.
    pub(super) fn has_room(&self, conn: ConnId) -> bool {
        lock(&self.service).has_room(conn)
    }

    /// Removes a connection whose reader has ended.
    pub(super) fn remove(&self, connection: &Connection) {
        connection.close_silently();
        self.with(None, |service, now, out| {
            lock(&self.connections).remove(&connection.id);
            service.closed(connection.id, now, out);
        });
    }

    pub(super) fn connections(&self) -> usize {
        lock(&self.connections).len()
    }

    /// The connections for which `select` returns a reason to close them, with that reason.
    pub(super) fn select(&self, select: impl Fn(&Connection) -> Option<String>) -> Vec<(Arc<Connection>, String)> {
        let connections = lock(&self.connections);
        let selected = connections.values().filter_map(|connection| Some((connection.clone(), select(connection)?)));
        selected.collect()
    }

    /// Accounts for the incomplete request of a connection. Returns false if the connection has to be closed for memory.
    pub(super) fn account_incomplete(&self, before: usize, after: usize) -> bool {
        let others = if after >= before {
            self.incomplete.fetch_add(after - before, Ordering::Relaxed)
        } else {
            self.incomplete.fetch_sub(before - after, Ordering::Relaxed)
        };
        after <= SMALL_REQUEST || others - before + after <= self.limits.incomplete
    }

    /// Closes all connections when the guard is dropped.
    pub(super) fn close_all_when_dropped(self: &Arc<Self>) -> impl Drop + use<S> {
        CloseAll(self.clone())
    }

    /// Queues every parcel at its connection. Returns the connections to write to.
    fn queue(&self, out: Outbox, own: Option<&Arc<Connection>>) -> Vec<Arc<Connection>> {
        let mut touched: Vec<Arc<Connection>> = Vec::new();
        let mut connections = None;
        for parcel in out.into_parcels() {
            let id = &parcel.conn();
            let connection = match own {
                Some(own) if own.id == *id => Some(own),
                _ => connections.get_or_insert_with(|| lock(&self.connections)).get(id),
            };
            let Some(connection) = connection else {
                self.sinks.deliver(parcel);
                continue;
            };
            match parcel {
                Parcel::Send(_, chunks) => {
                    connection.queue(chunks, self.limits.outgoing);
                    touched.push(connection.clone());
                }
                Parcel::Resume(_) => connection.wake_reader(),
                Parcel::Close(_, reason) => {
                    connection.flush(&self.runtime);
                    connection.close(&reason);
                }
            }
        }
        touched
    }

    fn flush(&self, touched: Vec<Arc<Connection>>) {
        let runtime = &self.runtime;
        let mut rest = touched;
        // Other threads begin while this thread still writes.
        while rest.len() > WAKE_UPS_PER_TASK {
            let some = rest.split_off(rest.len() - WAKE_UPS_PER_TASK);
            let handle = runtime.clone();
            runtime.spawn(async move { some.iter().for_each(|connection| connection.flush(&handle)) });
        }
        rest.iter().for_each(|connection| connection.flush(runtime));
    }

    fn expect_tick_at(&self, next: Option<Now>) {
        let mut expected = lock(&self.expected_tick);
        if let Some(next) = next
            && expected.is_none_or(|expected| next < expected)
        {
            *expected = Some(next);
            self.earlier_tick.notify_one();
        }
    }
}

struct CloseAll<S>(Arc<Hub<S>>);

impl<S> Drop for CloseAll<S> {
    fn drop(&mut self) {
        lock(&self.0.connections).values().for_each(|connection| _ = connection.close_silently());
    }
}

/// Locks a mutex even after a panic of another holder. The panic was logged and closed its own connection; ending the
/// store would close all others.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
