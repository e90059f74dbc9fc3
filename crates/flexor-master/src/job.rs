//! The one job that a master serves: a shared handle to its state, its journal, and the reports of its nodes.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use flexor_engine::ledger::{ObservedNodes, WorkerId};
use flexor_engine::rendezvous::{Cause, MemberId, MemberState, Rendezvous, RunId, World};
use flexor_model::{Generation, Rank};
use flexor_store::server::Handle;
use flexor_store::service::{Now, Outbox};
use flexor_wire::master::v1 as wire;
use serde::Serialize;
use tokio::sync::watch;

use crate::clock::Clock;
use crate::data::{AcknowledgedBatches, Data, DatasetStatus};
use crate::evaluations::{Evaluations, EvaluationsStatus};
use crate::job_state::JobState;
use crate::journal::{Health, Journal, JournalError, Lsn};
use crate::journal_loss::JournalLoss;
use crate::pods::{self, Admission, Pods};
use crate::recorder::{Marks, SharedDecisions};
use crate::report_delivery::ReportDelivery;
use crate::run_status::RunStatus;
use crate::scores::{ScoreReports, ScoresStatus};
use crate::servers::{Servers, ServersStatus};
use crate::sizing::Sizing;
use flexor_wire::Token;

/// Limits of what nodes report.
const MAX_NODE_METRICS: usize = 64;
const MAX_REPORTING_NODES: usize = 20_000;
const MAX_NODE_EVENTS: usize = 1000;
const MAX_METRIC_NAME: usize = 128;
/// The longest reason and message of an event, in bytes.
const MAX_EVENT: (usize, usize) = (128, 4096);

/// How long sidecars have to bring back changes that the previous master had not journaled.
pub(crate) const RECOVERY: Duration = Duration::from_secs(2);

/// A handle to the job, shared by everything that serves it.
#[derive(Clone)]
pub struct Job(Arc<Inner>);

struct Inner {
    name: String,
    uid: String,
    run: RunId,
    generation: Generation,
    token: Option<Token>,
    state: Handle<JobState>,
    data: Data,
    servers: Servers,
    journal: Arc<Journal>,
    journal_loss: Option<JournalLoss>,
    marks: Marks,
    durable_seq: watch::Receiver<u64>,
    decisions: SharedDecisions,
    decided: watch::Receiver<u64>,
    clock: Clock,
    reports: Mutex<Reports>,
    evaluations: Evaluations,
    report_delivery: ReportDelivery,
    sizing: Sizing,
    pods: Pods,
    /// How many streams each sidecar has: two for a moment, when it reconnects before the old stream has ended.
    links: Mutex<HashMap<u64, u32>>,
    sessions: Mutex<Sessions>,
    /// When the sidecars have had time to reconnect.
    recovered_at: Duration,
}

/// The reports of nodes.
#[derive(Debug, Default)]
pub struct Reports {
    /// Measurements by node and name.
    pub metrics: BTreeMap<String, BTreeMap<String, f64>>,
    /// Events of nodes, oldest first.
    pub events: std::collections::VecDeque<NodeEvent>,
    pub learning: ScoreReports,
    /// What workers use, with the time of the report.
    pub loads: BTreeMap<String, (Duration, wire::WorkerLoad)>,
}

/// An event that a node has reported.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeEvent {
    /// When the master received it, in microseconds since the Unix epoch.
    pub at: u64,
    pub node: String,
    pub reason: String,
    pub message: String,
}

/// The document of `/api/status`.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JobStatus {
    pub job: String,
    /// The generation of the journal.
    pub generation: u64,
    /// Whether decisions are journaled: `durable`, `memory`, or the error of the journal.
    pub journal: String,
    /// What this master could not read of its journal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub journal_loss: Option<String>,
    pub runs: Vec<RunStatus>,
    pub datasets: Vec<DatasetStatus>,
    /// Present if the job has parameter servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub servers: Option<ServersStatus>,
    /// Present if workers have reported quality metrics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learning: Option<ScoresStatus>,
    /// Present if the model was evaluated during training.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evaluations: Option<EvaluationsStatus>,
}

