//! The client of parameter servers: values are pulled from whoever keeps them, and gradients pushed there.
//!
//! It goes by the master's map and follows it as it changes. What a server does not answer for is sent again to whoever
//! does; a batch that is sent twice is applied once, so that this never counts double. Callers see whole pulls and
//! pushes, however many servers there are and whatever happens to them.

mod answered;
mod connection;
mod map;
mod pull;
mod push;
mod snapshot;
mod versions;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use flexor_wire::Token;
use flexor_wire::master::v1 as master;
use flexor_wire::master::v1::servers_client::ServersClient;
use parking_lot::Mutex;
use thiserror::Error;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tonic::Status;
use tonic::transport::Channel;

pub use self::answered::Answered;
use self::connection::Connection;
use self::map::Reached;
pub use self::map::Route;
pub use self::pull::{PullFor, PullOutcome};
pub use self::push::{Gradients, PushOutcome};
pub use self::snapshot::{Snapshot, SnapshotError};
pub use self::versions::Versions;
use crate::addressee::Addressee;
use crate::dial::{Dialer, Way, is_final};
use crate::layout::{Layout, SliceId};
use crate::spec::ModelSpec;

/// How long it waits before it asks a server again that is busy with a move, or the master for a newer map.
const PAUSE: Duration = Duration::from_millis(5);

/// How often that pause doubles.
const LONGEST: u32 = 4;
/// After how many attempts somebody is told: some ten seconds.
const TELL_EVERY: u32 = 128;

/// How long a server may refuse the client before that is taken for its last word: the address may be another job's by
/// now, and a map that says so on its way.
const REFUSED_FOR: Duration = Duration::from_secs(10);

/// Something that cannot be done, however often it is tried.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The master's address is none.
    #[error("the master's address cannot be used: {0}")]
    Address(String),
    /// The job trains another model.
    #[error("{0}")]
    Declined(String),
    /// A server will not take it; other partitions may have taken their parts.
    #[error("a parameter server refuses it: {0}")]
    Refused(String),
    /// A server has said something that makes no sense.
    #[error("a parameter server answers nonsense: {0}")]
    Nonsense(&'static str),
}

/// A client.
pub struct Client {
    layout: Arc<Layout>,
    token: Option<Token>,
    map: watch::Receiver<Arc<Route>>,
    connections: Mutex<HashMap<String, (Addressee, Arc<Connection>)>>,
    unreached: Mutex<Unreached>,
    slices: HashMap<SliceId, KnownSlice>,
    versions: Versions,
    answered: Answered,
    dialer: Dialer,
    master: Way,
    follower: JoinHandle<()>,
}

/// Why a server could not be reached.
#[derive(Default)]
struct Unreached {
    /// Since this was last asked for; one that refuses the client counts before one that is away.
    cause: Option<Status>,
    /// Since when some server refuses the client.
    refused_since: Option<Instant>,
}

/// What is known of a slice.
struct KnownSlice {
    origin: u64,
    version: u64,
    values: Arc<[f32]>,
}

impl Client {
    /// Declares the model at the master and follows its map. A master that is away is waited for.
    pub async fn connect(master: &str, token: Option<Token>, spec: ModelSpec) -> Result<Self, ClientError> {
        Self::with_dialer(master, token, spec, Dialer::default()).await
    }

    /// The same, with connections of its own.
    pub async fn with_dialer(
        master: &str,
        token: Option<Token>,
        spec: ModelSpec,
        dialer: Dialer,
    ) -> Result<Self, ClientError> {
        let master = dialer.way_to(master).map_err(|error| ClientError::Address(error.to_string()))?;
        let model = serde_json::to_string(&spec).map_err(|error| ClientError::Declined(error.to_string()))?;
        let layout = Layout::new(spec).map_err(|error| ClientError::Declined(error.to_string()))?;
        let declared = |channel| {
            let mut client = ServersClient::with_interceptor(channel, Token::carried(token.as_ref()));
            let model = master::DeclareModel { model: model.clone() };
            async move { client.declare(model).await }
        };
        until_answered(&master, declared).await?;
        let (maps, map) = watch::channel(Arc::default());
        let follower = tokio::spawn(map::follow(master.clone(), token.clone(), maps));
        let (connections, slices, answered) = (Mutex::default(), HashMap::new(), Answered::default());
        let (versions, unreached) = (Versions::default(), Mutex::default());
        Ok(Self { layout, token, map, connections, unreached, slices, versions, answered, dialer, master, follower })
    }

