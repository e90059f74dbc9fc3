use std::num::NonZeroU64;

use flexor_engine::ledger::{ClientKind, DatasetSpec, LeaseOutcome, LeaseRequest, StepSpec};
use flexor_engine::ps_membership::Checkpoint;

use super::*;
use crate::data::{AcknowledgedBatches, JournaledData};
use crate::faults::{ActiveFaults, DiskError, Faults};

/// A model without parameters.
const MODEL: &str = r#"{"variables":[],"tables":[],"optimizer":{"kind":"sgd","learningRate":0.1},"seed":1}"#;

/// Servers of a job with checkpoints.
fn servers(journal: &Arc<Journal>, clock: &Clock, refused: &watch::Sender<Option<JournalError>>) -> Servers {
    servers_with_interval(Duration::from_secs(60), journal, clock, refused)
}

fn servers_with_interval(
    every: Duration,
    journal: &Arc<Journal>,
    clock: &Clock,
    refused: &watch::Sender<Option<JournalError>>,
) -> Servers {
    let data = Data::new(JournaledData::default(), Arc::clone(journal), clock.clone(), refused.clone());
    let checkpoints = Checkpoints { folder: "kept".to_owned(), every, keep: 0 };
    let settings = (Settings::default(), Some(checkpoints));
    Servers::new(PsMembership::default(), settings, data, Arc::clone(journal), clock.clone(), refused.clone())
}

/// Trains on some batches of the dataset `d`.
async fn train(data: &Data, batches: u64) {
    let worker = WorkerId::new("w", 1);
    let asked = LeaseRequest { dataset: "d".into(), batches, epoch: None, client: ClientKind::Stateless };
    let LeaseOutcome::Lease(lease) = data.lease(&worker, &asked, Duration::ZERO).await.unwrap() else { panic!() };
    let done = AcknowledgedBatches { grant: lease.grant, batches: lease.batches, skipped_records: 3, step: None };
    data.acknowledge(&worker, done, false).await.unwrap();
}

/// Servers of a synchronous job.
async fn synchronous_servers(refused: &watch::Sender<Option<JournalError>>) -> Servers {
    let servers = servers(&Arc::new(Journal::in_memory()), &Clock::start(Faults::off()), refused);
    let steps = StepSpec { batches: NonZeroU64::MIN, ahead: 0 };
    servers.0.data.register(DatasetSpec::new("d", 100, 10).unwrap().with_steps(Some(steps))).await.unwrap();
    servers
}

/// Servers of a master whose disk may be full.
struct ServersOnDisk {
    servers: Servers,
    faults: Faults,
    _folder: tempfile::TempDir,
}

impl ServersOnDisk {
    fn new() -> Self {
        let (folder, faults) = (tempfile::tempdir().unwrap(), Faults::settable());
        let clock = Clock::start(faults.clone());
        let recovery = Journal::open(
            &folder.path().join("state"),
            &"uid-1".into(),
            crate::journal::LossPolicy::Refuse,
            (&faults, &clock),
        )
        .unwrap();
        let journal = Arc::new(recovery.begin(&[]).unwrap());
        let servers = servers(&journal, &clock, &watch::Sender::new(None));
        Self { servers, faults, _folder: folder }
    }

    /// Fills the journal's queue while the disk takes nothing.
    fn fill_disk(&self) {
        self.faults.set(ActiveFaults { write_error: Some(DiskError::NoSpace), ..ActiveFaults::default() });
        let something = vec![7; 1 << 20];
        while self.servers.0.journal.has_room() {
            self.servers.0.journal.append(&something).unwrap();
        }
    }

    async fn free_disk(&self) {
        self.faults.set(ActiveFaults::default());
        let journal = &self.servers.0.journal;
        journal.durable(journal.last()).await.unwrap();
    }
}

#[tokio::test]
async fn checkpoints_found_on_a_full_disk_are_recorded_once_it_has_room() {
    let full = ServersOnDisk::new();
    let servers = &full.servers;
    let data = &servers.0.data;
    data.register(DatasetSpec::new("d", 100, 10).unwrap()).await.unwrap();
    let ledger = data.position();
    let found = wire::CheckpointsFound {
        latest: Some(3),
        model: MODEL.to_owned(),
        ledger,
        highest: 3,
        damaged: vec!["checkpoint 4 is cut off".to_owned()],
        ..wire::CheckpointsFound::default()
    };
    full.fill_disk();
    assert_eq!(
        servers.record_found_checkpoints(&found).unwrap_err().reason,
        Reason::JournalFull,
        "the server has to report again"
    );
    let declared = tokio::time::timeout(Duration::from_millis(50), servers.declare(MODEL)).await;
    assert!(declared.is_err(), "the declaration waits");

    full.free_disk().await;
    servers.record_found_checkpoints(&found).unwrap();
    servers.declare(MODEL).await.unwrap();
    let state = servers.lock();
    assert_eq!(state.members.checkpoints().last().map(|latest| latest.number), Some(3));
    let status = servers.checkpoint_status(&state).unwrap();
    assert_eq!(
        status.went_on_from.as_deref(),
        Some("the job goes on from checkpoint 3 in kept: 0 of 100 records are done")
    );
    assert_eq!(status.passed_over, found.damaged);
}

