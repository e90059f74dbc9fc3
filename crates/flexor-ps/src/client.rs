//! The client of parameter servers: pulls values from the primaries of partitions, and pushes gradients to them.
//!
//! It follows the master's partition map. Parts that a server is not primary of are retried at the new primary; a batch that
//! arrives twice is applied once, so a retry never counts double. Callers see complete pulls and pushes, however many
//! servers there are and however they fail.

mod acknowledged;
mod connection;
mod pull;
mod push;
mod route;
mod snapshot;
mod versions;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use flexor_wire::Token;
use flexor_wire::master::v1 as master;
use flexor_wire::master::v1::ps_membership_client::PsMembershipClient;
use parking_lot::Mutex;
use thiserror::Error;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tonic::Status;
use tonic::transport::Channel;

pub use self::acknowledged::AcknowledgedVersions;
use self::connection::Connection;
pub use self::pull::{PullFor, PullOutcome};
pub use self::push::{Gradients, PushOutcome};
pub use self::route::Route;
use self::route::ServerAddress;
pub use self::snapshot::{Snapshot, SnapshotError};
pub use self::versions::Versions;
use crate::call_target::CallTarget;
use crate::dial::{DialEndpoint, Dialer, is_final};
use crate::layout::{Layout, SliceId};
use crate::spec::ModelSpec;

/// First pause before a retry, while a server hands a partition over or a newer map is due.
const RETRY_PAUSE: Duration = Duration::from_millis(5);

/// How often the pause doubles.
const MAX_DOUBLINGS: u32 = 4;
/// Attempts between two warnings: about ten seconds.
const WARN_EVERY: u32 = 128;

/// A refusal counts as final after this time. Before, the address may belong to another job by now, and a newer map may be
/// on its way.
const REFUSAL_GRACE: Duration = Duration::from_secs(10);

/// A failure that no retry can fix.
#[derive(Debug, Error)]
pub enum ClientError {
    #[error("the master's address cannot be used: {0}")]
    Address(String),
    /// The master refuses, for example because the job trains another model.
    #[error("{0}")]
    Declined(String),
    /// Other partitions may have applied their parts.
    #[error("a parameter server refuses the request: {0}")]
    Refused(String),
    #[error("a parameter server sent an invalid reply: {0}")]
    InvalidReply(&'static str),
}

pub struct Client {
    layout: Arc<Layout>,
    token: Option<Token>,
    route: watch::Receiver<Arc<Route>>,
    connections: Mutex<HashMap<String, (CallTarget, Arc<Connection>)>>,
    connect_failures: Mutex<ConnectFailures>,
    slices: HashMap<SliceId, CachedSlice>,
    versions: Versions,
    acknowledged: AcknowledgedVersions,
    dialer: Dialer,
    master: DialEndpoint,
    watcher: JoinHandle<()>,
}

/// Failures to connect to servers.
#[derive(Default)]
struct ConnectFailures {
    /// The last failure since it was last read; a refusal takes precedence over an unreachable server.
    cause: Option<Status>,
    /// When a server first refused the client.
    refused_since: Option<Instant>,
}

/// The last pulled values of a slice.
struct CachedSlice {
    generation: u64,
    version: u64,
    values: Arc<[f32]>,
}

impl Client {
    /// Declares the model at the master and follows its partition map. Waits for an unreachable master.
    pub async fn connect(master: &str, token: Option<Token>, spec: ModelSpec) -> Result<Self, ClientError> {
        Self::with_dialer(master, token, spec, Dialer::default()).await
    }

    /// The same, with another way to open connections.
    pub async fn with_dialer(
        master: &str,
        token: Option<Token>,
        spec: ModelSpec,
        dialer: Dialer,
    ) -> Result<Self, ClientError> {
        let master = dialer.endpoint(master).map_err(|error| ClientError::Address(error.to_string()))?;
        let model = serde_json::to_string(&spec).map_err(|error| ClientError::Declined(error.to_string()))?;
        let layout = Layout::new(spec).map_err(|error| ClientError::Declined(error.to_string()))?;
        let declared = |channel| {
            let mut client = PsMembershipClient::with_interceptor(channel, Token::carried(token.as_ref()));
            let model = master::DeclareModelRequest { model: model.clone() };
            async move { client.declare_model(model).await }
        };
        call_master(&master, declared).await?;
        let (routes, route) = watch::channel(Arc::default());
        let watcher = tokio::spawn(route::watch(master.clone(), token.clone(), routes));
        let (connections, slices, acknowledged) = (Mutex::default(), HashMap::new(), AcknowledgedVersions::default());
        let (versions, connect_failures) = (Versions::default(), Mutex::default());
        Ok(Self {
            layout,
            token,
            route,
            connections,
            connect_failures,
            slices,
            versions,
            acknowledged,
            dialer,
            master,
            watcher,
        })
    }

    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// Waits until a checkpoint has the trained model, where checkpoints are made. Returns false if a rewind has opened data
    /// again meanwhile.
    pub async fn save(&self) -> Result<bool, ClientError> {
        let saved = |channel| {
            let mut client = PsMembershipClient::with_interceptor(channel, Token::carried(self.token.as_ref()));
            async move { client.save_model(master::SaveModelRequest {}).await }
        };
        call_master(&self.master, saved).await.map(|saved| !saved.unfinished)
    }

