//! A parameter server: holds partitions, serves clients, replicates, and follows the master's plans.
//!
//! The master decides which server keeps which partition ([`plan_executor`]); the server never decides that itself. Clients
//! pull and push ([`requests`]). A change of a replicated partition goes to its backup before the client is acknowledged
//! ([`replicator`] and [`replication_link`] send, [`backup`] receives). Values and optimizers belong to [`crate::hosted`].
//!
//! Lock order: `plan_lock`, `steps`, a partition's inbox ([`backup`]), its replica state, the map of links, then the
//! partition itself, the layout or a link. Other locks (`checkpoints`, `last_checkpoint_action`, the rejected parts of a
//! message, the knowledge of the checkpoint directory) are leaves. Atomics (`reached`, `rewind_epoch`, `epoch`,
//! `ordered_checkpoint`) exist where a reader would otherwise need an earlier lock.

mod backup;
mod checkpoint_writer;
mod debug_format;
mod decode;
mod file_thread;
mod plan_executor;
mod replica_state;
mod replication_link;
mod replicator;
mod requests;
mod restore;
mod sequence;
mod session;
mod snapshots;
mod steps;
#[cfg(test)]
mod testing;

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use flexor_wire::Token;
use flexor_wire::master::v1 as master;
use flexor_wire::ps::v1::parameter_server_server::ParameterServerServer;
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};
use tonic::service::Routes;

use self::backup::BackupInbox;
use self::replica_state::ReplicaStates;
use self::replication_link::ReplicationLinks;
use self::requests::PsService;
pub use self::session::{SessionError, follow_master};
use self::steps::Steps;
use crate::batch::DatasetEpoch;
use crate::call_target::CallTarget;
use crate::dial::{Dialer, MAX_MESSAGE};
use crate::hosted::HostedPartitions;
use crate::process_usage;

/// A draining server gives up on a master that has been unreachable for this long.
const MASTER_GRACE: Duration = Duration::from_secs(1);

/// One incarnation of a server.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerName {
    /// Unique in the job.
    pub name: String,
    pub incarnation: u64,
}

impl ServerName {
    fn of(server: &master::Server) -> Self {
        Self { name: server.name.clone(), incarnation: server.incarnation }
    }