impl Job {
    pub(crate) fn new(
        (name, uid, token): (String, String, Option<Token>),
        (state, data, servers): (Handle<JobState>, Data, Servers),
        (journal, marks, durable_seq): (Arc<Journal>, Marks, watch::Receiver<u64>),
        (decisions, decided): (SharedDecisions, watch::Receiver<u64>),
        clock: Clock,
        (recovered_at, journal_loss): (Duration, Option<JournalLoss>),
    ) -> Self {
        let run: RunId = name.as_str().into();
        // A master without a journal cannot count its generations; the time of its start orders them well enough.
        let generation = if journal.is_durable() { journal.generation() } else { Generation(clock.wall().0) };
        let reports = Mutex::default();
        Self(Arc::new(Inner {
            name,
            uid,
            run,
            generation,
            token,
            state,
            data,
            servers,
            journal,
            journal_loss,
            marks,
            durable_seq,
            decisions,
            decided,
            clock,
            reports,
            evaluations: Evaluations::default(),
            report_delivery: ReportDelivery::default(),
            sizing: Sizing::default(),
            pods: Pods::default(),
            links: Mutex::default(),
            sessions: Mutex::default(),
            recovered_at,
        }))
    }

    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The generation of the journal that this master writes.
    pub fn generation(&self) -> Generation {
        self.0.generation
    }

    /// The run of the native API: it is named like the job.
    pub fn run(&self) -> &RunId {
        &self.0.run
    }

    /// The token that every call must carry, if there is one.
    pub fn token(&self) -> Option<&Token> {
        self.0.token.as_ref()
    }

    pub fn journal(&self) -> &Arc<Journal> {
        &self.0.journal
    }

    /// What this master could not read of its journal.
    pub fn journal_loss(&self) -> Option<&JournalLoss> {
        self.0.journal_loss.as_ref()
    }

    /// Why nothing can be journaled at present.
    pub fn journal_failure(&self) -> Option<String> {
        match &*self.0.journal.health().borrow() {
            Health::Writable => None,
            Health::Full { error, .. } | Health::Ended(error) => Some(error.to_string()),
        }
    }

    pub fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// The handle to the state, for connections that are no sockets.
    pub fn state(&self) -> &Handle<JobState> {
        &self.0.state
    }

    pub fn data(&self) -> &Data {
        &self.0.data
    }

    pub fn servers(&self) -> &Servers {
        &self.0.servers
    }

    /// Acknowledges batches whose updates have these versions. Returns how many records this accounts for, and the LSN that
    /// makes it durable.
    pub async fn acknowledge(
        &self,
        worker: &WorkerId,
        done: impl Into<AcknowledgedBatches>,
        versions: &[wire::AcknowledgedVersions],
        durably: bool,
    ) -> Result<(u64, Lsn), Cause> {
        // First: nobody pushes an acknowledged batch again, so its updates have to be known.
        self.servers().record_acknowledged(versions)?;
        self.data().acknowledge(worker, done, durably).await
    }

    /// Waits until sidecars have had time to bring back changes that the previous master had not journaled.
    pub async fn wait_for_recovery(&self) {
        let remaining = self.0.recovered_at.saturating_sub(self.0.clock.now());
        tokio::time::sleep(remaining.min(RECOVERY)).await;
    }

    /// Admits a pod by its name and uid. Returns false if the pod of this uid has ended. An earlier pod of the same name is
    /// dropped from every world.
    pub fn admit(&self, name: &str, uid: &str) -> bool {
        if !uid.is_empty() && self.with(|state, _, _| state.keyspace().get(&pods::ended_key(uid)).is_some()) {
            return false;
        }
        if let Admission::Replaces { uid } = self.0.pods.admit(name, uid) {
            self.mark_ended(&uid);
            self.with(|state, now, out| state.drop_node(name, "another pod has its name", now, out));
        }
        true
    }

    /// Drops a pod or node that the controller reports as gone. Returns whether the name was known.
    pub fn drop_pod(&self, name: &str, detail: &str) -> bool {
        let known = self.0.pods.is_known(name);
        if let Some(uid) = self.0.pods.forget(name) {
            self.mark_ended(&uid);
        }
        let members = self.with(|state, now, out| state.drop_node(name, detail, now, out));
        known || members > 0
    }

    /// Takes over the complete list of live pods of nodes, by name and uid, as the controller observes it.
    pub fn observe_pods(&self, observed: &BTreeMap<String, String>) {
        for name in self.0.pods.names().into_iter().filter(|name| !observed.contains_key(name)) {
            self.drop_pod(&name, "its pod is gone or going");
        }
        for (name, uid) in observed {
            self.admit(name, uid);
        }
        let members = self.with(|state, _, _| state.pods_of_members());
        for pod in members.into_iter().filter(|pod| !observed.contains_key(&**pod)) {
            self.drop_pod(&pod, "its pod is gone or going");
        }
    }

    fn mark_ended(&self, uid: &str) {
        self.with(|state, now, out| {
            state.keyspace_mut().set(pods::ended_key(uid), Bytes::new(), out);
            state.settle(now, out);
        });
    }

