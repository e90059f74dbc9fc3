//! The running sidecar: a [`Relay`] behind a port, and the link that it speaks over.

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
/// From the dial to the master's Welcome.
const WELCOME_WITHIN: Duration = Duration::from_secs(5);
/// For telling the master what is left to say at the end.
const FINISH_WITHIN: Duration = Duration::from_secs(1);
/// More than the programs of any pod open, and few enough to leave room for the way to the master in the 1024 files that
/// a process usually may have.
const MAX_CONNECTIONS: usize = 896;

/// A sidecar with its port open.
pub struct Sidecar {
    server: Server<Post>,
    upstream: Upstream,
}

/// Why a sidecar ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was asked to.
    Stopped,
    /// The master has done with its pod.
    PodIsOut(LinkFault),
}

impl Sidecar {
    /// A sidecar that serves the clients of this listener. To be called within a tokio runtime.
    pub fn new(listener: TcpListener, pod: Pod, upstream: Upstream) -> io::Result<Sidecar> {
        let random_number = RandomState::new().hash_one(());
        let post =
            Post { relay: Relay::new(pod, random_number), uplink: None, is_finished: false, prefix: Bytes::new() };
        let limits = Limits { connections: MAX_CONNECTIONS, ..Limits::default() };
        let server = Server::new(listener, Arc::new(Mutex::new(post)), clock_from_now(), limits)?;
        Ok(Sidecar { server, upstream })
    }

    /// The same with this before every key, so that its clients have keys of their own among those of the master.
    /// Questions about all keys (how many, which) are answered for the whole store.
    pub fn with_prefix(self, prefix: impl Into<Bytes>) -> Sidecar {
        self.server.handle().with(|post, _, _| post.prefix = prefix.into());
        self
    }

    /// Serves until `stop` is there or the master has done with the pod. All client connections are closed at the end,
    /// and the master is told so if it can be reached.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Ended {
        let handle = self.server.handle();
        let mut link = std::pin::pin!(keep_linked(&self.upstream, &handle));
        let mut server = std::pin::pin!(self.server.run());
        tokio::select! {
            Some(fault) = &mut link => return Ended::PodIsOut(fault),
            () = &mut server => {}
            () = stop => {}
        }
        handle.with(|post, _, out| post.finish(out));
        if timeout(FINISH_WITHIN, link).await.is_err() {
            debug!("the master could not be told in time that this sidecar ends");
        }
        Ended::Stopped
    }
}

/// Keeps a link to a master for ever; ends when the master has done with the pod, or without a fault after
/// [`Post::finish`].
async fn keep_linked(upstream: &Upstream, handle: &Handle<Post>) -> Option<LinkFault> {
    let mut reconnect = Reconnect::default();
    let mut last_failure = String::new();
    loop {
        reconnect.next_attempt().await;
        let error = carry(upstream, handle, &mut reconnect).await;
        let (was_up, is_finished) = handle.with(|post, _, out| (post.link_lost(out), post.is_finished));
        if is_finished {
            return None;
        }
        if let LinkError::Fault(fault @ LinkFault::PodIsOut { .. }) = error {
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
async fn carry(upstream: &Upstream, handle: &Handle<Post>, reconnect: &mut Reconnect) -> LinkError {
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

/// The relay as the service behind the port: what it says to the master goes on its way at once.
struct Post {
    relay: Relay,
    /// None while there is no link.
    uplink: Option<UnboundedSender<FromSidecar>>,
    is_finished: bool,
    /// Before every key.
    prefix: Bytes,
}

impl Post {
    fn link_opened(&mut self, uplink: UnboundedSender<FromSidecar>) {
        self.uplink = Some(uplink);
        self.relay.link_opened();
        self.send();
    }

    /// Whether there was one.
    fn link_lost(&mut self, out: &mut Outbox) -> bool {
        self.uplink = None;
        let was_up = self.relay.is_up();
        self.relay.link_lost(out);
        was_up
    }

    fn heard(&mut self, message: ToSidecar, out: &mut Outbox) -> Result<(), LinkFault> {
        let heard = self.relay.heard(message, out);
        self.send();
        heard
    }

    fn beat(&mut self) {
        self.relay.beat();
        self.send();
    }

    /// Says the last things to the master and ends this side of the stream.
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
                    // torchrun runs on this machine: its clock is ours.
                    open.clock = open.clock.map(|clock| NodeClock { unix_us: unix_micros(), ..clock });
                }
                // A link that has just broken is noticed by its reader.
                let _ = uplink.send(FromSidecar { message: Some(message) });
            }
        }
    }
}

impl Service for Post {
    fn opened(&mut self, _: ConnId, _: SocketAddr, _: Now, _: &mut Outbox) {}

    fn request(&mut self, conn: ConnId, request: Request, _: Now, out: &mut Outbox) -> Result<(), Refused> {
        let request = if self.prefix.is_empty() { request } else { request.with_prefix(&self.prefix) };
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

/// The time of day of this machine.
fn unix_micros() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}
