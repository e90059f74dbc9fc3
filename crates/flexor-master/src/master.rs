//! The lifecycle of a master: it reads the journal, serves its ports, and ends when it is stopped or when another master
//! of the same job takes over.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flexor_engine::ledger::Totals;
use flexor_engine::ps_membership::PsMembership;
use flexor_listen::HttpServer;
use flexor_model::Generation;
use flexor_store::server::{Limits, Server};
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::clock::Clock;
use crate::config::Config;
use crate::data::{Data, DatasetStatus, JournaledData};
use crate::faults::Faults;
use crate::http::{self, AllowedHosts};
use crate::job::{Job, RECOVERY};
use crate::job_state::JobState;
use crate::journal::{Journal, JournalError, Lsn, Recovered, SimulatedDisk};
use crate::journal_loss::JournalLoss;
use crate::recorder::{JournalRecorder, Marks, SharedDecisions};
use crate::records::{self, JournalFact, RecordError};
use crate::servers::Servers;
use crate::{service, sizing};

/// How many bits of a sequence number count within one generation. Later generations have greater numbers.
const SEQ_BITS: u32 = 40;
/// The keepalive interval of gRPC connections. A dead peer is noticed after two to three intervals.
const KEEPALIVE: Duration = Duration::from_secs(2);
/// How often a master that cannot start on a full disk tries again.
const FULL_DISK_RETRY: Duration = Duration::from_millis(200);

/// Why a master cannot start or had to end.
#[derive(Debug, Error)]
pub enum MasterError {
    /// The journal is unusable, or another master has taken over.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The journal has a record that this version cannot read.
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error("cannot serve: {0}")]
    Port(#[from] std::io::Error),
}

/// The open ports of a master. The caller opens them and may keep them open across a restart of the master.
#[derive(Debug)]
pub struct Ports {
    /// gRPC and `/api`.
    pub grpc: TcpListener,
    /// TCPStore.
    pub store: TcpListener,
    /// `/live`, `/ready`, `/metrics`.
    pub http: TcpListener,
}

/// A master that has read its journal and is ready to serve.
pub struct Master {
    job: Job,
    grpc: TcpListener,
    http: TcpListener,
    store: Server<JobState>,
    marks: Marks,
    durable_seq: watch::Sender<u64>,
    refused: watch::Receiver<Option<JournalError>>,
    hosts: Arc<AllowedHosts>,
}

/// The state of a job as it was read from the journal.
struct RecoveredJob {
    clock: Clock,
    state: JobState,
    data: JournaledData,
    members: PsMembership,
    /// The journal was written by an earlier master.
    took_over: bool,
    /// What could not be read of the journal.
    loss: Option<JournalLoss>,
    journal: Journal,
}

impl RecoveredJob {
    /// Reads the journal, and begins the segment that this master writes.
    fn read(config: &Config, faults: &Faults, memory: Option<&SimulatedDisk>) -> Result<Self, MasterError> {
        let clock = Clock::start(faults.clone());
        let mut state = empty_state(config, &clock);
        let (mut data, mut members) = (JournaledData::default(), PsMembership::default());
        let mut took_over = false;
        if let Some(memory) = memory {
            let (journal, recovered) = Journal::simulated(memory);
            replay(&mut state, &mut data, &mut members, &recovered)?;
            took_over = !recovered.facts.is_empty();
            return Ok(Self { clock, state, data, members, took_over, loss: None, journal });
        }
        let mut loss = None;
        let journal = match &config.state {
            None => Journal::in_memory(),
            Some(folder) => {
                let recovery = Journal::open(folder, &config.uid, config.journal_loss, (faults, &clock))?;
                took_over = replay(&mut state, &mut data, &mut members, &recovery.recovered)?;
                loss = recovery.recovered.cut.as_ref().map(|cut| JournalLoss::account(cut, &mut data, &mut members));
                match &loss {
                    Some(JournalLoss { is_damage: true, detail }) => {
                        tracing::error!("the journal is damaged: {detail}");
                    }
                    Some(JournalLoss { is_damage: false, detail }) => tracing::warn!("the journal is torn: {detail}"),
                    None => {}
                }
                recovery.begin(&records::snapshot(&state, &data, &members))?
            }
        };
        // A master whose journal is lost had a predecessor too.
        took_over |= loss.is_some();
        Ok(Self { clock, state, data, members, took_over, loss, journal })
    }
}

impl Master {
    /// Reads the journal and prepares to serve. To be called inside the runtime that will serve.
    pub fn open(config: Config, ports: Ports, faults: &Faults) -> Result<Self, MasterError> {
        let recovered = RecoveredJob::read(&config, faults, None)?;
        Self::with(recovered, config, ports)
    }