    /// Registers a session of a node. Returns the number of the session.
    pub fn begin_session(&self, owner: &MemberId) -> u64 {
        let mut sessions = self.0.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.count += 1;
        let number = sessions.count;
        sessions.latest.insert(owner.clone(), number);
        number
    }

    /// Removes a session of a node. Returns whether it was the node's latest.
    pub fn end_session(&self, owner: &MemberId, number: u64) -> bool {
        let mut sessions = self.0.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let was_latest = sessions.latest.get(owner) == Some(&number);
        if was_latest {
            sessions.latest.remove(owner);
        }
        was_latest
    }

    /// Whether sidecars may still bring back changes that the previous master had not journaled.
    pub fn is_recovering(&self) -> bool {
        self.0.clock.now() < self.0.recovered_at
    }

    /// Registers a stream of a sidecar until the guard is dropped.
    pub fn register_link(&self, link: u64) -> impl Drop + use<> {
        *self.lock_links().entry(link).or_default() += 1;
        LinkGuard { job: self.clone(), link }
    }

    /// The connected sidecars.
    pub fn links(&self) -> HashSet<u64> {
        self.lock_links().keys().copied().collect()
    }

    fn lock_links(&self) -> MutexGuard<'_, HashMap<u64, u32>> {
        self.0.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a function on the state, under its lock, and delivers the replies.
    pub fn with<R>(&self, act: impl FnOnce(&mut JobState, Now, &mut Outbox) -> R) -> R {
        self.0.state.with(act)
    }

    /// The decisions of the rendezvous, for people.
    pub fn decisions(&self) -> &SharedDecisions {
        &self.0.decisions
    }

    /// Changes with every decision of the rendezvous.
    pub fn decided(&self) -> watch::Receiver<u64> {
        self.0.decided.clone()
    }

    /// The sequence number of the last durable change of a key, as a watch.
    pub fn durable_seq(&self) -> watch::Receiver<u64> {
        self.0.durable_seq.clone()
    }

    /// The sequence number of the last durable change of a key.
    pub fn durable_mark(&self) -> u64 {
        *self.0.durable_seq.borrow()
    }

    /// Waits until the changes of keys up to `seq` are durable. Returns at once without a journal.
    pub async fn make_durable(&self, seq: u64) -> Result<(), JournalError> {
        if !self.0.journal.is_durable() {
            return Ok(());
        }
        if let Some(lsn) = self.0.marks.last() {
            self.0.journal.durable(lsn).await?;
        }
        // The watch follows the journal with a delay. The answer must not carry a smaller number than `seq`.
        let _ = self.durable_seq().wait_for(|mark| *mark >= seq).await;
        Ok(())
    }

    /// The world as a node sees it, with the names of all members if `members` is set.
    pub fn world_for(&self, id: &MemberId, members: bool) -> wire::World {
        let world = self.with(|state, _, _| world_of(state, &self.0.run, id, members));
        wire::World { job: self.0.name.clone(), job_uid: self.0.uid.clone(), ..world }
    }

    /// The nodes of the run, for the ledger.
    pub(crate) fn nodes(&self) -> ObservedNodes {
        self.with(|state, _, _| {
            let machine = state.rendezvous(&self.0.run);
            ObservedNodes {
                alive: machine.into_iter().flat_map(Rendezvous::members).map(|(id, _)| id.name).collect(),
                round: machine.and_then(Rendezvous::world).map(|world| world.round),
                failed_rounds: machine.map(|machine| machine.failed_rounds().clone()).unwrap_or_default(),
                closed: machine.is_some_and(|machine| machine.closed().is_some()),
            }
        })
    }

