//! A master from its start to its end: reads the journal, opens its ports, serves until it is told to stop or another
//! master of the same job takes over.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flexor_engine::ps_membership::PsMembership;
use flexor_engine::shards::Totals;
use flexor_model::Generation;
use flexor_store::aware::{AwareStore, NoRecorder};
use flexor_store::server::{Limits, Server};
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tonic::transport::server::TcpIncoming;

use crate::clock::Clock;
use crate::config::Config;
use crate::data::{Accounts, Data, DatasetStatus};
use crate::faults::Faults;
use crate::http;
use crate::job::{Job, RECOVERY};
use crate::journal::{Journal, JournalError, Lsn, Memory, Recovered};
use crate::recorder::{JournalRecorder, Marks, SharedDecisions};
use crate::records::{self, JournalFact, RecordError};
use crate::servers::Servers;
use crate::service;

/// How many bits of a change's number count within one generation: later generations have greater numbers.
const SEQ_BITS: u32 = 40;
/// A dead peer of ours is noticed after about this long.
const KEEPALIVE: Duration = Duration::from_secs(2);
/// How often a master that cannot begin on a full disk looks for room.
const LOOK_FOR_ROOM: Duration = Duration::from_millis(200);

/// Why a master could not start or had to end.
#[derive(Debug, Error)]
pub enum MasterError {
    /// The journal cannot be used, or another master took over.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The journal holds something that cannot be understood.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A port failed.
    #[error("cannot serve: {0}")]
    Port(#[from] std::io::Error),
    /// The gRPC server failed.
    #[error("cannot serve gRPC: {0}")]
    Grpc(#[from] tonic::transport::Error),
}

/// The open ports of a master. They are opened by whoever starts it, who may hold them over a restart.
#[derive(Debug)]
pub struct Ports {
    /// gRPC and `/api`.
    pub grpc: TcpListener,
    /// TCPStore.
    pub store: TcpListener,
    /// `/live`, `/ready`, `/metrics`.
    pub http: TcpListener,
}

/// A master that has read its journal and can serve.
pub struct Master {
    job: Job,
    grpc: TcpListener,
    http: TcpListener,
    store: Server<AwareStore>,
    marks: Marks,
    durable_seq: watch::Sender<u64>,
    refused: watch::Receiver<Option<JournalError>>,
}

/// What a master knows before it serves.
struct Past {
    clock: Clock,
    store: AwareStore,
    data: Accounts,
    members: PsMembership,
    /// There was a master before.
    took_over: bool,
    journal: Journal,
}

impl Past {
    /// Reads the journal, and begins the part of it that this master writes.
    fn read(config: &Config, faults: &Faults, memory: Option<&Memory>) -> Result<Self, MasterError> {
        let clock = Clock::start(faults.clone());
        let mut store = empty_store(config, &clock);
        let (mut data, mut members) = (Accounts::default(), PsMembership::default());
        let mut took_over = false;
        if let Some(memory) = memory {
            let (journal, recovered) = Journal::remembered(memory);
            replay(&mut store, &mut data, &mut members, &recovered)?;
            took_over = !recovered.facts.is_empty();
            return Ok(Self { clock, store, data, members, took_over, journal });
        }
        let journal = match &config.state {
            None => Journal::in_memory(),
            Some(folder) => {
                let recovery = Journal::open(folder, &config.uid, faults, &clock)?;
                took_over = replay(&mut store, &mut data, &mut members, &recovery.recovered)?;
                recovery.begin(&records::snapshot(&store, &data, &members))?
            }
        };
        Ok(Self { clock, store, data, members, took_over, journal })
    }
}

impl Master {
    /// Reads the journal and prepares everything. To be called inside the runtime that will serve.
    pub fn open(config: Config, ports: Ports, faults: &Faults) -> Result<Self, MasterError> {
        let past = Past::read(&config, faults, None)?;
        Self::with(past, config, ports)
    }

    /// As [`Master::open`], with the journal in memory that outlives this master.
    pub fn open_remembered(
        config: Config,
        ports: Ports,
        faults: &Faults,
        memory: &Memory,
    ) -> Result<Self, MasterError> {
        let past = Past::read(&config, faults, Some(memory))?;
        Self::with(past, config, ports)
    }

    /// As [`Master::open`], but waits for room where the disk is full: whoever starts masters again would count it as a
    /// failure each time.
    pub async fn open_when_there_is_room(config: Config, ports: Ports, faults: &Faults) -> Result<Self, MasterError> {
        let mut is_told = false;
        loop {
            match Past::read(&config, faults, None) {
                Err(MasterError::Journal(error)) if error.is_for_want_of_room() => {
                    if !is_told {
                        tracing::warn!(%error, "waits for room before it serves");
                    }
                    is_told = true;
                    tokio::time::sleep(LOOK_FOR_ROOM).await;
                }
                past => return Self::with(past?, config, ports),
            }
        }
    }

    fn with(past: Past, config: Config, ports: Ports) -> Result<Self, MasterError> {
        let Past { clock, mut store, data, members, took_over, journal } = past;
        let journal = Arc::new(journal);
        let (durable_seq, durable) = watch::channel(if journal.is_durable() { store.keyspace().last_seq() } else { 0 });
        let decisions = SharedDecisions::default();
        let (recorder, marks) = JournalRecorder::new(Arc::clone(&journal), clock.clone(), Arc::clone(&decisions));
        let (refused, decided) = (recorder.refused(), recorder.decided());
        store.record_with(Box::new(recorder));
        store.resume(first_seq(&journal, &clock), clock.now());

        let Ports { grpc, store: store_port, http } = ports;
        let time = clock.clone();
        let time = Arc::new(move || time.now());
        let store = Server::new(store_port, Arc::new(Mutex::new(store)), time, Limits::default())?;
        let recovered_at = if took_over || !journal.is_durable() { clock.now() + RECOVERY } else { Duration::ZERO };
        let names = (config.job.to_string(), config.uid.to_string(), config.token);
        let data = Data::new(data, Arc::clone(&journal), clock.clone(), refused.clone());
        let wishes = (config.servers, config.checkpoints);
        let servers = Servers::new(members, wishes, data.clone(), Arc::clone(&journal), clock.clone(), refused.clone());
        let written = (journal, marks.clone(), durable);
        let job = Job::new(names, (store.handle(), data, servers), written, (decisions, decided), clock, recovered_at);
        Ok(Self { job, grpc, http, store, marks, durable_seq, refused: refused.subscribe() })
    }

    /// The life of the journal that this master is.
    pub fn generation(&self) -> Generation {
        self.job.generation()
    }

    /// The job it serves.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// The gRPC services, to be served without a port.
    pub fn routes(&self) -> tonic::service::Routes {
        service::routes(&self.job)
    }

    /// `/api`, to be asked without a port.
    pub fn api(&self) -> axum::Router {
        http::api(self.job.clone())
    }

    /// Serves until `stop` is done, or until another master has taken over.
    pub async fn serve(self, stop: impl Future<Output = ()>) -> Result<(), MasterError> {
        let Self { job, grpc, http, store, marks, durable_seq, mut refused } = self;
        let probes = axum::serve(http, http::probes(job.clone()));
        tokio::select! {
            () = stop => Ok(()),
            () = store.run() => Ok(()),
            result = serve_grpc(&job, grpc) => Ok(result?),
            result = probes => Ok(result?),
            error = follow_journal(&job, marks, durable_seq) => Err(error.into()),
            () = keep_house(&job) => Ok(()),
            () = follow_nodes(&job) => Ok(()),
            () = job.servers().run() => Ok(()),
            Ok(error) = refused.wait_for(Option::is_some) => Err(error.clone().unwrap_or(JournalError::Closed).into()),
        }
    }
}

fn empty_store(config: &Config, clock: &Clock) -> AwareStore {
    let clock = clock.clone();
    let wall_clock = Box::new(move || i64::try_from(clock.wall().0).unwrap_or(i64::MAX));
    let store = AwareStore::new(config.settings.clone(), Box::new(NoRecorder), wall_clock);
    if config.plain_store { store.plain() } else { store }
}

/// Brings store, ledger and parameter servers to where the journal ends. Whether there was a master before.
fn replay(
    store: &mut AwareStore,
    data: &mut Accounts,
    members: &mut PsMembership,
    recovered: &Recovered,
) -> Result<bool, RecordError> {
    if let Some(cut) = &recovered.cut {
        let (file, offset) = (cut.file.display(), cut.offset);
        if cut.records_follow {
            tracing::error!(%file, offset, bytes = cut.bytes, "the journal is damaged; what follows was not read");
        } else {
            tracing::info!(%file, offset, bytes = cut.bytes, "the journal ends in a record that was being written");
        }
    }
    if let Some(snapshot) = &recovered.snapshot {
        records::restore(store, data, members, snapshot)?;
    }
    for record in recovered.facts.iter().filter(|record| !record.is_empty()) {
        for fact in records::decode(record)? {
            match fact {
                JournalFact::Store(fact) => store.replay(fact),
                JournalFact::Data(fact) => data.shards.replay(&fact),
                JournalFact::LeftOut(counts) => data.left_out = counts,
                JournalFact::Servers(fact) => members.replay(&fact),
            }
        }
    }
    Ok(recovered.snapshot.is_some())
}

/// Changes of this master have greater numbers than any that a master before it made, written down or not.
fn first_seq(journal: &Journal, clock: &Clock) -> u64 {
    if journal.is_durable() { journal.generation().0 << SEQ_BITS } else { clock.wall().0 }
}

async fn serve_grpc(job: &Job, listener: TcpListener) -> Result<(), tonic::transport::Error> {
    // Without this an answer waits for the acknowledgement of the one before it, tens of milliseconds.
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true)).with_keepalive(Some(KEEPALIVE));
    let routes = service::routes(job).into_axum_router().merge(http::api(job.clone()));
    tonic::transport::Server::builder()
        .accept_http1(true)
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(2 * KEEPALIVE))
        .initial_stream_window_size(4 << 20)
        .initial_connection_window_size(8 << 20)
        .add_routes(routes.into())
        .serve_with_incoming(incoming)
        .await
}