    /// As [`Master::open`], with a journal in memory that survives this master.
    pub fn open_remembered(
        config: Config,
        ports: Ports,
        faults: &Faults,
        memory: &SimulatedDisk,
    ) -> Result<Self, MasterError> {
        let recovered = RecoveredJob::read(&config, faults, Some(memory))?;
        Self::with(recovered, config, ports)
    }

    /// As [`Master::open`], but waits while the disk is full, because the supervisor would charge every failed start as a
    /// retry.
    pub async fn open_when_there_is_room(config: Config, ports: Ports, faults: &Faults) -> Result<Self, MasterError> {
        let mut is_logged = false;
        loop {
            match RecoveredJob::read(&config, faults, None) {
                Err(MasterError::Journal(error)) if error.is_disk_full() => {
                    if !is_logged {
                        tracing::warn!(%error, "the disk is full; the master waits for room before it serves");
                    }
                    is_logged = true;
                    tokio::time::sleep(FULL_DISK_RETRY).await;
                }
                recovered => return Self::with(recovered?, config, ports),
            }
        }
    }

    fn with(recovered: RecoveredJob, config: Config, ports: Ports) -> Result<Self, MasterError> {
        let RecoveredJob { clock, mut state, data, members, took_over, loss, journal } = recovered;
        let journal = Arc::new(journal);
        let (durable_seq, durable) = watch::channel(if journal.is_durable() { state.keyspace().last_seq() } else { 0 });
        let decisions = SharedDecisions::default();
        let (recorder, marks) = JournalRecorder::new(Arc::clone(&journal), clock.clone(), Arc::clone(&decisions));
        let (refused, decided) = (recorder.refused(), recorder.decided());
        state.record_with(Box::new(recorder));
        state.resume(first_seq(&journal, &clock), clock.now());

        let Ports { grpc, store: store_port, http } = ports;
        [&grpc, &http].into_iter().try_for_each(flexor_listen::prepare)?;
        let hosts = Arc::new(AllowedHosts::new(grpc.local_addr()?.ip(), &config.hosts));
        let time = clock.clone();
        let time = Arc::new(move || time.now());
        let store = Server::new(store_port, Arc::new(Mutex::new(state)), time, Limits::default())?;
        let recovered_at = if took_over || !journal.is_durable() { clock.now() + RECOVERY } else { Duration::ZERO };
        let names = (config.job.to_string(), config.uid.to_string(), config.token);
        let data = Data::new(data, Arc::clone(&journal), clock.clone(), refused.clone());
        let server_settings = (config.servers, config.checkpoints);
        let servers =
            Servers::new(members, server_settings, data.clone(), Arc::clone(&journal), clock.clone(), refused.clone());
        let written = (journal, marks.clone(), durable);
        let job = Job::new(
            names,
            (store.handle(), data, servers),
            written,
            (decisions, decided),
            clock,
            (recovered_at, loss),
        );
        Ok(Self { job, grpc, http, store, marks, durable_seq, refused: refused.subscribe(), hosts })
    }

    /// The generation of the journal that this master writes.
    pub fn generation(&self) -> Generation {
        self.job.generation()
    }

    pub fn job(&self) -> &Job {
        &self.job
    }

    /// The gRPC services, for callers without a port.
    pub fn routes(&self) -> tonic::service::Routes {
        service::routes(&self.job)
    }

    /// The router of `/api`, for callers without a port.
    pub fn api(&self) -> axum::Router {
        http::api(self.job.clone(), self.hosts.clone())
    }

    /// Serves until `stop` completes or another master has taken over.
    pub async fn serve(self, stop: impl Future<Output = ()>) -> Result<(), MasterError> {
        let Self { job, grpc, http, store, marks, durable_seq, mut refused, hosts } = self;
        let probe_server = HttpServer::probes();
        tokio::select! {
            () = stop => Ok(()),
            () = store.run() => Ok(()),
            () = serve_grpc(&job, &grpc, hosts) => Ok(()),
            () = probe_server.serve(&http, http::probes(job.clone())) => Ok(()),
            error = follow_journal(&job, marks, durable_seq) => Err(error.into()),
            () = run_maintenance(&job) => Ok(()),
            () = sizing::run(&job) => Ok(()),
            () = follow_nodes(&job) => Ok(()),
            () = job.servers().run() => Ok(()),
            Ok(error) = refused.wait_for(Option::is_some) => Err(error.clone().unwrap_or(JournalError::Closed).into()),
        }
    }
}

fn empty_state(config: &Config, clock: &Clock) -> JobState {
    let clock = clock.clone();
    let wall_clock = Box::new(move || i64::try_from(clock.wall().0).unwrap_or(i64::MAX));
    let state = JobState::new(config.settings.clone(), wall_clock);
    if config.plain_store { state.with_plain_store() } else { state }
}

