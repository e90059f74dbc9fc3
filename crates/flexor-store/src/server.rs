//! The sockets of a TCPStore port.
//!
//! A [`Server`] accepts connections, turns their bytes into requests, hands them to a [`Service`] under one lock and
//! delivers what it wants sent. Bytes enter a connection's queue while that lock is held, so that replies leave in the
//! order the service made them; sockets are written to after it is released, by whoever caused the bytes. A client that
//! is slow, silent, greedy or talks nonsense costs a bounded amount of memory and harms nobody else.
//!
//! What requests mean is not decided here.

mod accept;
mod connection;
mod hub;
mod limits;
mod reader;
mod sinks;
mod watch;

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tokio::net::TcpListener;

use self::hub::Hub;
use crate::service::{ConnId, Now, Outbox, Service};

pub use self::accept::listen_everywhere;
pub use self::limits::Limits;
pub use self::sinks::Sink;

/// For the runtime of a server: how many tasks it runs before it looks for bytes again. With tokio's usual 61, who of a
/// thousand busy clients has just been answered comes to its turn again before others had theirs, and the unlucky wait
/// three times as long.
pub const FAIR_EVENT_INTERVAL: u32 = 512;

/// Tells the time since the process began.
pub type Clock = Arc<dyn Fn() -> Now + Send + Sync>;

/// A clock that starts at zero with this call.
pub fn clock_from_now() -> Clock {
    let start = Instant::now();
    Arc::new(move || start.elapsed())
}

/// A port and the service behind it.
pub struct Server<S> {
    listener: TcpListener,
    hub: Arc<Hub<S>>,
}

impl<S: Service> Server<S> {
    /// Prepares a listener for many clients and puts a service behind it. To be called within the tokio runtime that
    /// will carry the connections.
    pub fn new(listener: TcpListener, service: Arc<Mutex<S>>, clock: Clock, limits: Limits) -> io::Result<Server<S>> {
        accept::prepare(&listener)?;
        Ok(Server { listener, hub: Arc::new(Hub::new(service, clock, limits)) })
    }

    /// A way to the service for other tasks of the process.
    pub fn handle(&self) -> Handle<S> {
        Handle { hub: self.hub.clone() }
    }

    /// Serves until the future is dropped, which closes all connections.
    pub async fn run(self) {
        let _ending = self.hub.close_all_when_dropped();
        tokio::select! {
            () = accept::accept(&self.listener, &self.hub) => {}
            () = watch::tick_when_due(&self.hub) => {}
            () = watch::close_the_late(&self.hub) => {}
        }
    }
}

/// A way to the service behind a port.
pub struct Handle<S> {
    hub: Arc<Hub<S>>,
}

impl<S: Service> Handle<S> {
    /// Does something with the service, delivers what it wants sent and notices if it wants to be ticked earlier.
    pub fn with<R>(&self, act: impl FnOnce(&mut S, Now, &mut Outbox) -> R) -> R {
        self.hub.with(None, act)
    }

    /// Gives a connection that is no socket a way out. Its number comes from [`ConnId::fresh`].
    pub fn attach(&self, conn: ConnId, sink: Arc<dyn Sink>) {
        self.hub.sinks.attach(conn, sink);
    }

    /// Takes that way out back.
    pub fn detach(&self, conn: ConnId) {
        self.hub.sinks.detach(conn);
    }

    /// How many connections are open.
    pub fn connections(&self) -> usize {
        self.hub.connections()
    }
}

impl<S> Clone for Handle<S> {
    fn clone(&self) -> Handle<S> {
        Handle { hub: self.hub.clone() }
    }
}