    /// The versions that servers acknowledged to this client since the last call.
    pub fn take_acknowledged(&mut self) -> AcknowledgedVersions {
        std::mem::take(&mut self.acknowledged)
    }

    /// The current route; waits for the first one.
    async fn route(&self) -> Arc<Route> {
        let mut route = self.route.clone();
        match route.wait_for(|route| route.epoch > 0).await {
            Ok(route) => Arc::clone(&route),
            // The watcher lives as long as the client.
            Err(_) => Arc::default(),
        }
    }

    /// Pauses before a retry, or until there is a newer map. The pause grows with the attempts. Fails if a server keeps
    /// refusing the client.
    async fn pause_before_retry(&self, epoch: u64, attempt: u32) -> Result<(), ClientError> {
        let cause = self.take_connect_failure()?;
        if attempt > 0 && attempt.is_multiple_of(WARN_EVERY) {
            let cause = cause.as_ref().map(Status::message);
            tracing::warn!(map = epoch, attempt, cause, "parameter servers still do not serve some partitions");
        }
        let pause = RETRY_PAUSE * (1 << attempt.min(MAX_DOUBLINGS));
        let mut route = self.route.clone();
        let _ = tokio::time::timeout(pause, route.wait_for(|route| route.epoch > epoch)).await;
        Ok(())
    }

    /// Takes the last connect failure; an error if a server has refused the client for long.
    fn take_connect_failure(&self) -> Result<Option<Status>, ClientError> {
        let mut connect_failures = self.connect_failures.lock();
        let cause = connect_failures.cause.take();
        match cause.as_ref().filter(|status| is_final(status)) {
            None => connect_failures.refused_since = None,
            Some(status) => {
                let since = *connect_failures.refused_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= REFUSAL_GRACE {
                    return Err(ClientError::Refused(status.message().to_owned()));
                }
            }
        }
        Ok(cause)
    }

    /// The connection to a server; a new one if there is none.
    async fn connection(&self, to: &ServerAddress) -> Result<Arc<Connection>, Status> {
        let key = &to.address;
        let known =
            self.connections.lock().get(key).filter(|(server, one)| *server == to.server && one.is_intact()).cloned();
        if let Some((_, known)) = known {
            return Ok(known);
        }
        match self.connect_to(to).await {
            Ok(made) => {
                let made = Arc::new(made);
                self.connect_failures.lock().refused_since = None;
                self.connections.lock().insert(key.clone(), (to.server.clone(), made.clone()));
                Ok(made)
            }
            Err(status) => {
                let status = Status::new(status.code(), format!("the server at {key}: {}", status.message()));
                let mut connect_failures = self.connect_failures.lock();
                if connect_failures.cause.as_ref().is_none_or(|cause| !is_final(cause)) {
                    connect_failures.cause = Some(status.clone());
                }
                Err(status)
            }
        }
    }

    async fn connect_to(&self, to: &ServerAddress) -> Result<Connection, Status> {
        let endpoint = self.dialer.endpoint(&to.address).map_err(|error| Status::unavailable(error.to_string()))?;
        Connection::open(&endpoint, &to.server, self.token.as_ref()).await
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.watcher.abort();
    }
}

/// Calls the master until it replies. Waits for an unreachable master; a refusal is an error.
async fn call_master<A, T>(master: &DialEndpoint, ask: impl Fn(Channel) -> A) -> Result<T, ClientError>
where
    A: Future<Output = Result<tonic::Response<T>, tonic::Status>>,
{
    let mut reconnect = master.reconnect();
    loop {
        reconnect.next_attempt().await;
        if let Some(outage) = reconnect.outage_to_report() {
            tracing::warn!(%master, ?outage, "the master does not reply; will keep trying");
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
