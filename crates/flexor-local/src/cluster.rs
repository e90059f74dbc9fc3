//! The cluster: what there is, and the loop that has the controller decide about it and does what it says.
//!
//! One thread of thought owns everything ([`Cluster::run`]); others look at a copy ([`Cluster::view`]) and hand in wishes.
//! Nothing polls: pods announce themselves by the files of their parents, parents by their end, time by when the
//! controller wants to look again.

mod driver;
mod executor;
mod feed;
mod job;
mod pod;
mod statuses;
mod view;
mod wishes;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use flexor_agent::processes::Shim;
use flexor_engine::Because;
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, watch};

pub use self::job::{JobKey, JobRecord, PlanRecord};
pub use self::pod::PodRecord;
pub use self::view::{Everything, JobView, PodView};
pub use self::wishes::{Taken, WishError};
use crate::home::{Home, HomeError, Tenancy};
use crate::pods::addresses::Addresses;

/// How many events are remembered.
const EVENTS: usize = 2000;

/// How a cluster is run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Its folder.
    pub home: Home,
    /// This program.
    pub flexor: PathBuf,
    /// The word that leads to [`crate::parent::run`].
    pub pod_word: &'static str,
    /// How programs are started.
    pub shim: Shim,
    /// Where programs run that name no folder.
    pub folder: PathBuf,
    /// What every program finds in its environment.
    pub base: BTreeMap<String, String>,
    /// Pods end when the cluster does, however it ends.
    pub ephemeral: bool,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterEvent {
    /// When, since the Unix epoch.
    pub at: Duration,
    /// Of which job.
    pub job: JobKey,
    /// About a pod; else about the job.
    pub pod: Option<String>,
    /// What, and why.
    pub because: Because,
}

/// A laptop cluster.
#[derive(Clone)]
pub struct Cluster(Arc<Inner>);

struct Inner {
    options: Options,
    state: Mutex<State>,
    /// Counts what has changed.
    changed: watch::Sender<u64>,
    /// Rung when there is something to decide.
    bell: Notify,
    _tenancy: Tenancy,
}

/// Everything that is there.
#[derive(Default)]
struct State {
    jobs: BTreeMap<JobKey, JobRecord>,
    /// By unique id.
    pods: BTreeMap<String, PodRecord>,
    addresses: Addresses,
    events: VecDeque<ClusterEvent>,
    /// Where each job's master is told how its pods stand.
    feeds: BTreeMap<JobKey, feed::Feed>,
    /// The sockets of those that keep their place, by job, role and rank: held over restarts of their pods.
    sockets: BTreeMap<(JobKey, String), Vec<TcpListener>>,
}

impl Cluster {
    /// Takes a cluster's folder over, with all that runs in it.
    ///
    /// # Errors
    ///
    /// Somebody else has the folder, or the disk refuses.
    pub fn open(options: Options) -> Result<Self, HomeError> {
        let tenancy = options.home.take()?;
        let refused = |source: io::Error| HomeError::Io { path: options.home.path().to_owned(), source };
        let mut state = State { jobs: job::read_all(&options.home).map_err(refused)?, ..State::default() };
        for place in state.jobs.values().flat_map(|job| job.places.values()) {
            state.addresses.is_taken(place.address);
        }
        for pod in pod::read_all(&options.home).map_err(refused)? {
            state.addresses.is_taken(pod.meta.address);
            state.pods.insert(pod.meta.uid.clone(), pod);
        }
        let state = Mutex::new(state);
        let (changed, bell) = (watch::Sender::new(0), Notify::new());
        Ok(Self(Arc::new(Inner { options, state, changed, bell, _tenancy: tenancy })))
    }

    /// Counts changes of what there is to see.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changed.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There is something to decide.
    fn ring(&self) {
        self.0.bell.notify_one();
    }

    /// There is something to see.
    fn announce(&self) {
        self.0.changed.send_modify(|count| *count += 1);
    }
}

impl State {
    fn tell(&mut self, event: ClusterEvent) {
        if self.events.len() == EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }
}

/// The time, since the Unix epoch.
fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