#[tokio::test]
async fn a_pod_lost_while_the_disk_was_full_is_removed_once_it_has_room() {
    let full = ServersOnDisk::new();
    let servers = &full.servers;
    let [zero, one] = ["ps-0", "ps-1"].map(|name| ServerId::new(name, 1));
    servers.observe(2, &["ps-0", "ps-1"], &[]).unwrap();
    for server in [&zero, &one] {
        servers.open_session(server, "here:1").unwrap();
    }
    full.fill_disk();
    assert_eq!(servers.observe(1, &["ps-1"], &[]).unwrap_err().reason, Reason::JournalFull);
    full.free_disk().await;
    servers.observe(1, &["ps-1"], &[]).unwrap();
    let registered: Vec<ServerId> = servers.with_members(|members| members.servers().collect());
    assert_eq!(registered, [one], "though its session has not ended");
}

#[tokio::test]
async fn the_first_checkpoint_listing_holds_for_data_and_parameters() {
    let servers = servers(&Arc::new(Journal::in_memory()), &Clock::start(Faults::off()), &watch::Sender::new(None));
    servers.0.data.register(DatasetSpec::new("d", 100, 10).unwrap()).await.unwrap();
    servers.record_found_checkpoints(&wire::CheckpointsFound::default()).unwrap();
    let other = wire::CheckpointsFound { latest: Some(1), ledger: "nonsense".to_owned(), ..Default::default() };
    servers.record_found_checkpoints(&other).unwrap();
    servers.declare(MODEL).await.unwrap();
    assert!(servers.with_members(|members| members.checkpoints().is_empty()));
}

#[tokio::test]
async fn a_checkpoint_with_an_impossible_model_is_refused() {
    for model in ["", "[", &"[".repeat(100_000)] {
        let servers = servers(&Arc::new(Journal::in_memory()), &Clock::start(Faults::off()), &watch::Sender::new(None));
        let found = wire::CheckpointsFound { latest: Some(1), model: model.to_owned(), ..Default::default() };
        servers.record_found_checkpoints(&found).unwrap();
        let refused = servers.declare(MODEL).await.unwrap_err();
        assert_eq!(refused.reason, Reason::ModelInvalid, "{refused}");
        assert!(refused.message.contains("checkpoint 1 does not fit this job"), "{refused}");
    }
}

#[tokio::test]
async fn a_checkpoint_of_another_job_is_refused_for_good() {
    let servers = servers(&Arc::new(Journal::in_memory()), &Clock::start(Faults::off()), &watch::Sender::new(None));
    let found = wire::CheckpointsFound { latest: Some(1), ledger: "nonsense".to_owned(), ..Default::default() };
    servers.record_found_checkpoints(&found).unwrap();
    servers.record_found_checkpoints(&wire::CheckpointsFound::default()).unwrap();
    let refused = servers.declare(MODEL).await.unwrap_err();
    assert!(refused.message.contains("checkpoint 1 does not fit this job"), "{refused}");
}

#[tokio::test]
async fn a_master_that_cannot_rewind_the_data_with_the_servers_ends() {
    let refused = watch::Sender::new(None);
    let servers = synchronous_servers(&refused).await;
    let kept = Checkpoint { number: 1, ledger: "nonsense".into() };
    servers
        .apply_report(|members, now, facts| members.record_found_checkpoints(Some((kept, "{}")), 1, now, facts))
        .unwrap();
    let [zero, one] = ["ps-0", "ps-1"].map(|name| ServerId::new(name, 1));
    servers.observe(2, &["ps-0", "ps-1"], &[]).unwrap();
    for server in [&zero, &one] {
        servers.open_session(server, "here:1").unwrap();
    }
    assert!(servers.with_members(|members| members.map().epoch.0 > 0));
    assert!(refused.borrow().is_none(), "the ledger of a checkpoint is read only in a rewind");

    let decided = servers.observe(1, &["ps-1"], &[]);
    assert!(decided.unwrap_err().message.contains("contradicts the journal"));
    let refused = refused.borrow().clone();
    assert!(matches!(&refused, Some(error @ JournalError::Contradiction(_)) if error.is_final()), "{refused:?}");
}

