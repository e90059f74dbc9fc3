//! A parameter server: its partitions, the clients it answers, and the master whose map it goes by.
//!
//! The master says which partitions are whose ([`planning`]); the server never decides that by itself. Clients pull and
//! push ([`work`]); what is applied to a partition that is kept twice goes to its copy before anybody is answered
//! ([`copying`] and [`links`] send, [`copies`] takes in). Values and how they are updated are [`crate::hosted`]'s.
//!
//! Locks are taken in this order, and never the other way round: `planned`, `steps`, what is on its way to a partition
//! ([`copies`]), the partition's post, the map of links, then the partition itself, the layout or a link. Nothing else is
//! taken under the others (`checkpoints`, `saved`, what a message to a copy leaves out, what is known of the checkpoints'
//! folder). What is read without a lock (`reached`, `rewound`, `epoch`, `wanted_save`) is there so that nobody has to take
//! an earlier one.

mod copies;
mod copying;
mod decode;
mod described;
mod file_thread;
mod links;
mod numbers;
mod planning;
mod post;
mod restoring;
mod saving;
mod session;
mod snapshots;
mod steps;
#[cfg(test)]
mod testing;
mod work;

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use flexor_wire::Token;
use flexor_wire::master::v1 as master;
use flexor_wire::ps::v1::parameter_server_server::ParameterServerServer;
use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::{Notify, mpsc};
use tonic::service::Routes;

use self::copies::Copies;
use self::links::Links;
use self::post::Posts;
pub use self::session::{SessionError, follow_master};
use self::steps::Steps;
use self::work::WorkService;
use crate::addressee::Addressee;
use crate::batch::Pass;
use crate::dial::{Dialer, MAX_MESSAGE};
use crate::hosted::Hosted;

/// How long a master may be away before a server that is to end does not wait for it any more.
const MASTER_AWAY: Duration = Duration::from_secs(1);

/// One life of a server.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerName {
    /// The name, unique in the job.
    pub name: String,
    /// Which life.
    pub incarnation: u64,
}

impl ServerName {
    fn of(server: &master::Server) -> Self {
        Self { name: server.name.clone(), incarnation: server.incarnation }
    }