    /// Runs a function on the reports of nodes.
    pub fn with_reports<R>(&self, act: impl FnOnce(&mut Reports) -> R) -> R {
        act(&mut self.0.reports.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The evaluations of the model during training.
    pub fn evaluations(&self) -> &Evaluations {
        &self.0.evaluations
    }

    pub(crate) fn sizing(&self) -> &Sizing {
        &self.0.sizing
    }

    /// Which urgent reports have reached the controller.
    pub(crate) fn report_delivery(&self) -> &ReportDelivery {
        &self.0.report_delivery
    }

    /// The status of the job for people.
    pub fn status(&self) -> JobStatus {
        let mut runs = self.with(|state, _, _| state.status());
        let journal = self
            .journal_failure()
            .unwrap_or_else(|| if self.0.journal.is_durable() { "durable".to_owned() } else { "memory".to_owned() });
        let journal_loss = self.journal_loss().map(|loss| loss.detail.clone());
        let (datasets, servers) = (self.0.data.status(), self.0.servers.status());
        if servers.is_some() {
            // Workers of parameter servers join no rendezvous: an unused run would look as if it waited for nodes.
            runs.retain(|run| run.round.is_some() || !run.members.is_empty() || run.closed);
        }
        let learning = self.with_reports(|reports| reports.learning.status());
        let (job, generation) = (self.0.name.clone(), self.0.generation.0);
        let evaluations = self.0.evaluations.status();
        JobStatus { job, generation, journal, journal_loss, runs, datasets, servers, learning, evaluations }
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
    /// Takes measurements of a node. The error says which limit they exceed.
    pub fn take_metrics(&mut self, node: &str, values: impl IntoIterator<Item = (String, f64)>) -> Result<(), String> {
        if !self.metrics.contains_key(node) && self.metrics.len() >= MAX_REPORTING_NODES {
            return Err(format!("{MAX_REPORTING_NODES} nodes report metrics already"));
        }
        let known = self.metrics.entry(node.to_owned()).or_default();
        for (name, value) in values {
            if name.len() > MAX_METRIC_NAME {
                return Err(format!("the name of a metric has at most {MAX_METRIC_NAME} characters"));
            }
            if !known.contains_key(&name) && known.len() >= MAX_NODE_METRICS {
                return Err(format!("a node may report {MAX_NODE_METRICS} metrics"));
            }
            known.insert(name, value);
        }
        Ok(())
    }

    /// Takes what a worker uses. One worker too many is not measured.
    pub fn take_load(&mut self, worker: &str, load: wire::WorkerLoad, at: Duration) {
        if self.loads.contains_key(worker) || self.loads.len() < MAX_REPORTING_NODES {
            self.loads.insert(worker.to_owned(), (at, load));
        }
    }

    /// Takes an event and forgets the oldest if there are too many. The error says that it is too long.
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

fn world_of(job: &JobState, run: &RunId, id: &MemberId, members: bool) -> wire::World {
    let Some(machine) = job.rendezvous(run) else {
        return wire::World { state: wire::world::MemberState::Outside.into(), ..wire::World::default() };
    };
    let world = machine.world();
    let decided = machine.state_of(id);
    let has_round = decided == Some(MemberState::InWorld);
    // A world that is not durable yet is not shown: its members still wait.
    let state = if has_round && !job.is_visible(run) { Some(MemberState::Joined) } else { decided };
    let in_world = state == Some(MemberState::InWorld);
    let rank = Rank(job.rank_of(run, id).filter(|_| in_world).unwrap_or(0));
    let text = |cause: &Cause| cause.to_string();
    wire::World {
        state: wire_state(state).into(),
        round: if has_round { world.map_or(0, |world| world.round.0) } else { machine.next_round().0 },
        rank: rank.0,
        size: if in_world {
            world.map_or(0, |world| u32::try_from(world.members.len()).unwrap_or(u32::MAX))
        } else {
            0
        },
        leader: world.filter(|_| in_world).map(|world| world.members[0].name.to_string()).unwrap_or_default(),
        restart: machine.restart_cause().filter(|_| in_world).as_ref().map(text).unwrap_or_default(),
        closed: machine.closed().map(text).unwrap_or_default(),
        members: world
            .filter(|_| members && in_world)
            .map(|world| world.members.iter().map(|member| member.name.to_string()).collect())
            .unwrap_or_default(),
        status: machine.status().to_string(),
        first_process: world.filter(|_| in_world).map_or(0, |world| world.processes_of(rank).start),
        processes: world.filter(|_| in_world).map_or(0, World::size),
        run: if in_world { run.to_string() } else { String::new() },
        program_failures: machine.program_failures(),
        survivors: world.filter(|_| in_world).map(|world| world.survivors().to_vec()).unwrap_or_default(),
        min_nodes: machine.settings().min,
        max_nodes: machine.settings().max,
        max_restarts: machine.settings().max_restarts,
        processes_survive: machine.survives_world_changes(),
        job: String::new(),
        job_uid: String::new(),
        needs_more_nodes: machine.needs_more_nodes(),
    }
}

fn wire_state(state: Option<MemberState>) -> wire::world::MemberState {
    match state {
        Some(MemberState::InWorld) => wire::world::MemberState::InWorld,
        Some(MemberState::Joined) => wire::world::MemberState::Joined,
        Some(MemberState::Standby) => wire::world::MemberState::Standby,
        Some(MemberState::Away) => wire::world::MemberState::Away,
        None => wire::world::MemberState::Outside,
    }
}
