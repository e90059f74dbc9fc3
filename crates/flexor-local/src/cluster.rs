//! The cluster: the state of its jobs and pods, and the loop that lets the controller act on them.
//!
//! One task runs the loop ([`Cluster::run`]). Others read the state ([`Cluster::read`]) and hand in API requests, which the
//! loop acts on. Everything is behind one lock; nothing waits while it is held.

mod admission;
mod automatic_plans;
mod chaos;
mod disk_probe;
mod driver;
mod events;
mod executor;
mod job;
mod master_feed;
mod objects;
mod planning;
mod pod;
mod pod_history;
mod pod_renderer;
mod pod_status;
mod requests;
mod scheduler;
mod status_watch;
mod view;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use flexor_client::token_file;
pub use flexor_control::{
    Activity, Evaluations, Learning, PsClusterStatus, PsServerStatus, Records, Scores, Span, Split, Timeline,
    TrainingStatus, Updates,
};
use flexor_control::{ClusterPlanner, MasterFeed};
use flexor_engine::Cause;
use flexor_model::{JobUid, Quantity, UnixTime};
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, watch};

use self::events::Events;
pub use self::job::{JobKey, JobRecord, PlanRecord};
pub use self::pod::{PendingReason, PodRecord};
pub use self::pod_history::PodRun;
pub use self::requests::{ApiError, ApplyOutcome};
pub use self::view::{ClusterView, JobView, PodView};
use crate::limits::{self, MemoryLimits};
use crate::objects::Objects;
use crate::pods::address_pool::AddressPool;
use crate::state_dir::{StateDir, StateDirError, StateDirLock};

#[derive(Debug, Clone)]
pub struct Options {
    pub state_dir: StateDir,
    /// The program that runs pod supervisors and masters: this one.
    pub flexor: PathBuf,
    /// The subcommand of that program which calls [`crate::supervisor::run`].
    pub pod_word: &'static str,
    /// The working directory of containers that name none.
    pub folder: PathBuf,
    /// Environment variables of every container.
    pub base: BTreeMap<String, String>,
    /// Pods end when the process of the cluster does, even if it is killed.
    pub ephemeral: bool,
    /// The CPUs that pods may request together; no limit if none is given.
    pub cpus: Option<Quantity>,
    /// The cluster has no terminal, and goes on when no job is left.
    pub background: bool,
    /// The way to limit the memory of containers.
    pub limits: limits::LimitsMode,
    /// Masters read a file of faults, which the injector of [`crate::chaos`] writes.
    pub chaos: bool,
}

/// An event about a job or one of its pods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterEvent {
    /// The events of a cluster are numbered from 1.
    pub number: u64,
    /// When it happened.
    pub at: UnixTime,
    pub job: JobKey,
    /// None if the event is about the job.
    pub pod: Option<String>,
    pub cause: Cause,
}

/// The extension of a file that cannot be read, once what belonged to it has ended.
const DAMAGED: &str = "damaged";

/// A handle of a laptop cluster.
#[derive(Clone)]
pub struct Cluster(Arc<Inner>);

struct Inner {
    options: Options,
    state: Mutex<State>,
    /// Counts changes that readers can see.
    changed: watch::Sender<u64>,
    /// Wakes the loop.
    notified: Notify,
    /// When this process took it over.
    since: UnixTime,
    limits: MemoryLimits,
    _lock: StateDirLock,
}

#[derive(Default)]
struct State {
    jobs: BTreeMap<JobKey, JobRecord>,
    /// Since when the disk under the state directory is full.
    full_since: Option<UnixTime>,
    /// Files of jobs that cannot be read.
    unreadable_jobs: Vec<PathBuf>,
    /// By uid.
    pods: BTreeMap<String, PodRecord>,
    /// ConfigMaps, Secrets and PriorityClasses.
    objects: Objects,
    addresses: AddressPool,
    events: Events,
    /// The runs of pods that were removed, oldest first.
    removed: VecDeque<PodRun>,
    feeds: BTreeMap<JobKey, MasterFeed>,
    /// Sizes the jobs that share the CPUs.
    planner: ClusterPlanner,
    /// The sockets of slots with a fixed address, by job and slot. They stay open while pods are replaced.
    sockets: BTreeMap<(JobKey, String), Vec<TcpListener>>,
}

impl Cluster {
    /// Takes over a state directory, with the jobs and pods in it.
    ///
    /// # Errors
    ///
    /// Another process has the directory, or the disk refuses.
    pub fn open(options: Options) -> Result<Self, StateDirError> {
        let lock = options.state_dir.lock()?;
        let state_dir = options.state_dir.clone();
        let options =
            Options { state_dir: if options.chaos { state_dir.with_write_faults() } else { state_dir }, ..options };
        let refused = |source: io::Error| StateDirError::Io { path: options.state_dir.path().to_owned(), source };
        let (jobs, unreadable_jobs) = job::read_all(&options.state_dir).map_err(refused)?;
        let mut state = State { jobs, unreadable_jobs, ..State::default() };
        state.objects = Objects::read_all(&options.state_dir).map_err(refused)?;
        state.events = Events::open(&options.state_dir.events(), state.jobs.is_empty()).map_err(refused)?;
        // A job of an earlier version has no token yet.
        for token in state.jobs.values().map(|job| job.token_file(&options.state_dir)).filter(|file| !file.exists()) {
            token_file::create(&token).map_err(refused)?;
        }
        for place in state.jobs.values().flat_map(|job| job.places.values()) {
            state.addresses.mark_taken(place.address);
        }
        for pod in pod::read_all(&options.state_dir).map_err(refused)? {
            // Without its job no pod is started.
            if pod.supervisor.is_none() && !state.jobs.contains_key(&pod.meta.job) {
                continue;
            }
            state.addresses.mark_taken(pod.meta.address);
            state.pods.insert(pod.meta.uid.clone(), pod);
        }
        let limits = limits::detect(options.limits, options.state_dir.path());
        limits::begin(&options.state_dir, &limits).map_err(refused)?;
        let state = Mutex::new(state);
        let (changed, notified) = (watch::Sender::new(0), Notify::new());
        Ok(Self(Arc::new(Inner { options, state, changed, notified, since: now(), limits, _lock: lock })))
    }

    /// The files of jobs that cannot be read.
    pub fn unreadable_jobs(&self) -> Vec<PathBuf> {
        self.lock().unreadable_jobs.clone()
    }

    /// The uids of all jobs, and the folders of their masters' journals.
    pub fn journals(&self) -> Vec<(JobUid, PathBuf)> {
        let journal = |job: &JobRecord| (job.uid.clone(), self.0.options.state_dir.master(&job.uid.to_string()));
        self.lock().jobs.values().map(journal).collect()
    }

    /// The way in which the memory of containers is limited.
    pub fn memory_limits(&self) -> &MemoryLimits {
        &self.0.limits
    }

    /// Changes whenever [`Cluster::read`] may show something new.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changed.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the loop: there is something to decide.
    fn notify(&self) {
        self.0.notified.notify_one();
    }

    /// Tells readers that the state has changed.
    fn publish(&self) {
        self.0.changed.send_modify(|count| *count += 1);
    }
}

impl State {
    /// Records an event about a job, or about a pod of it.
    fn record_event(&mut self, job: &JobKey, pod: Option<String>, cause: Cause) {
        let number = self.events.next_number();
        self.events.add(ClusterEvent { number, at: now(), job: job.clone(), pod, cause });
    }
}

fn now() -> UnixTime {
    SystemTime::now().into()
}

/// A new unique id.
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
