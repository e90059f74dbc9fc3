//! The running sidecar: a [`Relay`] behind its ports, and its link to the master.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use flexor_client::{Reconnect, Upstream};
use flexor_wire::master::v1::{FromSidecar, NodeClock, ToSidecar, from_sidecar::Message};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::time::{Instant, MissedTickBehavior, timeout, timeout_at};
use tracing::{debug, info, warn};

use super::link::{LinkError, open_link};
use super::relay::{LinkFault, Pod, Relay};
use crate::codec::Request;
use crate::server::{Handle, Limits, Server, clock_from_now};
use crate::service::{ConnId, Now, Outbox, Refused, Service};

const BEAT_EVERY: Duration = Duration::from_secs(1);
/// The timeout from the dial to the master's Welcome.
const WELCOME_WITHIN: Duration = Duration::from_secs(5);
/// The timeout for the last messages to the master.
const FINISH_WITHIN: Duration = Duration::from_secs(1);
/// More connections than the programs of a pod open, and few enough to leave file descriptors for the link: a process may
/// usually have 1024.
const MAX_CONNECTIONS: usize = 896;

/// A sidecar with its ports open.
pub struct Sidecar {
    server: Server<RelayService>,
    upstream: Upstream,
}

/// Why a sidecar ended.
#[derive(Debug, PartialEq, Eq)]
pub enum SidecarEnd {
    Stopped,
    /// The master refuses its pod for good.
    PodRejected(LinkFault),
}

impl Sidecar {
    /// Creates a sidecar that serves the clients of this listener. To be called within a tokio runtime.
    pub fn new(listener: TcpListener, pod: Pod, upstream: Upstream) -> io::Result<Sidecar> {
        let post =
            RelayService { relay: Relay::new(pod, RandomState::new().hash_one(())), uplink: None, is_finished: false };
        let limits = Limits { connections: MAX_CONNECTIONS, ..Limits::default() };
        let server = Server::new(listener, Arc::new(Mutex::new(post)), clock_from_now(), limits)?;
        Ok(Sidecar { server, upstream })
    }

    /// Serves the clients of another listener too, with the same keys.
    pub fn also_at(self, listener: TcpListener) -> io::Result<Sidecar> {
        Ok(Sidecar { server: self.server.also_at(listener)?, ..self })
    }

    /// Puts a prefix before every key, so that the clients of this sidecar have their own store within the master's.
    pub fn with_prefix(self, prefix: impl Into<Bytes>) -> Sidecar {
        self.server.handle().with(|post, _, _| post.relay.set_prefix(prefix.into()));
        self
    }

    /// Serves until `stop` completes or the master refuses the pod for good. Closes all client connections at the end and
    /// tells the master so if it is reachable.
    pub async fn run(self, stop: impl Future<Output = ()>) -> SidecarEnd {
        let handle = self.server.handle();
        let mut link = std::pin::pin!(keep_linked(&self.upstream, &handle));
        let mut server = std::pin::pin!(self.server.run());
        tokio::select! {
            Some(fault) = &mut link => return SidecarEnd::PodRejected(fault),
            () = &mut server => {}
            () = stop => {}
        }
        handle.with(|post, _, out| post.finish(out));
        if timeout(FINISH_WITHIN, link).await.is_err() {
            debug!("the master did not take the last messages of this sidecar in time");
        }
        SidecarEnd::Stopped
    }
}

/// Keeps a link to a master for ever; ends when the master has done with the pod, or without a fault after
/// [`RelayService::finish`].
async fn keep_linked(upstream: &Upstream, handle: &Handle<RelayService>) -> Option<LinkFault> {
    let mut reconnect = Reconnect::default();
    let mut last_failure = String::new();
    loop {
        reconnect.next_attempt().await;
        let error = carry(upstream, handle, &mut reconnect).await;
        let (was_up, is_finished) = handle.with(|post, _, out| (post.link_lost(out), post.is_finished));
        if is_finished {
            return None;
        }
        if let LinkError::Fault(fault @ LinkFault::PodRejected { .. }) = error {
            return Some(fault);
        }
        let failure = error.to_string();
        if was_up || failure != last_failure {
            warn!("{failure}; clients are kept waiting, dialling again until a master answers");
        }
        last_failure = failure;
    }
}

