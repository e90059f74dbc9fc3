//! The one job that a master serves: its store, its journal, and who has to be told what.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use flexor_engine::ledger::ObservedNodes;
use flexor_engine::rendezvous::{Cause, MemberId, Place, Rendezvous, World};
use flexor_model::{Generation, Rank};
use flexor_store::aware::{AwareStore, RunId, RunStatus};
use flexor_store::server::Handle;
use flexor_store::service::{Now, Outbox};
use flexor_wire::master::v1 as wire;
use serde::Serialize;
use tokio::sync::watch;

use crate::audience::Audience;
use crate::clock::Clock;
use crate::data::{Data, DatasetStatus};
use crate::evaluations::{Evaluations, EvaluationsStatus};
use crate::journal::{Health, Journal, JournalError};
use crate::pods::{self, Admission, Pods};
use crate::recorder::{Marks, SharedDecisions};
use crate::scores::{ScoreReports, ScoresStatus};
use crate::servers::{Servers, ServersStatus};
use flexor_wire::Token;

/// How many numbers one node may report, and how many reports of nodes are remembered.
const MAX_NODE_METRICS: usize = 64;
const MAX_REPORTING_NODES: usize = 20_000;
const MAX_NODE_EVENTS: usize = 1000;
const MAX_METRIC_NAME: usize = 128;
/// The longest reason and message of an event.
const MAX_EVENT: (usize, usize) = (128, 4096);

/// How long sidecars have to bring back what a master before this one had not written down.
pub(crate) const RECOVERY: Duration = Duration::from_secs(2);

/// Shared by everything that serves the job.
#[derive(Clone)]
pub struct Job(Arc<Inner>);

struct Inner {
    name: String,
    uid: String,
    run: RunId,
    generation: Generation,
    token: Option<Token>,
    store: Handle<AwareStore>,
    data: Data,
    servers: Servers,
    journal: Arc<Journal>,
    marks: Marks,
    durable_seq: watch::Receiver<u64>,
    decisions: SharedDecisions,
    decided: watch::Receiver<u64>,
    clock: Clock,
    reports: Mutex<Reports>,
    evaluations: Evaluations,
    audience: Audience,
    pods: Pods,
    /// The streams of each sidecar: two for a moment, when one breaks and the next has come.
    links: Mutex<HashMap<u64, u32>>,
    sessions: Mutex<Sessions>,
    /// When the sidecars have had time to come back.
    recovered_at: Duration,
}

/// What nodes said about themselves.
#[derive(Debug, Default)]
pub struct Reports {
    /// Numbers, by node and name.
    pub metrics: BTreeMap<String, BTreeMap<String, f64>>,
    /// What happened, oldest first.
    pub events: std::collections::VecDeque<NodeEvent>,
    /// How they learn.
    pub learning: ScoreReports,
}

/// Something that a node said has happened.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeEvent {
    /// When it was said, in microseconds since the Unix epoch.
    pub at: u64,
    /// Who said it.
    pub node: String,
    /// A word.
    pub reason: String,
    /// A sentence.
    pub message: String,
}

/// What `/api/status` shows.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JobStatus {
    /// The job.
    pub job: String,
    /// The life of its journal.
    pub generation: u64,
    /// Whether decisions are written down: `durable`, `memory`, or why not.
    pub journal: String,
    /// Every run.
    pub runs: Vec<RunStatus>,
    /// Every dataset.
    pub datasets: Vec<DatasetStatus>,
    /// The parameter servers, where there are some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub servers: Option<ServersStatus>,
    /// How well the job does, where its workers say so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learning: Option<ScoresStatus>,
    /// Measurements of the model while it is trained, where there were some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evaluations: Option<EvaluationsStatus>,
}