#[tokio::test]
async fn the_final_checkpoint_is_due_until_complete_and_again_when_damaged() {
    let servers = servers(&Arc::new(Journal::in_memory()), &Clock::start(Faults::off()), &watch::Sender::new(None));
    let (data, zero) = (&servers.0.data, ServerId::new("ps-0", 1));
    data.register(DatasetSpec::new("d", 20, 10).unwrap()).await.unwrap();
    servers.record_found_checkpoints(&wire::CheckpointsFound::default()).unwrap();
    servers.declare(MODEL).await.unwrap();
    servers.observe(1, &["ps-0"], &[]).unwrap();
    servers.open_session(&zero, "here:1").unwrap();
    let report = |number, result| {
        servers.record_checkpoint_report(&zero, wire::CheckpointReport { number, result: Some(result) }).unwrap();
    };
    let save = |number| {
        servers.continue_checkpoint().unwrap();
        assert!(
            servers.with_members(|members| members.checkpoint_order(&zero).is_some_and(|order| order.number == number))
        );
        report(number, wire::checkpoint_report::Result::Part("{}".to_owned()));
        report(number, wire::checkpoint_report::Result::Sealed(true));
    };
    assert!(servers.start_checkpoint().unwrap());
    save(1);
    assert!(!servers.is_final_due(), "there is data left");
    assert!(!servers.save_final_checkpoint().await.unwrap());

    train(data, 2).await;
    assert!(servers.is_final_due());
    save(2);
    assert!(!servers.is_final_due());
    assert!(servers.save_final_checkpoint().await.unwrap());
    // A further checkpoint fails, and nothing is missing.
    assert!(servers.start_checkpoint().unwrap());
    servers.continue_checkpoint().unwrap();
    report(3, wire::checkpoint_report::Result::Failure("no room".to_owned()));
    assert!(!servers.is_final_due());
    assert!(servers.save_final_checkpoint().await.unwrap());

    let damaged = wire::RestoreReport { unreadable: Some(2), damaged: true, ..wire::RestoreReport::default() };
    servers.record_restore_report(&zero, &damaged).unwrap();
    assert!(servers.is_final_due());
    save(4);
    assert!(servers.save_final_checkpoint().await.unwrap());
}

#[tokio::test]
async fn a_checkpoint_is_due_only_after_new_training() {
    let (journal, clock) = (Arc::new(Journal::in_memory()), Clock::start(Faults::off()));
    let servers = servers_with_interval(Duration::ZERO, &journal, &clock, &watch::Sender::new(None));
    let server = ServerId::new("ps-0", 1);
    connect(&servers, &server);
    let saves = || {
        servers.start_checkpoint_when_due().unwrap();
        servers.continue_checkpoint().unwrap();
        let Some(order) = servers.with_members(|members| members.checkpoint_order(&server)) else { return false };
        for result in
            [wire::checkpoint_report::Result::Part("{}".to_owned()), wire::checkpoint_report::Result::Sealed(true)]
        {
            let report = wire::CheckpointReport { number: order.number, result: Some(result) };
            servers.record_checkpoint_report(&server, report).unwrap();
        }
        true
    };
    assert!(saves() && saves(), "no dataset is registered");
    servers.0.data.register(DatasetSpec::new("d", 40, 10).unwrap()).await.unwrap();
    assert!(saves());
    assert!(!saves(), "nothing is trained yet");
    for _ in 0..2 {
        train(&servers.0.data, 1).await;
        assert!(saves());
        assert!(!saves(), "the last checkpoint has everything");
    }
}

/// Connects a server, which is then primary of everything.
fn connect(servers: &Servers, server: &ServerId) {
    let desired = DesiredServers { expected: Some(1), ..DesiredServers::default() };
    servers
        .decide(|members, now, facts| {
            members.record_found_checkpoints(None, 0, now, facts);
            members.set_desired(&desired, now, facts);
            members.connect_server(server, "here", now, facts)?;
            members.declare_model("model", facts)
        })
        .unwrap()
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_server_uses_up_no_attempt() {
    let servers = servers(&Arc::new(Journal::in_memory()), &Clock::start(Faults::off()), &watch::Sender::new(None));
    servers.0.data.register(DatasetSpec::new("d", 0, 10).unwrap()).await.unwrap();
    let last = tokio::spawn({
        let servers = servers.clone();
        async move { servers.save_final_checkpoint().await }
    });
    // Longer than twenty attempts would take.
    tokio::time::sleep(Duration::from_secs(60)).await;
    let server = ServerId::new("ps-0", 1);
    connect(&servers, &server);
    for number in [1, 2] {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
        while servers.lock().members.checkpoint_order(&server).is_none_or(|order| order.number != number) {
            assert!(!last.is_finished() && tokio::time::Instant::now() < deadline, "attempt {number} is not made");
            servers.continue_checkpoint().unwrap();
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let result = Some(wire::checkpoint_report::Result::Failure("the disk is full".to_owned()));
        servers.record_checkpoint_report(&server, wire::CheckpointReport { number, result }).unwrap();
    }
    last.abort();
}