    fn call_target(&self) -> CallTarget {
        CallTarget::new(&self.name, self.incarnation)
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// A handle to the server, shared by all its tasks.
#[derive(Clone)]
pub struct Server(Arc<Inner>);

struct Inner {
    me: ServerName,
    token: Option<Token>,
    dialer: Dialer,
    /// Set when the model is known.
    hosted: OnceLock<Arc<HostedPartitions>>,
    /// Notified when a plan, a step or the session changes.
    changed: Notify,
    /// The server has a session with its master.
    is_connected: AtomicBool,
    /// The server drains.
    is_leaving: AtomicBool,
    /// The master has released the drained server.
    is_released: AtomicBool,
    replicas: ReplicaStates,
    links: ReplicationLinks,
    inbox: BackupInbox,
    /// Epoch of the current map.
    epoch: AtomicU64,
    /// The longest time that a partition was frozen for a hand-over.
    longest_freeze_us: AtomicU64,
    /// The checkpoint directory, once a plan has named it.
    checkpoints: Mutex<Option<Arc<Path>>>,
    has_listed_checkpoints: AtomicBool,
    steps: Mutex<Steps>,
    /// Steps that every partition here has committed since the last rewind.
    reached: AtomicU64,
    rewind_epoch: AtomicU64,
    /// Number of the checkpoint order that was carried out last, and whether it was to seal.
    last_checkpoint_action: Mutex<Option<(u64, bool)>>,
    /// The checkpoint that the last plan orders to write or to seal; 0: none.
    ordered_checkpoint: AtomicU64,
    /// Held while a plan is carried out.
    plan_lock: Mutex<()>,
    reports: mpsc::UnboundedSender<master::from_server::Message>,
}

/// Reports of a server to its master.
pub type Reports = mpsc::UnboundedReceiver<master::from_server::Message>;

impl Server {
    /// A server without partitions, and the queue of its reports.
    pub fn new(me: ServerName, token: Option<Token>) -> (Self, Reports) {
        Self::with_dialer(me, token, Dialer::default())
    }

    /// The same, with another way to open connections.
    pub fn with_dialer(me: ServerName, token: Option<Token>, dialer: Dialer) -> (Self, Reports) {
        let (reports, receiver) = mpsc::unbounded_channel();
        let inner = Inner {
            me,
            token,
            dialer,
            hosted: OnceLock::new(),
            changed: Notify::new(),
            is_connected: AtomicBool::new(false),
            is_leaving: AtomicBool::new(false),
            is_released: AtomicBool::new(false),
            replicas: ReplicaStates::default(),
            links: ReplicationLinks::default(),
            inbox: BackupInbox::default(),
            epoch: AtomicU64::new(0),
            longest_freeze_us: AtomicU64::new(0),
            checkpoints: Mutex::new(None),
            has_listed_checkpoints: AtomicBool::new(false),
            steps: Mutex::default(),
            reached: AtomicU64::new(0),
            rewind_epoch: AtomicU64::new(0),
            last_checkpoint_action: Mutex::new(None),
            ordered_checkpoint: AtomicU64::new(0),
            plan_lock: Mutex::new(()),
            reports,
        };
        (Self(Arc::new(inner)), receiver)
    }

    pub fn name(&self) -> &ServerName {
        &self.0.me
    }

    /// The gRPC routes; each call is checked for the job's token.
    pub fn routes(&self) -> Routes {
        let service = ParameterServerServer::new(PsService::new(self.clone()))
            .max_decoding_message_size(MAX_MESSAGE)
            .max_encoding_message_size(MAX_MESSAGE);
        let token = self.0.token.clone();
        let check = move |request: tonic::Request<()>| match &token {
            Some(token) => token.check(request),
            None => Ok(request),
        };
        Routes::new(tonic::service::interceptor::InterceptedService::new(service, check))
    }

    /// Closes acknowledged batches: no push of theirs comes again.
    pub fn close_batches(&self, closed: &master::ClosedBatches) {
        let Some(hosted) = self.0.hosted.get() else { return };
        let ranges = |of: &master::ClosedRange| {
            let (dataset, records) = (of.dataset, of.first..of.end);
            let epochs = of.first_epoch.unwrap_or(of.epoch)..=of.epoch;
            epochs.map(move |epoch| (DatasetEpoch { dataset, epoch }, records.clone()))
        };
        hosted.close(&closed.ranges.iter().flat_map(ranges).collect::<Vec<_>>());
    }

    /// Counters and contents, for a load report.
    pub fn load(&self) -> master::ServerLoad {
        let load = self.0.hosted.get().map(|hosted| hosted.load()).unwrap_or_default();
        master::ServerLoad {
            rows: load.rows,
            bytes: load.bytes,
            pulls: load.pulls,
            pushes: load.pushes,
            pulled_rows: load.rows_pulled,
            pushed_rows: load.rows_pushed,
            cpu_us: process_usage::cpu_us(),
            memory: process_usage::memory_bytes(),
            skipped: load.skipped,
            longest_freeze_us: self.0.longest_freeze_us.load(Ordering::Relaxed),
        }
    }

    /// Waits until the model is known.
    async fn wait_for_model(&self) {
        self.wait_until(|| self.0.hosted.get().is_some()).await;
    }

    /// Drains the server: waits until the master has moved its partitions and released it. Only the master knows what is on
    /// its way here. Also returns when there is no master, as at the end of the job.
    pub async fn drain(&self) {
        self.0.is_leaving.store(true, Ordering::Release);
        self.report(master::from_server::Message::Leaving(true));
        let is_released = || self.0.is_released.load(Ordering::Acquire);
        loop {
            let is_connected = || self.0.is_connected.load(Ordering::Acquire);
            self.wait_until(|| is_released() || !is_connected()).await;
            let is_back = tokio::time::timeout(MASTER_GRACE, self.wait_until(is_connected)).await;
            if is_released() || is_back.is_err() {
                return;
            }
        }
    }

    /// Waits until a condition holds; checks it after every notification.
    async fn wait_until(&self, condition: impl Fn() -> bool) {
        loop {
            let changed = self.0.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if condition() {
                return;
            }
            changed.await;
        }
    }

    /// Epoch of the current map.
    fn epoch(&self) -> u64 {
        self.0.epoch.load(Ordering::Acquire)
    }

    fn report(&self, message: master::from_server::Message) {
        // The send fails only when the server shuts down.
        let _ = self.0.reports.send(message);
    }
}