impl Job {
    pub(crate) fn new(
        (name, uid, token): (String, String, Option<Token>),
        (store, data, servers): (Handle<AwareStore>, Data, Servers),
        (journal, marks, durable_seq): (Arc<Journal>, Marks, watch::Receiver<u64>),
        (decisions, decided): (SharedDecisions, watch::Receiver<u64>),
        clock: Clock,
        recovered_at: Duration,
    ) -> Self {
        let run: RunId = name.as_str().into();
        // A master that writes nothing down cannot count its lives; the time of its start orders them well enough.
        let generation = if journal.is_durable() { journal.generation() } else { Generation(clock.wall().0) };
        let reports = Mutex::default();
        Self(Arc::new(Inner {
            name,
            uid,
            run,
            generation,
            token,
            store,
            data,
            servers,
            journal,
            marks,
            durable_seq,
            decisions,
            decided,
            clock,
            reports,
            evaluations: Evaluations::default(),
            audience: Audience::default(),
            pods: Pods::default(),
            links: Mutex::default(),
            sessions: Mutex::default(),
            recovered_at,
        }))
    }

    /// The name of the job.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The life of the journal.
    pub fn generation(&self) -> Generation {
        self.0.generation
    }

    /// The run that the native API means: the one named like the job.
    pub fn run(&self) -> &RunId {
        &self.0.run
    }

    /// The token that calls must carry.
    pub fn token(&self) -> Option<&Token> {
        self.0.token.as_ref()
    }

    /// The journal.
    pub fn journal(&self) -> &Arc<Journal> {
        &self.0.journal
    }

    /// The clock.
    pub fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// The way to the store.
    pub fn store(&self) -> &Handle<AwareStore> {
        &self.0.store
    }

    /// The data.
    pub fn data(&self) -> &Data {
        &self.0.data
    }

    /// The parameter servers.
    pub fn servers(&self) -> &Servers {
        &self.0.servers
    }

    /// Waits until the sidecars of a master before this one have had time to bring back what it had not written down.
    pub async fn recovered(&self) {
        let remaining = self.0.recovered_at.saturating_sub(self.0.clock.now());
        tokio::time::sleep(remaining.min(RECOVERY)).await;
    }

    /// A pod of this life came. Whether it may stay: not, if that life is known to be over. Whoever was the pod before is
    /// out of every world from here on.
    pub fn admit(&self, name: &str, uid: &str) -> bool {
        if !uid.is_empty() && self.with(|store, _, _| store.keyspace().get(&pods::over(uid)).is_some()) {
            return false;
        }
        if let Admission::Successor { of } = self.0.pods.admit(name, uid) {
            self.end_life(&of);
            self.with(|store, now, out| store.node_gone(name, "another pod has its name", now, out));
        }
        true
    }

    /// A pod or node is gone, as somebody says who watches it. Whether anything of that name was known.
    pub fn gone(&self, name: &str, detail: &str) -> bool {
        let known = self.0.pods.is_known(name);
        if let Some(uid) = self.0.pods.forget(name) {
            self.end_life(&uid);
        }
        let members = self.with(|store, now, out| store.node_gone(name, detail, now, out));
        known || members > 0
    }

    /// What a controller observes of the pods that are to be in the world: all of them, each time.
    pub fn observe(&self, observed: &BTreeMap<String, String>) {
        for name in self.0.pods.names().into_iter().filter(|name| !observed.contains_key(name)) {
            self.gone(&name, "its pod is gone or going");
        }
        for (name, uid) in observed {
            self.admit(name, uid);
        }
        let missing = self.with(|store, _, _| store.pods_of_members());
        for pod in missing.into_iter().filter(|pod| !observed.contains_key(&**pod)) {
            self.gone(&pod, "its pod is gone or going");
        }
    }

    fn end_life(&self, uid: &str) {
        self.with(|store, now, out| {
            store.keyspace_mut().set(pods::over(uid), Bytes::new(), out);
            store.settle(now, out);
        });
    }

    /// A node has opened a session; its number.
    pub fn session_begun(&self, owner: &MemberId) -> u64 {
        let mut sessions = self.0.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.count += 1;
        let number = sessions.count;
        sessions.latest.insert(owner.clone(), number);
        number
    }

    /// A session of a node has ended. Whether it was its latest.
    pub fn session_ended(&self, owner: &MemberId, number: u64) -> bool {
        let mut sessions = self.0.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let was_latest = sessions.latest.get(owner) == Some(&number);
        if was_latest {
            sessions.latest.remove(owner);
        }
        was_latest
    }

    /// Whether sidecars may still bring back what a master before this one had not written down.
    pub fn is_recovering(&self) -> bool {
        self.0.clock.now() < self.0.recovered_at
    }

