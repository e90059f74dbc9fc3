//! The task that keeps a session with the master: it dials for ever, delivers the node's errands and tells where the
//! node stands. Workers do not notice when a master goes and comes.

use std::sync::Arc;

use flexor_store::sidecar::{Backoff, Upstream};
use flexor_wire::master::v1 as wire;
use flexor_wire::master::v1::master_client::MasterClient;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use super::dialogue::{Dialogue, Heard};
use super::errands::Errands;
use super::place::Place;

pub(super) struct Session {
    pub(super) master: Upstream,
    pub(super) node: wire::Node,
    pub(super) processes: u32,
    /// Shared with the launcher, which adds to them.
    pub(super) errands: Arc<watch::Sender<Errands>>,
    pub(super) told: watch::Sender<Place>,
}

/// Why no session is kept any more.
struct Fenced;

/// One stream to a master and back.
struct Stream {
    requests: mpsc::Sender<wire::Request>,
    replies: Streaming<wire::Reply>,
    dialogue: Dialogue,
}

impl Session {
    /// Keeps a session until somebody else is this node.
    pub(super) async fn keep(self) {
        let mut backoff = Backoff::default();
        let mut last_failure = String::new();
        loop {
            let failure = match self.hold(&mut backoff).await {
                Ok(Fenced) => return,
                Err(failure) => failure,
            };
            self.errands.send_if_modified(|errands| std::mem::take(&mut errands.linked));
            if failure != last_failure {
                tracing::warn!("{failure}; dialling again until a master answers");
            }
            last_failure = failure;
            tokio::time::sleep(backoff.pause()).await;
        }
    }

    /// Opens a session and lives in it until it breaks.
    async fn hold(&self, backoff: &mut Backoff) -> Result<Fenced, String> {
        let mut stream = self.dial().await?;
        let mut changes = self.errands.subscribe();
        let mut last_refusal = None;
        loop {
            let next = stream.dialogue.next(&changes.borrow_and_update(), Instant::now());
            if let Some(request) = next {
                stream.requests.send(request).await.map_err(|error| error.to_string())?;
            }
            self.errands.send_if_modified(|errands| {
                let settled = stream.dialogue.is_settled(errands);
                std::mem::replace(&mut errands.settled, settled) != settled
            });
            let wakes_at = stream.dialogue.wakes_at(Instant::now());
            tokio::select! {
                reply = stream.replies.message() => {
                    let reply = reply.map_err(|status| broken(&status))?;
                    let reply = reply.ok_or_else(|| "the master has ended the session".to_owned())?;
                    backoff.reset();
                    match stream.dialogue.hear(reply, Instant::now()) {
                        Heard::Nothing => {}
                        Heard::Stands(place) => self.tell(place),
                        Heard::Report(refused) => self.is_reported(refused.as_deref()),
                        Heard::Refused(because) => {
                            if last_refusal.as_ref() != Some(&because) {
                                tracing::warn!("the master does not take what this node says: {because}; says it again");
                            }
                            last_refusal = Some(because);
                        }
                        Heard::Unwelcome(because) => return Err(format!("the master refuses this node: {because}")),
                        Heard::Fenced(because) => {
                            self.told.send_replace(Place::Fenced(because));
                            return Ok(Fenced);
                        }
                    }
                }
                changed = changes.changed() => changed.map_err(|error| error.to_string())?,
                () = tokio::time::sleep_until(wakes_at.unwrap_or_else(Instant::now)), if wakes_at.is_some() => {}
            }
        }
    }

    async fn dial(&self) -> Result<Stream, String> {
        let mut dialogue = Dialogue::new(self.node.clone(), self.processes);
        let (requests, receiver) = mpsc::channel(1);
        let (channel, stream) = self.master.open(ReceiverStream::new(receiver)).await?;
        requests.send(dialogue.open()).await.map_err(|error| error.to_string())?;
        let replies = MasterClient::new(channel).session(stream).await.map_err(|status| broken(&status))?;
        Ok(Stream { requests, replies: replies.into_inner(), dialogue })
    }

    fn tell(&self, place: Place) {
        self.errands.send_if_modified(|errands| !std::mem::replace(&mut errands.linked, true));
        self.told.send_if_modified(|told| {
            let is_news = *told != place;
            *told = place;
            is_news
        });
    }

    /// The first report is done with.
    fn is_reported(&self, refused: Option<&str>) {
        if let Some(because) = refused {
            tracing::warn!("the master does not take a report of this node: {because}");
        }
        self.errands.send_modify(|errands| drop(errands.reports.pop_front()));
    }
}

fn broken(status: &tonic::Status) -> String {
    format!("the session with the master broke: {}", status.message())
}
