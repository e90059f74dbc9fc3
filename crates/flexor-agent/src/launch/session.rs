//! The task that keeps a session with the master: it dials for ever, delivers the node's errands and tells where the
//! node stands. Workers do not notice when a master goes and comes; people are told once of each.

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

use super::belonging::{Belonging, Stranger};
use super::dialogue::{Dialogue, Heard};
use super::errands::Errands;
use super::known::Known;
use super::place::{Bar, Place};

pub(super) struct Session {
    pub(super) master: Upstream,
    /// Where that is, for people.
    pub(super) address: String,
    /// The file with the token that is shown, for people.
    pub(super) token_file: Option<PathBuf>,
    pub(super) belonging: Belonging,
    pub(super) node: wire::Node,
    pub(super) processes: u32,
    /// Shared with the launcher, which adds to them.
    pub(super) errands: Arc<watch::Sender<Errands>>,
    pub(super) place: watch::Sender<Place>,
    pub(super) known: watch::Sender<Known>,
}

/// Why there is no session.
enum Failure {
    /// There may be one later.
    Away(String),
    /// There will be none.
    Barred(Bar),
}

/// One stream to a master and back.
struct Stream {
    requests: mpsc::Sender<wire::Request>,
    replies: Streaming<wire::Reply>,
    dialogue: Dialogue,
}

impl Session {
    /// Keeps a session until the master will not have this node.
    pub(super) async fn keep(mut self) {
        let mut reconnect = Reconnect::default();
        loop {
            reconnect.next_attempt().await;
            let because = match self.hold(&mut reconnect).await {
                Err(Failure::Away(because)) => because,
                Err(Failure::Barred(bar)) => {
                    self.place.send_replace(Place::Barred(bar));
                    return;
                }
            };
            self.errands.send_if_modified(|errands| std::mem::take(&mut errands.linked));
            if self.known.borrow().away.is_none() {
                tracing::warn!("{because}; dialling again until a master answers");
            }
            tracing::debug!(%because, "no session");
            self.known.send_modify(|known| known.away = Some(because));
        }
    }

    /// Opens a session and lives in it until it breaks.
    async fn hold(&mut self, reconnect: &mut Reconnect) -> Result<Infallible, Failure> {
        let mut stream = self.dial().await?;
        let mut changes = self.errands.subscribe();
        let mut last_refusal = None;
        loop {
            let next = stream.dialogue.next(&changes.borrow_and_update(), Instant::now());
            if let Some(request) = next {
                stream.requests.send(request).await.map_err(|_| self.ended())?;
            }
            self.errands.send_if_modified(|errands| {
                let settled = stream.dialogue.is_settled(errands);
                std::mem::replace(&mut errands.settled, settled) != settled
            });
            let wakes_at = stream.dialogue.wakes_at(Instant::now());
            tokio::select! {
                reply = stream.replies.message() => {
                    let reply = reply.map_err(|status| self.broken(&status))?.ok_or_else(|| self.ended())?;
                    match stream.dialogue.hear(reply, Instant::now()) {
                        Heard::Nothing => {}
                        Heard::Stands(place) => {
                            let knew_it = self.belonging.is_known();
                            if let Some(world) = stream.dialogue.stands() {
                                self.belonging.meet(world, &self.address)?;
                                // Not before: where another job's master answers there is nothing to hurry for.
                                reconnect.established();
                                self.tell(place);
                                self.note(world, knew_it);
                            }
                        }
                        Heard::Report(refused) => self.is_reported(refused.as_deref()),
                        Heard::Refused(because) => {
                            if last_refusal.as_ref() != Some(&because) {
                                tracing::warn!("the master does not take what this node says: {because}; says it again");
                            }
                            last_refusal = Some(because);
                        }
                        Heard::Unwelcome(because) => {
                            let address = &self.address;
                            return Err(Failure::Away(format!("the master at {address} refuses this node: {because}")));
                        }
                        Heard::Fenced(because) => return Err(Failure::Barred(Bar::Fenced(because))),
                    }
                }
                changed = changes.changed() => changed.map_err(|_| self.ended())?,
                () = tokio::time::sleep_until(wakes_at.unwrap_or_else(Instant::now)), if wakes_at.is_some() => {}
            }
        }
    }

    async fn dial(&self) -> Result<Stream, Failure> {
        let mut dialogue = Dialogue::new(self.node.clone(), self.processes);
        let (requests, receiver) = mpsc::channel(1);
        let (channel, stream) = self
            .master
            .connect(ReceiverStream::new(receiver))
            .await
            .map_err(|error| Failure::Away(error.to_string()))?;
        requests.send(dialogue.open()).await.map_err(|_| self.ended())?;
        let replies = MasterClient::new(channel).session(stream).await.map_err(|status| self.broken(&status))?;
        Ok(Stream { requests, replies: replies.into_inner(), dialogue })
    }

    fn tell(&self, place: Place) {
        self.errands.send_if_modified(|errands| !std::mem::replace(&mut errands.linked, true));
        self.place.send_if_modified(|told| {
            let is_news = *told != place;
            *told = place;
            is_news
        });
    }

    /// The master has said something: it is there. After the node's place, which is then known as well.
    fn note(&self, world: &wire::World, knew_it: bool) {
        self.known.send_if_modified(|known| {
            if known.away.is_some() {
                tracing::info!("the master is {}", if knew_it { "back" } else { "here" });
            }
            let before = known.clone();
            known.hear(world);
            *known != before
        });
    }

    /// The first report is done with.
    fn is_reported(&self, refused: Option<&str>) {
        if let Some(because) = refused {
            tracing::warn!("the master does not take a report of this node: {because}");
        }
        self.errands.send_modify(|errands| drop(errands.reports.pop_front()));
    }

    fn ended(&self) -> Failure {
        Failure::Away(format!("the master at {} has ended the session", self.address))
    }

    /// A token that was never taken is a mistake; one that was may have been replaced, and so may the file's.
    fn broken(&self, status: &Status) -> Failure {
        let (address, variable) = (&self.address, env::TOKEN_FILE.name);
        if status.code() != Code::Unauthenticated {
            tracing::debug!(?status, "the session broke");
            return Failure::Away(format!("the connection to the master at {address} was lost"));
        }
        let because = match &self.token_file {
            Some(file) => format!(
                "the token in {} is not that of the master at {address}; name the right file in {variable}",
                file.display()
            ),
            None => format!("the master at {address} wants the job's token; name the file with it in {variable}"),
        };
        if self.belonging.is_known() { Failure::Away(because) } else { Failure::Barred(Bar::Token(because)) }
    }
}

impl From<Stranger> for Failure {
    fn from(stranger: Stranger) -> Self {
        match stranger {
            Stranger::NotAsked(because) => Failure::Barred(Bar::OtherJob(because)),
            Stranger::Another(because) => Failure::Away(because),
        }
    }
}