    fn addressee(&self) -> Addressee {
        Addressee::new(&self.name, self.incarnation)
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// A server; shared by everything that serves.
#[derive(Clone)]
pub struct Server(Arc<Inner>);

struct Inner {
    me: ServerName,
    token: Option<Token>,
    dialer: Dialer,
    /// Made when it is known what the job trains.
    hosted: OnceLock<Arc<Hosted>>,
    /// Told when something of what the master says has changed.
    changed: Notify,
    /// Whether it has a session with its master.
    is_connected: AtomicBool,
    /// Whether it was told to end.
    is_leaving: AtomicBool,
    /// Whether the master has said that it may.
    is_released: AtomicBool,
    posts: Posts,
    links: Links,
    copies: Copies,
    /// The number of the map that it goes by.
    epoch: AtomicU64,
    /// The longest that a partition took nothing while it was handed over.
    longest_freeze_us: AtomicU64,
    /// Where checkpoints lie, once the master has said so.
    checkpoints: Mutex<Option<Arc<Path>>>,
    has_looked: AtomicBool,
    steps: Mutex<Steps>,
    /// How many steps every partition here has taken, since all servers last went back by the map `rewound`.
    reached: AtomicU64,
    rewound: AtomicU64,
    /// Which step of which checkpoint was begun last.
    saved: Mutex<Option<(u64, bool)>>,
    /// Which checkpoint the last plan wants to be written, or sealed; 0: none.
    wanted_save: AtomicU64,
    /// One plan is carried out at a time.
    planned: Mutex<()>,
    reports: mpsc::UnboundedSender<master::from_server::Message>,
}

/// What a server has to tell its master.
pub type Reports = mpsc::UnboundedReceiver<master::from_server::Message>;

impl Server {
    /// A server that keeps nothing yet, and what it will have to say.
    pub fn new(me: ServerName, token: Option<Token>) -> (Self, Reports) {
        Self::with_dialer(me, token, Dialer::default())
    }

    /// The same, with connections of its own.
    pub fn with_dialer(me: ServerName, token: Option<Token>, dialer: Dialer) -> (Self, Reports) {
        let (reports, told) = mpsc::unbounded_channel();
        let inner = Inner {
            me,
            token,
            dialer,
            hosted: OnceLock::new(),
            changed: Notify::new(),
            is_connected: AtomicBool::new(false),
            is_leaving: AtomicBool::new(false),
            is_released: AtomicBool::new(false),
            posts: Posts::default(),
            links: Links::default(),
            copies: Copies::default(),
            epoch: AtomicU64::new(0),
            longest_freeze_us: AtomicU64::new(0),
            checkpoints: Mutex::new(None),
            has_looked: AtomicBool::new(false),
            steps: Mutex::default(),
            reached: AtomicU64::new(0),
            rewound: AtomicU64::new(0),
            saved: Mutex::new(None),
            wanted_save: AtomicU64::new(0),
            planned: Mutex::new(()),
            reports,
        };
        (Self(Arc::new(inner)), told)
    }

    /// Who it is.
    pub fn name(&self) -> &ServerName {
        &self.0.me
    }

    /// Its service, each call checked for the job's token.
    pub fn routes(&self) -> Routes {
        let service = ParameterServerServer::new(WorkService::new(self.clone()))
            .max_decoding_message_size(MAX_MESSAGE)
            .max_encoding_message_size(MAX_MESSAGE);
        let token = self.0.token.clone();
        let check = move |request: tonic::Request<()>| match &token {
            Some(token) => token.check(request),
            None => Ok(request),
        };
        Routes::new(tonic::service::interceptor::InterceptedService::new(service, check))
    }

    /// Records of which no update comes any more.
    pub fn close(&self, closed: &master::ClosedBatches) {
        let Some(hosted) = self.0.hosted.get() else { return };
        let of = |of: &master::ClosedRange| {
            let (dataset, records) = (of.dataset, of.first..of.end);
            let epochs = of.since.unwrap_or(of.epoch)..=of.epoch;
            epochs.map(move |epoch| (Pass { dataset, epoch }, records.clone()))
        };
        hosted.close(&closed.ranges.iter().flat_map(of).collect::<Vec<_>>());
    }

    /// What it holds and has done.
    pub fn load(&self) -> master::ServerLoad {
        let load = self.0.hosted.get().map(|hosted| hosted.load()).unwrap_or_default();
        master::ServerLoad {
            rows: load.rows,
            bytes: load.bytes,
            pulls: load.pulls,
            pushes: load.pushes,
            pulled_rows: load.rows_pulled,
            pushed_rows: load.rows_pushed,
            cpu_us: cpu_us(),
            left_out: load.left_out,
            longest_freeze_us: self.0.longest_freeze_us.load(Ordering::Relaxed),
        }
    }

    /// Waits until it is known what the job trains.
    async fn when_known(&self) {
        self.until(|| self.0.hosted.get().is_some()).await;
    }

    /// It is to end: tells the master, and waits until that has given what it keeps to others, so that it can end without
    /// a loss. Only the master knows what is on its way here. Or until there is no master, as when the whole job ends.
    pub async fn drained(&self) {
        self.0.is_leaving.store(true, Ordering::Release);
        self.report(master::from_server::Message::Leaving(true));
        let is_released = || self.0.is_released.load(Ordering::Acquire);
        loop {
            let is_connected = || self.0.is_connected.load(Ordering::Acquire);
            self.until(|| is_released() || !is_connected()).await;
            let is_back = tokio::time::timeout(MASTER_AWAY, self.until(is_connected)).await;
            if is_released() || is_back.is_err() {
                return;
            }
        }
    }

    /// Waits until what the master says has come to this.
    async fn until(&self, is_so: impl Fn() -> bool) {
        loop {
            let changed = self.0.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if is_so() {
                return;
            }
            changed.await;
        }
    }

    /// The number of the map that it goes by.
    fn epoch(&self) -> u64 {
        self.0.epoch.load(Ordering::Acquire)
    }

    fn report(&self, message: master::from_server::Message) {
        // Nobody listens only when the server ends.
        let _ = self.0.reports.send(message);
    }
}

/// Processor time of this process so far.
fn cpu_us() -> u64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    u64::try_from(used.tv_sec).unwrap_or(0) * 1_000_000 + u64::try_from(used.tv_nsec).unwrap_or(0) / 1_000
}
