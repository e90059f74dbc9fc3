//! The session with the master: what this node wants, and where it stands.
//!
//! A task keeps the session and dials again for ever when it breaks; workers do not notice. What the node wants is a
//! state and not a message, so that a master that was started again is told it again, and a node that is already where it
//! wants to be says nothing.

use std::sync::Arc;
use std::time::Duration;

use flexor_store::sidecar::{Backoff, Upstream};
use flexor_wire::master::v1 as wire;
use flexor_wire::master::v1::control_client::ControlClient;
use flexor_wire::master::v1::master_client::MasterClient;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use wire::reply::Result as Answer;
use wire::request::Op;

use crate::workers::FailureReport;

/// How long the master may take for a call that nobody can go on without.
const CALL_WITHIN: Duration = Duration::from_secs(10);
/// How long it may take for what is only good to know.
const LAST_WORD_WITHIN: Duration = Duration::from_secs(1);

/// Where a node stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// Not in a world; it has joined, or will.
    Waiting,
    /// In a world.
    InWorld(World),
    /// In a world that is to meet again.
    Restart {
        /// Its round.
        round: u64,
        /// Why.
        because: String,
    },
    /// Nobody can join any more, for this reason.
    Closed(String),
    /// Somebody else is this node.
    Fenced(String),
}

/// A world, as its node sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct World {
    pub(super) round: u64,
    /// The name of the run at the master.
    pub(super) run: String,
    /// Of this node among the nodes.
    pub(super) rank: u32,
    pub(super) size: u32,
    /// The rank of this node's first process among all.
    pub(super) first_process: u32,
    pub(super) processes: u32,
    /// How often the program has failed, as the master counts it.
    pub(super) program_failures: u32,
    /// The processes that ran before, by rank.
    pub(super) survivors: Vec<u32>,
}

/// What a node wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// To be in a world after this one, the last it was in.
    World {
        after: Option<u64>,
        /// With processes that it has already.
        survives: bool,
    },
    /// To be in none for a while.
    Aside,
    /// To be out of work: its program has ended well.
    Rest,
}

pub(super) struct Membership {
    master: Upstream,
    node: wire::Node,
    wanted: watch::Sender<Wanted>,
    place: watch::Receiver<Place>,
    last_round: Option<u64>,
    last_failure: Option<FailureReport>,
    session: JoinHandle<()>,
}

impl Membership {
    pub(super) fn begin(master: Upstream, (name, incarnation): (Arc<str>, u64), processes: u32) -> Self {
        let node = wire::Node { name: name.to_string(), incarnation };
        let (wanted, wants) = watch::channel(Wanted::World { after: None, survives: false });
        let (told, place) = watch::channel(Place::Waiting);
        let session = Session { master: master.clone(), node: node.clone(), processes, wants, told };
        let session = tokio::spawn(session.keep());
        Self { master, node, wanted, place, last_round: None, last_failure: None, session }
    }

    /// Wants to be in the next world.
    pub(super) fn join(&mut self, survives: bool) {
        let wanted = Wanted::World { after: self.last_round, survives };
        self.wanted.send_if_modified(|now| std::mem::replace(now, wanted) != wanted);
    }

    /// The program has ended well here.
    pub(super) fn finish(&mut self) {
        self.wanted.send_replace(Wanted::Rest);
    }

    /// The program has failed here.
    pub(super) fn failed(&mut self, report: FailureReport) {
        self.last_failure = Some(report);
    }

    /// Where the node stands, when that is something else than before. Worlds that it has been in before are no news.
    pub(super) async fn changed(&mut self) -> Place {
        loop {
            if self.place.changed().await.is_err() {
                // The session never ends by itself.
                return std::future::pending().await;
            }
            let place = self.place.borrow_and_update().clone();
            match &place {
                Place::InWorld(world) if self.last_round.is_some_and(|last| world.round <= last) => {}
                Place::Restart { round, .. } if self.last_round.is_some_and(|last| *round < last) => {}
                Place::Restart { round, .. } => {
                    // Perhaps of a world that ended before it was seen.
                    self.last_round = Some(*round);
                    return place;
                }
                Place::InWorld(world) => {
                    self.last_round = Some(world.round);
                    return place;
                }
                Place::Waiting | Place::Closed(_) | Place::Fenced(_) => return place,
            }
        }
    }

    /// Asks the master something, again and again until it answers or too much time has passed.
    pub(super) async fn call(&self, op: Op) -> Result<Answer, String> {
        let mut backoff = Backoff::default();
        let mut failure = String::new();
        let answered = async {
            loop {
                match self.call_once(op.clone()).await {
                    Ok(answer) => return answer,
                    Err(error) => failure = error,
                }
                tokio::time::sleep(backoff.pause()).await;
            }
        };
        let answered = tokio::time::timeout(CALL_WITHIN, answered).await;
        answered.map_err(|_| failure)
    }

    async fn call_once(&self, op: Op) -> Result<Answer, String> {
        let request = wire::Request { id: 1, node: Some(self.node.clone()), op: Some(op) };
        let (channel, request) = self.master.open(request).await?;
        let reply = MasterClient::new(channel).call(request).await.map_err(|status| status.to_string())?;
        reply.into_inner().result.ok_or_else(|| "the master's answer is empty".to_owned())
    }

    /// Leaves the world for a while, so that others can go on without this node.
    pub(super) async fn stand_aside(&mut self) {
        self.wanted.send_replace(Wanted::Aside);
        self.say_goodbye("its workers are started again").await;
    }

