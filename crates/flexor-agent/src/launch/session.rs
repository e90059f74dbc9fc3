//! The task that keeps a session with the master: it reconnects for ever, delivers the node's outbox and publishes the
//! node's state.
//!
//! Workers do not notice when a master ends and another one starts. The log has one line for each.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;

use flexor_client::{Reconnect, Upstream};
use flexor_model::env;
use flexor_wire::master::v1 as wire;
use flexor_wire::master::v1::master_client::MasterClient;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};

use super::job_identity::{JobIdentity, WrongJob};
use super::master_status::MasterStatus;
use super::node_state::{NodeState, Rejection};
use super::outbox::Outbox;
use super::session_protocol::{ReplyEffect, SessionProtocol};

pub(super) struct Session {
    pub(super) master: Upstream,
    /// Address of the master, for messages.
    pub(super) address: String,
    /// The file with the token, for messages.
    pub(super) token_file: Option<PathBuf>,
    pub(super) job_identity: JobIdentity,
    pub(super) node: wire::Node,
    pub(super) processes: u32,
    /// Shared with the launcher, which adds to it.
    pub(super) outbox: Arc<watch::Sender<Outbox>>,
    pub(super) state: watch::Sender<NodeState>,
    pub(super) master_status: watch::Sender<MasterStatus>,
}

/// Why there is no session.
enum SessionFailure {
    /// There may be one later.
    Unavailable(String),
    /// There will be none.
    Rejected(Rejection),
}

/// One connection to a master.
struct Connection {
    requests: mpsc::Sender<wire::Request>,
    replies: Streaming<wire::Reply>,
    protocol: SessionProtocol,
}

impl Session {
    /// Keeps a session until the master rejects this node.
    pub(super) async fn run(mut self) {
        let mut reconnect = Reconnect::default();
        loop {
            reconnect.next_attempt().await;
            let cause = match self.run_once(&mut reconnect).await {
                Err(SessionFailure::Unavailable(cause)) => cause,
                Err(SessionFailure::Rejected(rejection)) => {
                    self.state.send_replace(NodeState::Rejected(rejection));
                    return;
                }
            };
            self.outbox.send_if_modified(|outbox| std::mem::take(&mut outbox.connected));
            if self.master_status.borrow().unavailable.is_none() {
                tracing::warn!("{cause}; dialling again until a master answers");
            }
            tracing::debug!(%cause, "no session");
            self.master_status.send_modify(|status| status.unavailable = Some(cause));
        }
    }

    /// Opens a session and runs it until it breaks.
    async fn run_once(&mut self, reconnect: &mut Reconnect) -> Result<Infallible, SessionFailure> {
        let mut connection = self.connect().await?;
        let mut changes = self.outbox.subscribe();
        let mut last_refusal = None;
        loop {
            let next = connection.protocol.next_request(&changes.borrow_and_update(), Instant::now());
            if let Some(request) = next {
                connection.requests.send(request).await.map_err(|_| self.ended())?;
            }
            self.outbox.send_if_modified(|outbox| {
                let delivered = connection.protocol.has_delivered(outbox);
                std::mem::replace(&mut outbox.delivered, delivered) != delivered
            });
            let wakeup = connection.protocol.next_wakeup(Instant::now());
            tokio::select! {
                reply = connection.replies.message() => {
                    let reply = reply.map_err(|status| self.broken(&status))?.ok_or_else(|| self.ended())?;
                    match connection.protocol.handle_reply(reply, Instant::now()) {
                        ReplyEffect::None => {}
                        ReplyEffect::State(state) => {
                            let was_known = self.job_identity.is_known();
                            if let Some(world) = connection.protocol.world() {
                                self.job_identity.check(world, &self.address)?;
                                // Not before: another job's master must not reset the back-off.
                                reconnect.established();
                                self.publish(state);
                                self.update_status(world, was_known);
                            }
                        }
                        ReplyEffect::ReportHandled(refusal) => self.remove_report(refusal.as_deref()),
                        ReplyEffect::Refused(cause) => {
                            if last_refusal.as_ref() != Some(&cause) {
                                tracing::warn!("the master refuses a request of this node: {cause}; retries");
                            }
                            last_refusal = Some(cause);
                        }
                        ReplyEffect::SessionRefused(cause) => {
                            let address = &self.address;
                            let cause = format!("the master at {address} refuses this node: {cause}");
                            return Err(SessionFailure::Unavailable(cause));
                        }
                        ReplyEffect::Fenced(cause) => {
                            return Err(SessionFailure::Rejected(Rejection::Fenced(cause)));
                        }
                    }
                }
                changed = changes.changed() => changed.map_err(|_| self.ended())?,
                () = tokio::time::sleep_until(wakeup.unwrap_or_else(Instant::now)), if wakeup.is_some() => {}
            }
        }
    }