    /// Notes that a sidecar is here, until the guard goes.
    pub fn register_link(&self, link: u64) -> impl Drop + use<> {
        *self.lock_links().entry(link).or_default() += 1;
        LinkGuard { job: self.clone(), link }
    }

    /// The sidecars that are here.
    pub fn links(&self) -> HashSet<u64> {
        self.lock_links().keys().copied().collect()
    }

    fn lock_links(&self) -> MutexGuard<'_, HashMap<u64, u32>> {
        self.0.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with the store.
    pub fn with<R>(&self, act: impl FnOnce(&mut AwareStore, Now, &mut Outbox) -> R) -> R {
        self.0.store.with(act)
    }

    /// What was decided.
    pub fn decisions(&self) -> &SharedDecisions {
        &self.0.decisions
    }

    /// How many decisions there were, as it changes.
    pub fn decided(&self) -> watch::Receiver<u64> {
        self.0.decided.clone()
    }

    /// The last change of a key that survives the end of the machine, as it changes.
    pub fn durable_seq(&self) -> watch::Receiver<u64> {
        self.0.durable_seq.clone()
    }

    /// The last change of a key that survives the end of the machine.
    pub fn durable_mark(&self) -> u64 {
        *self.0.durable_seq.borrow()
    }

    /// Makes the changes of keys up to `seq` durable, and waits until they are. Where nothing is written down, at once.
    pub async fn make_durable(&self, seq: u64) -> Result<(), JournalError> {
        if !self.0.journal.is_durable() {
            return Ok(());
        }
        if let Some(lsn) = self.0.marks.last() {
            self.0.journal.durable(lsn).await?;
        }
        // The mark follows the journal a moment later, so that an answer does not say less than it promises.
        let _ = self.durable_seq().wait_for(|mark| *mark >= seq).await;
        Ok(())
    }

    /// Where a node stands, as it is told. `members` also names everyone.
    pub fn world_for(&self, id: &MemberId, members: bool) -> wire::World {
        let world = self.with(|store, _, _| world_of(store, &self.0.run, id, members));
        wire::World { job: self.0.name.clone(), job_uid: self.0.uid.clone(), ..world }
    }

    /// How the nodes of the run stand, for the data.
    pub(crate) fn nodes(&self) -> ObservedNodes {
        self.with(|store, _, _| {
            let machine = store.machine(&self.0.run);
            ObservedNodes {
                alive: machine.into_iter().flat_map(Rendezvous::members).map(|(id, _)| id.name).collect(),
                round: machine.and_then(Rendezvous::world).map(|world| world.round),
                failed_rounds: machine.map(|machine| machine.failed_rounds().clone()).unwrap_or_default(),
                closed: machine.is_some_and(|machine| machine.closed().is_some()),
            }
        })
    }