    /// Leaves for good, and says so if the master can be reached. Gives the last failure of the program here.
    pub(super) async fn end(self) -> Option<FailureReport> {
        self.session.abort();
        self.say_goodbye("its launcher has ended").await;
        self.last_failure
    }

    async fn say_goodbye(&self, detail: &str) {
        let goodbye = async {
            let gone = wire::NodeGoneRequest { name: self.node.name.clone(), detail: detail.to_owned() };
            let (channel, gone) = self.master.open(gone).await?;
            ControlClient::new(channel).node_gone(gone).await.map_err(|status| status.to_string())
        };
        if !matches!(tokio::time::timeout(LAST_WORD_WITHIN, goodbye).await, Ok(Ok(_))) {
            tracing::debug!("the master could not be told that this node leaves");
        }
    }
}

/// The task behind a membership.
struct Session {
    master: Upstream,
    node: wire::Node,
    processes: u32,
    wants: watch::Receiver<Wanted>,
    told: watch::Sender<Place>,
}

impl Session {
    async fn keep(mut self) {
        let mut backoff = Backoff::default();
        let mut last_failure = String::new();
        loop {
            let failure = match self.hold(&mut backoff).await {
                Ok(()) => "the master has ended the session".to_owned(),
                Err(failure) => failure,
            };
            if failure != last_failure {
                tracing::warn!("{failure}; dialling again until a master answers");
            }
            last_failure = failure;
            tokio::time::sleep(backoff.pause()).await;
        }
    }

    /// Opens a session and lives in it until it breaks.
    async fn hold(&mut self, backoff: &mut Backoff) -> Result<(), String> {
        let (requests, receiver) = mpsc::channel(16);
        let (channel, stream) = self.master.open(ReceiverStream::new(receiver)).await?;
        // The first request makes the session this node's.
        let poll = wire::Poll::default();
        requests.send(self.request(Op::Poll(poll))).await.map_err(|error| error.to_string())?;
        let replies = MasterClient::new(channel).session(stream).await.map_err(|status| broken(&status))?;
        let mut replies = replies.into_inner();
        // Where the master last said that the node stands, and what it was told with the last Join.
        let (mut stands, mut joined): (Option<wire::World>, Option<bool>) = (None, None);
        loop {
            tokio::select! {
                reply = replies.message() => {
                    let Some(reply) = reply.map_err(|status| broken(&status))? else { return Ok(()) };
                    backoff.reset();
                    match reply.result {
                        Some(Answer::World(world)) => {
                            let begins = stands.is_none();
                            self.tell(&world);
                            stands = Some(world);
                            if begins {
                                tracing::debug!("has a session with the master");
                                self.say_what_is_wanted(stands.as_ref(), &mut joined, &requests).await?;
                            }
                        }
                        Some(Answer::Refusal(refusal)) => {
                            let because = format!("{}: {}", refusal.reason, refusal.detail);
                            self.told.send_replace(Place::Fenced(because));
                        }
                        Some(_) | None => {}
                    }
                }
                changed = self.wants.changed(), if stands.is_some() => {
                    changed.map_err(|error| error.to_string())?;
                    self.say_what_is_wanted(stands.as_ref(), &mut joined, &requests).await?;
                }
            }
        }
    }

    /// Says what the node wants, unless the world shows that it has it.
    async fn say_what_is_wanted(
        &mut self,
        world: Option<&wire::World>,
        joined: &mut Option<bool>,
        requests: &mpsc::Sender<wire::Request>,
    ) -> Result<(), String> {
        let wanted = *self.wants.borrow_and_update();
        let op = match wanted {
            Wanted::Aside => return Ok(()),
            Wanted::World { after, survives } => {
                use wire::world::Place as Said;
                let has_it = world.is_some_and(|world| match world.place() {
                    Said::InWorld => after.is_none_or(|after| world.round > after),
                    // A master that was started again does not know with how many processes, and is told again.
                    Said::Joined | Said::Spare => *joined == Some(survives),
                    Said::Unspecified | Said::Outside | Said::Away => false,
                });
                if has_it {
                    return Ok(());
                }
                *joined = Some(survives);
                Op::Join(wire::Join { processes: self.processes, survives })
            }
            Wanted::Rest => Op::Finish(wire::Finish {}),
        };
        requests.send(self.request(op)).await.map_err(|error| error.to_string())
    }

    fn request(&self, op: Op) -> wire::Request {
        wire::Request { id: 1, node: Some(self.node.clone()), op: Some(op) }
    }

    fn tell(&self, world: &wire::World) {
        let place = place_of(world);
        self.told.send_if_modified(|told| {
            let is_news = *told != place;
            *told = place;
            is_news
        });
    }
}

fn broken(status: &tonic::Status) -> String {
    format!("the session with the master broke: {}", status.message())
}

fn place_of(world: &wire::World) -> Place {
    use wire::world::Place as Said;
    if !world.closed.is_empty() {
        return Place::Closed(world.closed.clone());
    }
    match world.place() {
        Said::InWorld if !world.restart.is_empty() => {
            Place::Restart { round: world.round, because: world.restart.clone() }
        }
        Said::InWorld => Place::InWorld(World {
            round: world.round,
            run: world.run.clone(),
            rank: world.rank,
            size: world.size,
            first_process: world.first_process,
            processes: world.processes,
            program_failures: world.program_failures,
            survivors: world.survivors.clone(),
        }),
        Said::Unspecified | Said::Outside | Said::Joined | Said::Spare | Said::Away => Place::Waiting,
    }
}
