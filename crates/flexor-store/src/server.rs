//! The sockets of a TCPStore port.
//!
//! A [`Server`] accepts connections, decodes requests, passes them to a [`Service`] under one lock and delivers the
//! replies. Bytes enter the queue of a connection under that lock, so replies leave in the order in which the service made
//! them. The thread that caused them writes them to sockets after it has released the lock. A client that is slow, silent,
//! greedy or malformed costs a bounded amount of memory and does not affect others.
//!
//! The server does not interpret requests.

mod accept;
mod connection;
mod hub;
mod limits;
mod reader;
mod sinks;
mod timers;

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tokio::net::TcpListener;

use self::hub::Hub;
use crate::service::{ConnId, Now, Outbox, Service};

pub use self::limits::Limits;
pub use self::sinks::Sink;

/// For the runtime of a server: how many tasks it runs before it polls sockets. With tokio's default of 61, some of a
/// thousand busy clients are served repeatedly before others are served once, and the slowest wait three times as long.
pub const FAIR_EVENT_INTERVAL: u32 = 512;

/// Returns the time since the start of the process.
pub type Clock = Arc<dyn Fn() -> Now + Send + Sync>;

/// Creates a clock that starts at zero now.
pub fn clock_from_now() -> Clock {
    let start = Instant::now();
    Arc::new(move || start.elapsed())
}

/// One port or several, and the service behind them.
pub struct Server<S> {
    listeners: Vec<TcpListener>,
    hub: Arc<Hub<S>>,
}

impl<S: Service> Server<S> {
    /// Creates a server for a listener and a service. To be called within the tokio runtime that will serve the
    /// connections.
    pub fn new(listener: TcpListener, service: Arc<Mutex<S>>, clock: Clock, limits: Limits) -> io::Result<Server<S>> {
        flexor_listen::prepare(&listener)?;
        Ok(Server { listeners: vec![listener], hub: Arc::new(Hub::new(service, clock, limits)) })
    }

    /// Serves the clients of another listener too.
    pub fn also_at(mut self, listener: TcpListener) -> io::Result<Server<S>> {
        flexor_listen::prepare(&listener)?;
        self.listeners.push(listener);
        Ok(self)
    }

    /// A handle to the service for other tasks of the process.
    pub fn handle(&self) -> Handle<S> {
        Handle { hub: self.hub.clone() }
    }

    /// Serves until the future is dropped, which closes all connections.
    pub async fn run(self) {
        let _ending = self.hub.close_all_when_dropped();
        tokio::select! {
            () = accept::accept_all(&self.listeners, &self.hub) => {}
            () = timers::tick_when_due(&self.hub) => {}
            () = timers::close_late_connections(&self.hub) => {}
        }
    }
}

/// A handle to the service behind a port.
pub struct Handle<S> {
    hub: Arc<Hub<S>>,
}

impl<S: Service> Handle<S> {
    /// Runs a function on the service under its lock, delivers the replies, and reschedules the next tick.
    pub fn with<R>(&self, act: impl FnOnce(&mut S, Now, &mut Outbox) -> R) -> R {
        self.hub.with(None, act)
    }

    /// Attaches the sink of a connection that is no socket. Its id comes from [`ConnId::fresh`].
    pub fn attach(&self, conn: ConnId, sink: Arc<dyn Sink>) {
        self.hub.sinks.attach(conn, sink);
    }

    /// Detaches the sink of a connection.
    pub fn detach(&self, conn: ConnId) {
        self.hub.sinks.detach(conn);
    }

    /// The number of open connections.
    pub fn connections(&self) -> usize {
        self.hub.connections()
    }
}

impl<S> Clone for Handle<S> {
    fn clone(&self) -> Handle<S> {
        Handle { hub: self.hub.clone() }
    }
}