/// Replays the journal into the state, the ledger and the PS membership. Returns whether there was an earlier master.
fn replay(
    state: &mut JobState,
    data: &mut JournaledData,
    members: &mut PsMembership,
    recovered: &Recovered,
) -> Result<bool, RecordError> {
    if let Some(snapshot) = &recovered.snapshot {
        records::restore(state, data, members, snapshot)?;
    }
    for record in recovered.facts.iter().filter(|record| !record.is_empty()) {
        for fact in records::decode(record)? {
            match fact {
                JournalFact::Store(fact) => state.replay(fact),
                JournalFact::Data(fact) => data.ledger.replay(&fact),
                JournalFact::SkippedRecords(counts) => data.skipped_records = counts,
                JournalFact::Servers(fact) => members.replay(&fact),
            }
        }
    }
    Ok(recovered.snapshot.is_some())
}

/// The first sequence number of this master: greater than any of an earlier master, journaled or not.
fn first_seq(journal: &Journal, clock: &Clock) -> u64 {
    if journal.is_durable() { journal.generation().0 << SEQ_BITS } else { clock.wall().0 }
}

async fn serve_grpc(job: &Job, listener: &TcpListener, hosts: Arc<AllowedHosts>) {
    let routes = service::routes(job).into_axum_router().merge(http::api(job.clone(), hosts));
    let server = HttpServer::grpc().with_http1().with_windows(4 << 20, 8 << 20).with_pings(KEEPALIVE, 2 * KEEPALIVE);
    server.serve(listener, routes).await;
}

/// Publishes to the state and the sidecars how far the journal is durable, until the journal ends.
async fn follow_journal(job: &Job, marks: Marks, durable_seq: watch::Sender<u64>) -> JournalError {
    let mut durable = Lsn(0);
    let mut recovered = false;
    loop {
        tokio::select! {
            advanced = job.journal().durable_beyond(durable) => match advanced {
                Ok(advanced) => {
                    durable = advanced;
                    job.with(JobState::journal_advanced);
                }
                Err(error) => return error,
            },
            () = job.wait_for_recovery(), if !recovered => recovered = true,
        }
        // Sequence numbers of this generation are greater than all earlier ones. Published too early, they would make a
        // sidecar discard changes that it alone has kept.
        if recovered && let Some(seq) = marks.durable_up_to(durable) {
            durable_seq.send_replace(seq);
        }
    }
}

/// Passes the nodes of the run to the ledger whenever they change, until the master ends.
async fn follow_nodes(job: &Job) {
    let mut decided = job.decided();
    let mut was_closed = false;
    loop {
        let nodes = job.nodes();
        // The maintenance task retries what the journal does not take at present.
        if let Err(cause) = job.data().observe_nodes(&nodes) {
            tracing::warn!(%cause, "the leases of lost workers are not released yet");
        }
        if nodes.closed && !was_closed {
            report_data(job.data());
        }
        was_closed = nodes.closed;
        if decided.changed().await.is_err() {
            return;
        }
    }
}

/// Logs the accounts of all datasets when the run is over.
fn report_data(data: &Data) {
    for DatasetStatus { spec, totals, .. } in data.status() {
        let Totals { expected, accounted, quarantined, outstanding, repeated_at_most, rewound, .. } = totals;
        if outstanding > 0 {
            tracing::warn!(dataset = %spec.name, outstanding, "the run is over, and records are not accounted for");
        }
        tracing::info!(
            dataset = %spec.name, expected, accounted, quarantined, outstanding, repeated_at_most, rewound,
            "records"
        );
    }
}

/// Runs periodic maintenance: forgets state that only a recovery needs, compacts a long journal into a snapshot, and checks
/// for another master of the job.
async fn run_maintenance(job: &Job) {
    job.wait_for_recovery().await;
    job.with(|state, _, _| state.end_recovery());
    let mut pulse = tokio::time::interval(Duration::from_secs(1));
    loop {
        pulse.tick().await;
        job.journal().check_superseded();
        let live_links = job.links();
        job.with(|state, now, _| state.forget_old_operations(&live_links, now));
        let kept = job.data().tick().and_then(|()| job.data().observe_nodes(&job.nodes()));
        if let Err(cause) = kept {
            tracing::warn!(%cause, "expired leases cannot be released");
        }
        if job.journal().should_compact() {
            // All locks are held, so that no decision falls between the snapshot and the records that it replaces.
            let compact = |state: &JobState| {
                job.servers().with_members(|members| {
                    let snapshot = |data: &JournaledData| records::snapshot(state, data, members);
                    job.data().with_journaled(|data| job.journal().compact(snapshot(data)))
                })
            };
            let compacted = job.with(|state, _, _| compact(state));
            if let Err(error) = compacted {
                tracing::warn!(%error, "the journal cannot be compacted");
            }
        }
    }
}