    /// The model.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// All data is learnt: waits until the model is in a checkpoint, where some are made. Whether it still is: everybody may
    /// have gone back meanwhile, and the data with them.
    pub async fn save(&self) -> Result<bool, ClientError> {
        let saved = |channel| {
            let mut client = ServersClient::with_interceptor(channel, Token::carried(self.token.as_ref()));
            async move { client.save(master::SaveModel {}).await }
        };
        until_answered(&self.master, saved).await.map(|saved| !saved.unfinished)
    }

    /// Which versions its pushes were answered with.
    pub fn answered(&self) -> &Answered {
        &self.answered
    }

    /// The map that it goes by, waiting for the first one.
    async fn route(&self) -> Arc<Route> {
        let mut map = self.map.clone();
        match map.wait_for(|route| route.epoch > 0).await {
            Ok(route) => Arc::clone(&route),
            // The follower lives as long as the client.
            Err(_) => Arc::default(),
        }
    }

    /// Waits for a map that is newer than this one, but not for long: a server may only be busy. The longer the more often
    /// it was tried. An error where a server goes on refusing the client.
    async fn look_again(&self, epoch: u64, attempt: u32) -> Result<(), ClientError> {
        let cause = self.why_unreached()?;
        if attempt > 0 && attempt.is_multiple_of(TELL_EVERY) {
            let cause = cause.as_ref().map(Status::message);
            tracing::warn!(map = epoch, attempt, cause, "parameter servers still do not answer for some partitions");
        }
        let pause = PAUSE * (1 << attempt.min(LONGEST));
        let mut map = self.map.clone();
        let _ = tokio::time::timeout(pause, map.wait_for(|route| route.epoch > epoch)).await;
        Ok(())
    }

    /// Why a server could not be reached since this was last asked for; an error if one has refused the client for long.
    fn why_unreached(&self) -> Result<Option<Status>, ClientError> {
        let mut unreached = self.unreached.lock();
        let cause = unreached.cause.take();
        match cause.as_ref().filter(|status| is_final(status)) {
            None => unreached.refused_since = None,
            Some(status) => {
                let since = *unreached.refused_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= REFUSED_FOR {
                    return Err(ClientError::Refused(status.message().to_owned()));
                }
            }
        }
        Ok(cause)
    }

    /// The connection to a server; a new one if there is none that stands.
    async fn connection(&self, to: &Reached) -> Result<Arc<Connection>, Status> {
        let key = &to.address;
        let known =
            self.connections.lock().get(key).filter(|(server, one)| *server == to.server && one.stands()).cloned();
        if let Some((_, known)) = known {
            return Ok(known);
        }
        match self.connect_to(to).await {
            Ok(made) => {
                let made = Arc::new(made);
                self.unreached.lock().refused_since = None;
                self.connections.lock().insert(key.clone(), (to.server.clone(), made.clone()));
                Ok(made)
            }
            Err(status) => {
                let status = Status::new(status.code(), format!("the server at {key}: {}", status.message()));
                let mut unreached = self.unreached.lock();
                if unreached.cause.as_ref().is_none_or(|cause| !is_final(cause)) {
                    unreached.cause = Some(status.clone());
                }
                Err(status)
            }
        }
    }

    async fn connect_to(&self, to: &Reached) -> Result<Connection, Status> {
        let way = self.dialer.way_to(&to.address).map_err(|error| Status::unavailable(error.to_string()))?;
        Connection::open(&way, &to.server, self.token.as_ref()).await
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.follower.abort();
    }
}

/// Asks the master until it has answered: one that is away is waited for, and what it will not do is an error.
async fn until_answered<A, T>(master: &Way, ask: impl Fn(Channel) -> A) -> Result<T, ClientError>
where
    A: Future<Output = Result<tonic::Response<T>, tonic::Status>>,
{
    let mut reconnect = master.reconnect();
    loop {
        reconnect.next_attempt().await;
        if let Some(outage) = reconnect.outage_to_report() {
            tracing::warn!(%master, ?outage, "the master does not answer; keeps trying");
        }
        if let Ok(channel) = master.connect().await {
            match ask(channel).await {
                Ok(answer) => return Ok(answer.into_inner()),
                Err(status) if is_final(&status) => {
                    return Err(ClientError::Declined(status.message().to_owned()));
                }
                Err(_) => {}
            }
        }
    }
}