/// Tells the store and the sidecars how far the journal is durable, until it ends.
async fn follow_journal(job: &Job, marks: Marks, durable_seq: watch::Sender<u64>) -> JournalError {
    let mut durable = Lsn(0);
    let mut recovered = false;
    loop {
        tokio::select! {
            advanced = job.journal().durable_beyond(durable) => match advanced {
                Ok(advanced) => {
                    durable = advanced;
                    job.with(AwareStore::journal_advanced);
                }
                Err(error) => return error,
            },
            () = job.recovered(), if !recovered => recovered = true,
        }
        // Numbers of this generation are greater than any before: told too early, they would make a sidecar throw away
        // what it alone still knows.
        if recovered && let Some(seq) = marks.durable_up_to(durable) {
            durable_seq.send_replace(seq);
        }
    }
}

/// Tells the data how the nodes stand whenever that changes, until the master ends.
async fn follow_nodes(job: &Job) {
    let mut decided = job.decided();
    let mut was_closed = false;
    loop {
        let nodes = job.nodes();
        // What cannot be written down now is tried again by whoever keeps house.
        if let Err(because) = job.data().follow(&nodes) {
            tracing::warn!(%because, "what lost workers held is not given to others yet");
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

/// What has become of the data of a run that is over.
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

/// Keeps house: forgets what only a recovery needs, replaces the journal by a snapshot whenever it has grown long, and
/// looks out for another master of the job.
async fn keep_house(job: &Job) {
    job.recovered().await;
    job.with(|store, _, _| store.end_recovery());
    let mut pulse = tokio::time::interval(Duration::from_secs(1));
    loop {
        pulse.tick().await;
        job.journal().look_for_successor();
        let live_links = job.links();
        job.with(|store, now, _| store.forget_old_operations(&live_links, now));
        let kept = job.data().keep_house().and_then(|()| job.data().follow(&job.nodes()));
        if let Err(because) = kept {
            tracing::warn!(%because, "nothing can be taken back");
        }
        if job.journal().should_compact() {
            // With all in hand, so that nothing is decided between the snapshot and what it replaces.
            let compact = |store: &AwareStore| {
                job.servers().with_members(|members| {
                    let snapshot = |data: &Accounts| records::snapshot(store, data, members);
                    job.data().with_accounts(|data| job.journal().compact(snapshot(data)))
                })
            };
            let compacted = job.with(|store, _, _| compact(store));
            if let Err(error) = compacted {
                tracing::warn!(%error, "the journal cannot be compacted");
            }
        }
    }
}