    /// What nodes have reported.
    pub fn with_reports<R>(&self, act: impl FnOnce(&mut Reports) -> R) -> R {
        act(&mut self.0.reports.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Measurements of the model while it is trained.
    pub fn evaluations(&self) -> &Evaluations {
        &self.0.evaluations
    }

    /// Whoever shows the job to people.
    pub(crate) fn audience(&self) -> &Audience {
        &self.0.audience
    }

    /// What there is to tell.
    pub fn status(&self) -> JobStatus {
        let mut runs = self.with(|store, _, _| store.status());
        let journal = match (&*self.0.journal.health().borrow(), self.0.journal.is_durable()) {
            (Health::Writable, true) => "durable".to_owned(),
            (Health::Writable, false) => "memory".to_owned(),
            (Health::Full { error, .. } | Health::Ended(error), _) => error.to_string(),
        };
        let (datasets, servers) = (self.0.data.status(), self.0.servers.status());
        if servers.is_some() {
            // Who trains with parameter servers meets nowhere, and waits for nobody.
            runs.retain(|run| run.round.is_some() || !run.members.is_empty() || run.closed);
        }
        let learning = self.with_reports(|reports| reports.learning.status());
        let (job, generation) = (self.0.name.clone(), self.0.generation.0);
        let evaluations = self.0.evaluations.status();
        JobStatus { job, generation, journal, runs, datasets, servers, learning, evaluations }
    }
}

/// The latest session of each node.
#[derive(Debug, Default)]
struct Sessions {
    count: u64,
    latest: HashMap<MemberId, u64>,
}

struct LinkGuard {
    job: Job,
    link: u64,
}

impl Drop for LinkGuard {
    fn drop(&mut self) {
        let mut links = self.job.lock_links();
        if let Some(streams) = links.get_mut(&self.link) {
            *streams -= 1;
            if *streams == 0 {
                links.remove(&self.link);
            }
        }
    }
}

impl Reports {
    /// Takes numbers of a node. Says what is wrong if there are too many.
    pub fn take_metrics(&mut self, node: &str, values: impl IntoIterator<Item = (String, f64)>) -> Result<(), String> {
        if !self.metrics.contains_key(node) && self.metrics.len() >= MAX_REPORTING_NODES {
            return Err(format!("{MAX_REPORTING_NODES} nodes report numbers already"));
        }
        let known = self.metrics.entry(node.to_owned()).or_default();
        for (name, value) in values {
            if name.len() > MAX_METRIC_NAME {
                return Err(format!("the name of a number has at most {MAX_METRIC_NAME} characters"));
            }
            if !known.contains_key(&name) && known.len() >= MAX_NODE_METRICS {
                return Err(format!("a node may report {MAX_NODE_METRICS} numbers"));
            }
            known.insert(name, value);
        }
        Ok(())
    }

    /// Takes an event; the oldest is forgotten when there are too many. Says what is wrong if it is too long.
    pub fn take_event(&mut self, event: NodeEvent) -> Result<(), String> {
        let (reason, message) = MAX_EVENT;
        if event.reason.len() > reason || event.message.len() > message {
            return Err(format!("an event has a reason of at most {reason} and a message of at most {message} bytes"));
        }
        if self.events.len() >= MAX_NODE_EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(event);
        Ok(())
    }
}

fn world_of(store: &AwareStore, run: &RunId, id: &MemberId, members: bool) -> wire::World {
    let Some(machine) = store.machine(run) else {
        return wire::World { place: wire::world::Place::Outside.into(), ..wire::World::default() };
    };
    let world = machine.world();
    let mut place = machine.place_of(id);
    let stands = place == Some(Place::World);
    if place == Some(Place::World) && !store.is_visible(run) {
        place = Some(Place::Joined);
    }
    let in_world = place == Some(Place::World);
    let rank = Rank(store.rank_of(run, id).filter(|_| in_world).unwrap_or(0));
    let text = |cause: &Cause| cause.to_string();
    wire::World {
        place: wire_place(place).into(),
        round: if stands { world.map_or(0, |world| world.round.0) } else { machine.next_round().0 },
        rank: rank.0,
        size: if in_world {
            world.map_or(0, |world| u32::try_from(world.members.len()).unwrap_or(u32::MAX))
        } else {
            0
        },
        leader: world.filter(|_| in_world).map(|world| world.members[0].name.to_string()).unwrap_or_default(),
        restart: machine.restart_wanted().filter(|_| in_world).as_ref().map(text).unwrap_or_default(),
        closed: machine.closed().map(text).unwrap_or_default(),
        members: world
            .filter(|_| members && in_world)
            .map(|world| world.members.iter().map(|member| member.name.to_string()).collect())
            .unwrap_or_default(),
        standing: machine.standing().to_string(),
        first_process: world.filter(|_| in_world).map_or(0, |world| world.processes_of(rank).start),
        processes: world.filter(|_| in_world).map_or(0, World::size),
        run: if in_world { run.to_string() } else { String::new() },
        program_failures: machine.program_failures(),
        survivors: world.filter(|_| in_world).map(World::survivors).unwrap_or_default(),
        min_nodes: machine.settings().min,
        max_nodes: machine.settings().max,
        max_restarts: machine.settings().max_restarts,
        outlives: machine.outlives_changes(),
        job: String::new(),
        job_uid: String::new(),
        too_few: machine.is_too_small(),
    }
}

fn wire_place(place: Option<Place>) -> wire::world::Place {
    match place {
        Some(Place::World) => wire::world::Place::InWorld,
        Some(Place::Joined) => wire::world::Place::Joined,
        Some(Place::Spare) => wire::world::Place::Spare,
        Some(Place::Away) => wire::world::Place::Away,
        None => wire::world::Place::Outside,
    }
}
