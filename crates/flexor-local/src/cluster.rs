//! The cluster: what there is, and the loop that has the controller decide about it and does what it says.
//!
//! One thread of thought owns everything ([`Cluster::run`]); others look at a copy ([`Cluster::view`]) and hand in wishes.
//! Nothing polls: pods announce themselves by the files of their parents, parents by their end, time by when the
//! controller wants to look again.

mod admission;
mod chaos;
mod driver;
mod events;
mod executor;
mod feed;
mod job;
mod master_feed;
mod objects;
mod pod;
mod pod_history;
mod pod_renderer;
mod requests;
mod scheduler;
mod statuses;
mod timeline;
mod training_status;
mod view;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use flexor_engine::Cause;
use flexor_model::{Quantity, UnixTime};
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, watch};

use self::events::Events;
pub use self::job::{JobKey, JobRecord, PlanRecord};
pub use self::pod::{PendingReason, PodRecord};
pub use self::pod_history::PodRun;
pub use self::requests::{ApiError, ApplyOutcome};
pub use self::timeline::{Activity, Span, Split, Timeline};
pub use self::training_status::{
    Evaluations, Learning, PsClusterStatus, PsServerStatus, Records, Scores, TrainingStatus, Updates,
};
pub use self::view::{Everything, JobView, PodView};
use crate::limits::{self, MemoryLimits};
use crate::objects::Objects;
use crate::pods::address_pool::AddressPool;
use crate::state_dir::{StateDir, StateDirError, StateDirLock};

/// How a cluster is run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Its folder.
    pub state_dir: StateDir,
    /// This program.
    pub flexor: PathBuf,
    /// The word that leads to [`crate::supervisor::run`].
    pub pod_word: &'static str,
    /// Where programs run that name no folder.
    pub folder: PathBuf,
    /// What every program finds in its environment.
    pub base: BTreeMap<String, String>,
    /// Pods end when the cluster does, however it ends.
    pub ephemeral: bool,
    /// How many CPUs are given out to pods; without a number, as many as they ask for.
    pub cpus: Option<Quantity>,
    /// It has no terminal, and stays when no job is left.
    pub background: bool,
    /// How the memory of containers is to be limited.
    pub limits: limits::LimitsMode,
    /// Masters follow a file of faults, for a [`crate::chaos::Hand`] to write.
    pub chaos: bool,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterEvent {
    /// Counts the events of the cluster, from 1.
    pub number: u64,
    /// When it happened.
    pub at: UnixTime,
    /// Of which job.
    pub job: JobKey,
    /// About a pod; else about the job.
    pub pod: Option<String>,
    /// What, and why.
    pub cause: Cause,
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
    notified: Notify,
    /// When this process took it over.
    since: UnixTime,
    limits: MemoryLimits,
    _lock: StateDirLock,
}

/// Everything that is there.
#[derive(Default)]
struct State {
    jobs: BTreeMap<JobKey, JobRecord>,
    /// By unique id.
    pods: BTreeMap<String, PodRecord>,
    /// ConfigMaps, Secrets and PriorityClasses.
    objects: Objects,
    addresses: AddressPool,
    events: Events,
    /// Those that are not there any more, oldest first.
    gone: VecDeque<PodRun>,
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
    pub fn open(options: Options) -> Result<Self, StateDirError> {
        let lock = options.state_dir.take()?;
        let state_dir = options.state_dir.clone();
        let options =
            Options { state_dir: if options.chaos { state_dir.with_write_faults() } else { state_dir }, ..options };
        let refused = |source: io::Error| StateDirError::Io { path: options.state_dir.path().to_owned(), source };
        let mut state = State { jobs: job::read_all(&options.state_dir).map_err(refused)?, ..State::default() };
        state.objects = Objects::read_all(&options.state_dir).map_err(refused)?;
        state.events = Events::open(&options.state_dir.events(), state.jobs.is_empty()).map_err(refused)?;
        for place in state.jobs.values().flat_map(|job| job.places.values()) {
            state.addresses.mark_taken(place.address);
        }
        for pod in pod::read_all(&options.state_dir).map_err(refused)? {
            state.addresses.mark_taken(pod.meta.address);
            state.pods.insert(pod.meta.uid.clone(), pod);
        }
        let limits = limits::detect(options.limits, options.state_dir.path());
        limits::begin(&options.state_dir, &limits).map_err(refused)?;
        let state = Mutex::new(state);
        let (changed, notified) = (watch::Sender::new(0), Notify::new());
        Ok(Self(Arc::new(Inner { options, state, changed, notified, since: now(), limits, _lock: lock })))
    }

    /// How the memory of containers is limited.
    pub fn memory_limits(&self) -> &MemoryLimits {
        &self.0.limits
    }

    /// Counts changes of what there is to see.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changed.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There is something to decide.
    fn notify(&self) {
        self.0.notified.notify_one();
    }

    /// There is something to see.
    fn publish(&self) {
        self.0.changed.send_modify(|count| *count += 1);
    }
}

impl State {
    /// Something has happened to a job, or to a pod of it.
    fn tell(&mut self, job: &JobKey, pod: Option<String>, cause: Cause) {
        let number = self.events.next();
        self.events.add(ClusterEvent { number, at: now(), job: job.clone(), pod, cause });
    }
}

fn now() -> UnixTime {
    SystemTime::now().into()
}

/// A name that nothing else ever has.
fn uid() -> String {
    let bytes: Vec<u8> = std::fs::File::open("/dev/urandom")
        .and_then(|mut random| {
            let mut bytes = vec![0; 16];
            io::Read::read_exact(&mut random, &mut bytes)?;
            Ok(bytes)
        })
        .unwrap_or_else(|_| now().as_nanos().to_le_bytes().to_vec());
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
