use std::num::NonZeroU64;

use flexor_engine::ledger::{ClientKind, DatasetSpec, LeaseOutcome, LeaseRequest, StepSpec};
use flexor_engine::psmembers::Checkpoint;

use super::*;
use crate::data::{AcknowledgedBatches, JournaledData};
use crate::faults::{ActiveFaults, DiskError, Faults};

/// Servers of a job that makes checkpoints.
fn servers(journal: &Arc<Journal>, clock: &Clock, refused: &watch::Sender<Option<JournalError>>) -> Servers {
    saving_every(Duration::from_secs(60), journal, clock, refused)
}

fn saving_every(
    every: Duration,
    journal: &Arc<Journal>,
    clock: &Clock,
    refused: &watch::Sender<Option<JournalError>>,
) -> Servers {
    let data = Data::new(JournaledData::default(), Arc::clone(journal), clock.clone(), refused.clone());
    let checkpoints = Checkpoints { folder: "kept".to_owned(), every, keep: 0 };
    let wishes = (Settings::default(), Some(checkpoints));
    Servers::new(PsMembers::default(), wishes, data, Arc::clone(journal), clock.clone(), refused.clone())
}

/// Learns some of the dataset `d`.
async fn learn(data: &Data, batches: u64) {
    let worker = WorkerId::new("w", 1);
    let asked = LeaseRequest { dataset: "d".into(), batches, epoch: None, client: ClientKind::Stateless };
    let LeaseOutcome::Lease(lease) = data.lease(&worker, &asked, Duration::ZERO).await.unwrap() else { panic!() };
    let done = AcknowledgedBatches { grant: lease.grant, batches: lease.batches, skipped_records: 3, step: None };
    data.acknowledge(&worker, done, false).await.unwrap();
}

/// Servers of a job that trains in steps.
async fn in_steps(refused: &watch::Sender<Option<JournalError>>) -> Servers {
    let servers = servers(&Arc::new(Journal::in_memory()), &Clock::start(Faults::off()), refused);
    let steps = StepSpec { batches: NonZeroU64::MIN, ahead: 0 };
    servers.0.data.register(DatasetSpec::new("d", 100, 10).unwrap().with_steps(Some(steps))).await.unwrap();
    servers
}

/// Servers of a master whose disk may have no room.
struct OnDisk {
    servers: Servers,
    faults: Faults,
    _folder: tempfile::TempDir,
}

impl OnDisk {
    fn new() -> Self {
        let (folder, faults) = (tempfile::tempdir().unwrap(), Faults::settable());
        let clock = Clock::start(faults.clone());
        let recovery = Journal::open(&folder.path().join("state"), &"uid-1".into(), &faults, &clock).unwrap();
        let journal = Arc::new(recovery.begin(&[]).unwrap());
        let servers = servers(&journal, &clock, &watch::Sender::new(None));
        Self { servers, faults, _folder: folder }
    }

    /// Nothing more is taken: as much waits already as may.
    fn disk_is_full(&self) {
        self.faults.set(ActiveFaults { write_error: Some(DiskError::NoSpace), ..ActiveFaults::default() });
        let something = vec![7; 1 << 20];
        while self.servers.0.journal.has_room() {
            self.servers.0.journal.append(&something).unwrap();
        }
    }

    async fn disk_has_room(&self) {
        self.faults.set(ActiveFaults::default());
        let journal = &self.servers.0.journal;
        journal.durable(journal.last()).await.unwrap();
    }
}