/// Opens one link and carries messages over it until it breaks.
async fn carry(upstream: &Upstream, handle: &Handle<RelayService>, reconnect: &mut Reconnect) -> LinkError {
    let deadline = Instant::now() + WELCOME_WITHIN;
    let (uplink, messages) = mpsc::unbounded_channel();
    handle.with(|post, _, _| post.link_opened(uplink));
    let mut stream = match timeout_at(deadline, open_link(upstream, messages)).await {
        Err(_) => return LinkError::NoWelcome(WELCOME_WITHIN),
        Ok(Err(error)) => return error,
        Ok(Ok(stream)) => stream,
    };
    let mut beats = tokio::time::interval(BEAT_EVERY);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut is_up = false;
    loop {
        let message = tokio::select! {
            message = stream.message() => message,
            _ = beats.tick() => {
                handle.with(|post, _, _| post.beat());
                continue;
            }
            () = tokio::time::sleep_until(deadline), if !is_up => return LinkError::NoWelcome(WELCOME_WITHIN),
        };
        match message {
            Ok(Some(message)) => match handle.with(|post, _, out| post.heard(message, out)) {
                Ok(()) => {}
                Err(fault) => return fault.into(),
            },
            Ok(None) => return LinkError::Ended,
            Err(status) => return LinkError::Broken(Box::new(status)),
        }
        if !std::mem::replace(&mut is_up, true) {
            info!("linked to the master");
            reconnect.established();
        }
    }
}

/// The relay as the service behind the port. It sends messages to the master at once.
struct RelayService {
    relay: Relay,
    /// None while there is no link.
    uplink: Option<UnboundedSender<FromSidecar>>,
    is_finished: bool,
}

impl RelayService {
    fn link_opened(&mut self, uplink: UnboundedSender<FromSidecar>) {
        self.uplink = Some(uplink);
        self.relay.link_opened();
        self.send();
    }

    /// Returns whether the link was up.
    fn link_lost(&mut self, out: &mut Outbox) -> bool {
        self.uplink = None;
        let was_up = self.relay.is_up();
        self.relay.link_lost(out);
        was_up
    }

    fn heard(&mut self, message: ToSidecar, out: &mut Outbox) -> Result<(), LinkFault> {
        let received = self.relay.receive(message, out);
        self.send();
        received
    }

    fn beat(&mut self) {
        self.relay.heartbeat();
        self.send();
    }

    /// Sends the last messages to the master and ends this side of the stream.
    fn finish(&mut self, out: &mut Outbox) {
        self.relay.close_all(out);
        self.send();
        self.uplink = None;
        self.is_finished = true;
    }

    fn send(&mut self) {
        let messages = self.relay.take_messages();
        if let Some(uplink) = &self.uplink {
            for mut message in messages {
                if let Message::Open(open) = &mut message {
                    // torchrun runs on the same machine and has the same clock.
                    open.clock = open.clock.map(|clock| NodeClock { unix_us: unix_micros(), ..clock });
                }
                // The reader of the stream notices a broken link.
                let _ = uplink.send(FromSidecar { message: Some(message) });
            }
        }
    }
}

impl Service for RelayService {
    fn opened(&mut self, _: ConnId, _: SocketAddr, _: Now, _: &mut Outbox) {}

    fn request(&mut self, conn: ConnId, request: Request, _: Now, out: &mut Outbox) -> Result<(), Refused> {
        self.relay.request(conn, request, out);
        self.send();
        Ok(())
    }

    fn closed(&mut self, conn: ConnId, _: Now, out: &mut Outbox) {
        self.relay.closed(conn, out);
        self.send();
    }

    fn has_room(&self, conn: ConnId) -> bool {
        self.relay.has_room(conn)
    }

    fn tick(&mut self, _: Now, _: &mut Outbox) {}

    fn next_tick(&self) -> Option<Now> {
        None
    }
}

/// The wall clock of this machine, in microseconds since the Unix epoch.
fn unix_micros() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}