    async fn connect(&self) -> Result<Connection, SessionFailure> {
        let mut protocol = SessionProtocol::new(self.node.clone(), self.processes);
        let (requests, receiver) = mpsc::channel(1);
        let connected = self.master.connect(ReceiverStream::new(receiver)).await;
        let (channel, stream) = connected.map_err(|error| SessionFailure::Unavailable(error.to_string()))?;
        requests.send(protocol.open()).await.map_err(|_| self.ended())?;
        let replies = MasterClient::new(channel).session(stream).await.map_err(|status| self.broken(&status))?;
        Ok(Connection { requests, replies: replies.into_inner(), protocol })
    }

    fn publish(&self, state: NodeState) {
        self.outbox.send_if_modified(|outbox| !std::mem::replace(&mut outbox.connected, true));
        self.state.send_if_modified(|published| {
            let is_new = *published != state;
            *published = state;
            is_new
        });
    }

    /// Notes that the master is there, and what it says of the job. Called after [`Session::publish`], so that a reader that
    /// sees the status also sees the state.
    fn update_status(&self, world: &wire::World, was_known: bool) {
        self.master_status.send_if_modified(|status| {
            if status.unavailable.is_some() {
                tracing::info!("the master is {}", if was_known { "back" } else { "here" });
            }
            let before = status.clone();
            status.update(world);
            *status != before
        });
    }

    /// The master has recorded or refused the oldest report.
    fn remove_report(&self, refusal: Option<&str>) {
        if let Some(cause) = refusal {
            tracing::warn!("the master refuses a report of this node: {cause}");
        }
        self.outbox.send_modify(|outbox| drop(outbox.reports.pop_front()));
    }

    fn ended(&self) -> SessionFailure {
        SessionFailure::Unavailable(format!("the master at {} has ended the session", self.address))
    }

    /// A token that the master never accepted is a mistake of the user. One that it accepted before may have been replaced,
    /// and the file may be replaced too.
    fn broken(&self, status: &Status) -> SessionFailure {
        let (address, variable) = (&self.address, env::TOKEN_FILE.name);
        if status.code() != Code::Unauthenticated {
            tracing::debug!(?status, "the session broke");
            return SessionFailure::Unavailable(format!("the connection to the master at {address} was lost"));
        }
        let cause = match &self.token_file {
            Some(file) => format!(
                "the token in {} is not that of the master at {address}; name the right file in {variable}",
                file.display()
            ),
            None => format!("the master at {address} wants the job's token; name the file with it in {variable}"),
        };
        if self.job_identity.is_known() {
            SessionFailure::Unavailable(cause)
        } else {
            SessionFailure::Rejected(Rejection::Token(cause))
        }
    }
}

impl From<WrongJob> for SessionFailure {
    fn from(wrong_job: WrongJob) -> Self {
        match wrong_job {
            WrongJob::NotRequested(cause) => SessionFailure::Rejected(Rejection::OtherJob(cause)),
            WrongJob::Changed(cause) => SessionFailure::Unavailable(cause),
        }
    }
}