#[tokio::test]
async fn what_is_found_while_the_disk_is_full_is_taken_when_it_has_room() {
    let full = OnDisk::new();
    let servers = &full.servers;
    let data = &servers.0.data;
    data.register(DatasetSpec::new("d", 100, 10).unwrap()).await.unwrap();
    let ledger = data.position();
    let found = wire::CheckpointsFound {
        latest: Some(3),
        model: "{}".to_owned(),
        ledger,
        highest: 3,
        damaged: vec!["checkpoint 4 is cut off".to_owned()],
        ..wire::CheckpointsFound::default()
    };
    full.disk_is_full();
    assert_eq!(servers.found(&found).unwrap_err().reason, Reason::JournalFull, "it is to be said again");
    let declared = tokio::time::timeout(Duration::from_millis(50), servers.declare("{}")).await;
    assert!(declared.is_err(), "nothing is refused, and nothing has begun");

    full.disk_has_room().await;
    servers.found(&found).unwrap();
    servers.declare("{}").await.unwrap();
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
async fn a_pod_that_went_while_the_disk_was_full_is_gone_when_it_has_room() {
    let full = OnDisk::new();
    let servers = &full.servers;
    let [zero, one] = ["ps-0", "ps-1"].map(|name| ServerId::new(name, 1));
    servers.observe(2, &["ps-0", "ps-1"], &[]).unwrap();
    for server in [&zero, &one] {
        servers.session_begun(server, "here:1").unwrap();
    }
    full.disk_is_full();
    assert_eq!(servers.observe(1, &["ps-1"], &[]).unwrap_err().reason, Reason::JournalFull);
    full.disk_has_room().await;
    servers.observe(1, &["ps-1"], &[]).unwrap();
    let present: Vec<ServerId> = servers.with_members(|members| members.present().collect());
    assert_eq!(present, [one], "though its session has not ended");
}

#[tokio::test]
async fn the_first_word_of_what_lies_in_the_folder_holds_for_data_and_parameters() {
    let servers = servers(&Arc::new(Journal::in_memory()), &Clock::start(Faults::off()), &watch::Sender::new(None));
    servers.0.data.register(DatasetSpec::new("d", 100, 10).unwrap()).await.unwrap();
    servers.found(&wire::CheckpointsFound::default()).unwrap();
    let other = wire::CheckpointsFound { latest: Some(1), ledger: "nonsense".to_owned(), ..Default::default() };
    servers.found(&other).unwrap();
    servers.declare("{}").await.unwrap();
    assert!(servers.with_members(|members| members.checkpoints().is_empty()));
}

#[tokio::test]
async fn a_checkpoint_that_does_not_fit_is_refused_for_good() {
    let servers = servers(&Arc::new(Journal::in_memory()), &Clock::start(Faults::off()), &watch::Sender::new(None));
    let found = wire::CheckpointsFound { latest: Some(1), ledger: "nonsense".to_owned(), ..Default::default() };
    servers.found(&found).unwrap();
    servers.found(&wire::CheckpointsFound::default()).unwrap();
    let refused = servers.declare("{}").await.unwrap_err();
    assert!(refused.message.contains("checkpoint 1 does not fit this job"), "{refused}");
}

#[tokio::test]
async fn a_master_ends_that_cannot_take_the_data_back_with_the_servers() {
    let refused = watch::Sender::new(None);
    let servers = in_steps(&refused).await;
    let kept = Checkpoint { number: 1, ledger: "nonsense".into() };
    servers.report(|members, now, facts| members.found(Some((kept, "{}")), 1, now, facts)).unwrap();
    let [zero, one] = ["ps-0", "ps-1"].map(|name| ServerId::new(name, 1));
    servers.observe(2, &["ps-0", "ps-1"], &[]).unwrap();
    for server in [&zero, &one] {
        servers.session_begun(server, "here:1").unwrap();
    }
    assert!(servers.with_members(|members| members.map().epoch.0 > 0));
    assert!(refused.borrow().is_none(), "what is read from a checkpoint is not what its data says");

    let decided = servers.observe(1, &["ps-1"], &[]);
    assert!(decided.unwrap_err().message.contains("contradicts the journal"));
    let refused = refused.borrow().clone();
    assert!(matches!(&refused, Some(error @ JournalError::Contradiction(_)) if error.is_final()), "{refused:?}");
}

#[tokio::test]
async fn the_last_checkpoint_is_due_until_one_has_everything_and_again_when_that_is_spoiled() {
    let servers = servers(&Arc::new(Journal::in_memory()), &Clock::start(Faults::off()), &watch::Sender::new(None));
    let (data, zero) = (&servers.0.data, ServerId::new("ps-0", 1));
    data.register(DatasetSpec::new("d", 20, 10).unwrap()).await.unwrap();
    servers.found(&wire::CheckpointsFound::default()).unwrap();
    servers.declare("{}").await.unwrap();
    servers.observe(1, &["ps-0"], &[]).unwrap();
    servers.session_begun(&zero, "here:1").unwrap();
    let says = |number, result| servers.save_report(&zero, wire::SaveReport { number, result: Some(result) }).unwrap();
    let save = |number| {
        servers.go_on_saving().unwrap();
        assert!(servers.with_members(|members| members.save_order(&zero).is_some_and(|order| order.number == number)));
        says(number, wire::save_report::Result::Part("{}".to_owned()));
        says(number, wire::save_report::Result::Sealed(true));
    };
    assert!(servers.begin_saving().unwrap());
    save(1);
    assert!(!servers.is_end_due(), "there is data to learn");
    assert!(!servers.save_at_last().await.unwrap());

    learn(data, 2).await;
    assert!(servers.is_end_due());
    save(2);
    assert!(!servers.is_end_due());
    assert!(servers.save_at_last().await.unwrap());
    // One more than there need be comes to nothing, and nothing is missing for that.
    assert!(servers.begin_saving().unwrap());
    servers.go_on_saving().unwrap();
    says(3, wire::save_report::Result::Failure("no room".to_owned()));
    assert!(!servers.is_end_due());
    assert!(servers.save_at_last().await.unwrap());

    let spoiled = wire::BeginReport { unreadable: Some(2), damaged: true, ..wire::BeginReport::default() };
    servers.begin_report(&zero, &spoiled).unwrap();
    assert!(servers.is_end_due());
    save(4);
    assert!(servers.save_at_last().await.unwrap());
}

#[tokio::test]
async fn a_checkpoint_is_due_only_when_something_was_learnt_or_may_have_been() {
    let (journal, clock) = (Arc::new(Journal::in_memory()), Clock::start(Faults::off()));
    let servers = saving_every(Duration::ZERO, &journal, &clock, &watch::Sender::new(None));
    let server = ServerId::new("ps-0", 1);
    comes(&servers, &server);
    let saves = || {
        servers.save_when_due().unwrap();
        servers.go_on_saving().unwrap();
        let Some(order) = servers.with_members(|members| members.save_order(&server)) else { return false };
        for result in [wire::save_report::Result::Part("{}".to_owned()), wire::save_report::Result::Sealed(true)] {
            let report = wire::SaveReport { number: order.number, result: Some(result) };
            servers.save_report(&server, report).unwrap();
        }
        true
    };
    assert!(saves() && saves(), "nobody has told of any data");
    servers.0.data.register(DatasetSpec::new("d", 40, 10).unwrap()).await.unwrap();
    assert!(saves());
    assert!(!saves(), "nothing is learnt yet");
    for _ in 0..2 {
        learn(&servers.0.data, 1).await;
        assert!(saves());
        assert!(!saves(), "the last one has all of it");
    }
}

/// Somebody keeps everything.
fn comes(servers: &Servers, server: &ServerId) {
    let wanted = Wanted { expected: Some(1), ..Wanted::default() };
    servers
        .decide(|members, now, facts| {
            members.found(None, 0, now, facts);
            members.follow(&wanted, now, facts);
            members.came(server, "here", now, facts)?;
            members.declare("model", facts)
        })
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn waiting_for_somebody_who_can_write_uses_up_no_attempt() {
    let servers = servers(&Arc::new(Journal::in_memory()), &Clock::start(Faults::off()), &watch::Sender::new(None));
    servers.0.data.register(DatasetSpec::new("d", 0, 10).unwrap()).await.unwrap();
    let last = tokio::spawn({
        let servers = servers.clone();
        async move { servers.save_at_last().await }
    });
    // As long as twenty attempts would take, if they were any.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let server = ServerId::new("ps-0", 1);
    comes(&servers, &server);
    for number in [1, 2] {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
        while servers.lock().members.save_order(&server).is_none_or(|order| order.number != number) {
            assert!(!last.is_finished() && tokio::time::Instant::now() < deadline, "attempt {number} is not made");
            servers.go_on_saving().unwrap();
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let result = Some(wire::save_report::Result::Failure("the disk is full".to_owned()));
        servers.save_report(&server, wire::SaveReport { number, result }).unwrap();
    }
    last.abort();
}
