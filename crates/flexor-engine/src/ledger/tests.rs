//! Scenarios of the ledger; each test is named after its claim.

use super::*;

const BATCH: u64 = 10;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn worker(name: &str) -> WorkerId {
    WorkerId::new(name, 0)
}

/// A ledger with a journal and a clock that the test advances.
struct Story {
    ledger: Ledger,
    journal: Vec<Fact>,
    now: Duration,
}

impl Story {
    /// One dataset `d` in batches of ten.
    fn of(records: u64, epochs: Option<u32>) -> Self {
        let mut story = Story { ledger: Ledger::new(Settings::default()), journal: Vec::new(), now: seconds(1) };
        story.register(records, epochs).unwrap();
        story
    }

    fn register(&mut self, records: u64, epochs: Option<u32>) -> Result<(), Cause> {
        let spec = DatasetSpec::new("d", records, BATCH).unwrap().with_epochs(epochs);
        self.ledger.register(spec, &mut self.journal)
    }

    fn request(
        &mut self,
        name: &str,
        batches: u64,
        epoch: Option<u32>,
        client: ClientKind,
    ) -> Result<LeaseOutcome, Cause> {
        let request = LeaseRequest { dataset: "d".into(), batches, epoch, client };
        self.ledger.lease(&worker(name), &request, self.now, &mut self.journal)
    }

    fn lease(&mut self, name: &str, batches: u64) -> Lease {
        match self.request(name, batches, None, ClientKind::Resuming).unwrap() {
            LeaseOutcome::Lease(lease) => lease,
            other => panic!("{name} got {other:?}"),
        }
    }

    fn waits(&mut self, name: &str) -> Reason {
        match self.request(name, 1, None, ClientKind::Resuming).unwrap() {
            LeaseOutcome::Wait(cause) => cause.reason,
            other => panic!("{name} got {other:?}"),
        }
    }

    fn acknowledge(&mut self, name: &str, lease: &Lease) -> Result<u64, Reason> {
        let done = self.ledger.acknowledge(&worker(name), lease.grant, lease.batches, self.now, &mut self.journal);
        done.map_err(|cause| cause.reason)
    }

    /// Advances the clock by whole seconds, with a tick each.
    fn pass(&mut self, seconds_more: u64) {
        for _ in 0..seconds_more {
            self.now += seconds(1);
            self.ledger.tick(self.now, &mut self.journal);
        }
    }

    fn end(&mut self, name: &str, end: WorkerEnd) {
        self.ledger.worker_ended(&worker(name), end, self.now, &mut self.journal);
    }

    fn totals(&self) -> Totals {
        self.ledger.totals("d").unwrap()
    }

    /// The master restarts with the first `kept` facts.
    fn restart(&mut self, kept: usize) {
        self.journal.truncate(kept);
        let mut ledger = Ledger::new(Settings::default());
        self.journal.iter().for_each(|fact| ledger.replay(fact));
        self.ledger = ledger.resume(Settings::default(), self.now);
    }
}

#[test]
fn a_repeated_acknowledgement_is_known_from_its_worker_and_refused_from_others() {
    let mut story = Story::of(95, None);
    let (done, open) = (story.lease("a", 1), story.lease("b", 1));
    assert_eq!(story.acknowledge("a", &done), Ok(BATCH));
    assert_eq!(story.acknowledge("a", &done), Ok(0));
    assert_eq!(story.acknowledge("b", &done), Err(Reason::LeaseVoid));
    assert_eq!(story.acknowledge("a", &open), Err(Reason::LeaseVoid));
    assert_eq!(story.totals().accounted, BATCH);
}

#[test]
fn every_record_of_every_epoch_is_leased_once_and_accounted_for() {
    let mut story = Story::of(95, Some(2));
    let mut records = 0;
    while let LeaseOutcome::Lease(lease) = story.request("a", 3, None, ClientKind::Resuming).unwrap() {
        records += story.acknowledge("a", &lease).unwrap();
    }
    assert_eq!(records, 190);
    let totals = story.totals();
    assert_eq!((totals.accounted, totals.outstanding, totals.epochs_finished), (190, 0, 2));
    assert!(story.ledger.is_finished("d"));
}

#[test]
fn an_empty_dataset_is_finished_at_once() {
    let mut story = Story::of(0, None);
    assert_eq!(story.request("a", 1, None, ClientKind::Resuming), Ok(LeaseOutcome::Finished));
    assert_eq!(story.totals(), Totals::default());
}

#[test]
fn a_dataset_that_has_shrunk_is_refused_and_the_same_one_is_not() {
    let mut story = Story::of(95, Some(1));
    assert_eq!(story.register(95, Some(1)), Ok(()));
    let refused = story.register(94, Some(1)).unwrap_err();
    assert_eq!(refused.reason, Reason::DatasetChanged);
    let message = "d is registered with 95 records, batches of 10, 1 epoch, in order, not with 94 records, batches of 10, \
                1 epoch, in order; register changed data under another name";
    assert_eq!(refused.message, message);
}

#[test]
fn the_batches_of_a_lost_worker_go_to_others() {
    let mut story = Story::of(30, Some(1));
    let first = story.lease("a", 2);
    story.end("a", WorkerEnd::Lost);
    assert_eq!(story.totals().repeated_at_most, 20);
    let again = story.lease("b", 2);
    assert_eq!(again.batches, first.batches, "the same batches");
    assert_eq!(story.acknowledge("a", &first), Err(Reason::LeaseVoid), "too late");
    assert_eq!(story.acknowledge("b", &again), Ok(20));
}

#[test]
fn an_acknowledgement_counts_once_however_often_it_comes() {
    let mut story = Story::of(30, Some(1));
    let lease = story.lease("a", 2);
    assert_eq!(story.acknowledge("a", &lease), Ok(20));
    assert_eq!(story.acknowledge("a", &lease), Ok(0));
    assert_eq!(story.totals().accounted, 20);
}

#[test]
fn nothing_is_acknowledged_that_was_not_leased() {
    let mut story = Story::of(1000, Some(1));
    let lease = story.lease("a", 1);
    let more = Lease { batches: Batches::new(lease.batches.first, 50), ..lease.clone() };
    assert_eq!(story.acknowledge("a", &more), Err(Reason::LeaseVoid));
    assert_eq!(story.acknowledge("b", &lease), Err(Reason::LeaseVoid), "another's");
    let nothing = Lease { batches: Batches::new(0, 0), ..lease };
    assert_eq!(story.acknowledge("a", &nothing), Err(Reason::LeaseVoid));
    assert_eq!(story.totals().accounted, 0);
}

#[test]
fn part_of_a_lease_can_be_acknowledged_and_the_rest_released() {
    let mut story = Story::of(100, Some(1));
    let lease = story.lease("a", 5);
    let two = Lease { batches: Batches::new(lease.batches.first, 2), ..lease.clone() };
    assert_eq!(story.acknowledge("a", &two), Ok(20));
    story.ledger.release(&worker("a"), lease.grant, lease.batches, story.now, &mut story.journal).unwrap();
    assert_eq!(story.totals().repeated_at_most, 0, "released batches were not used");
    assert_eq!(story.lease("b", 3).batches, Batches::new(2, 3));
}

#[test]
fn a_worker_that_makes_no_progress_loses_its_lease_after_three_times_its_batch_time() {
    let mut story = Story::of(100_000, Some(1));
    let lease = story.lease("a", 1);
    story.now += seconds(2);
    story.acknowledge("a", &lease).unwrap();
    for _ in 0..12 {
        let lease = story.lease("a", 1);
        for _ in 0..8 {
            story.now += seconds(1);
            story.ledger.tick(story.now, &mut story.journal);
        }
        story.acknowledge("a", &lease).expect("eight seconds are less than ten");
    }
    let slow = story.lease("a", 1);
    for _ in 0..30 {
        story.now += seconds(1);
        story.ledger.tick(story.now, &mut story.journal);
    }
    assert_eq!(story.acknowledge("a", &slow), Err(Reason::LeaseVoid), "three times eight seconds are over");
}

#[test]
fn the_clock_stands_still_while_the_master_is_away() {
    let mut story = Story::of(1000, Some(1));
    let lease = story.lease("a", 1);
    story.acknowledge("a", &lease).unwrap();
    let lease = story.lease("a", 1);
    story.now += seconds(3600);
    story.ledger.tick(story.now, &mut story.journal);
    assert_eq!(story.acknowledge("a", &lease), Ok(10));
}

#[test]
fn grants_are_in_doubt_after_a_restart_until_the_worker_resumes() {
    let mut story = Story::of(100, Some(1));
    let done = story.lease("a", 1);
    let open = story.lease("a", 1);
    let kept = story.journal.len();
    story.acknowledge("a", &done).unwrap();
    story.restart(kept);
    assert!(story.totals().in_doubt >= 20, "{:?}", story.totals());
    let refused = story.request("a", 1, None, ClientKind::Resuming).unwrap_err();
    assert_eq!(refused.reason, Reason::WorkerInDoubt);

    let (holds, acknowledged) = ([(open.grant, open.batches)], [(done.grant, done.batches)]);
    let void = story.ledger.resume_worker(&worker("a"), &holds, &acknowledged, story.now, &mut story.journal);
    assert_eq!(void, Ok(Vec::new()));
    assert_eq!((story.totals().accounted, story.totals().in_doubt), (10, 0));
    assert_eq!(story.acknowledge("a", &open), Ok(10));
}

#[test]
fn batches_in_doubt_wait_for_their_worker_and_are_free_when_it_is_lost() {
    let mut story = Story::of(20, Some(1));
    story.lease("a", 2);
    story.restart(story.journal.len());
    story.pass(59);
    assert_eq!(story.waits("b"), Reason::NoBatchesAvailable);
    story.pass(1);
    assert_eq!(story.lease("b", 2).batches, Batches::new(0, 2));
}

#[test]
fn batches_in_doubt_are_free_when_the_pod_of_their_worker_is_gone() {
    let mut story = Story::of(60, Some(1));
    for name in ["gone", "here", "connected", "over", "node/0"] {
        story.lease(name, 1);
    }
    story.restart(story.journal.len());
    story.ledger.session_opened(&worker("connected"));
    let (here, over) = (BTreeSet::from(["here", "over"]), BTreeSet::from(["over"]));
    story.ledger.observe_pods(&here, &over, story.now, &mut story.journal);
    let doubted: Vec<String> = story.ledger.in_doubt().iter().map(ToString::to_string).collect();
    assert_eq!(doubted, ["connected", "here", "node/0"], "workers with a session, a pod or a node are waited for");
}

#[test]
fn a_worker_without_session_has_time_to_reconnect_and_more_while_the_master_is_away() {
    let mut story = Story::of(20, Some(1));
    story.lease("a", 2);
    story.ledger.session_closed(&worker("a"), story.now);
    story.pass(4);
    story.now += seconds(1000);
    story.ledger.tick(story.now, &mut story.journal);
    assert_eq!(story.waits("b"), Reason::NoBatchesAvailable, "the master was away");
    story.ledger.session_opened(&worker("a"));
    story.pass(60);
    assert_eq!(story.waits("b"), Reason::NoBatchesAvailable, "it has reconnected");
    story.ledger.session_closed(&worker("a"), story.now);
    story.pass(5);
    assert_eq!(story.lease("b", 2).batches, Batches::new(0, 2));
}

#[test]
fn a_worker_that_acknowledges_keeps_all_its_leases() {
    let mut story = Story::of(2000, Some(1));
    let (many, one) = (story.lease("a", 100), story.lease("a", 1));
    for batch in 0..100 {
        story.pass(1);
        let one = Batches::new(many.batches.first + batch, 1);
        let done = story.ledger.acknowledge(&worker("a"), many.grant, one, story.now, &mut story.journal);
        assert_eq!(done, Ok(BATCH), "after {batch} s");
    }
    assert_eq!(story.acknowledge("a", &one), Ok(BATCH));
}

#[test]
fn a_worker_that_has_become_slower_gets_longer_each_time() {
    let mut story = Story::of(100, Some(1));
    let quick = story.lease("a", 1);
    story.acknowledge("a", &quick).unwrap();
    let slow = story.lease("a", 1);
    story.pass(13);
    assert_eq!(story.acknowledge("a", &slow), Err(Reason::LeaseVoid));
    let again = story.lease("a", 1);
    story.pass(13);
    assert_eq!(story.acknowledge("a", &again), Ok(BATCH));
}

#[test]
fn a_restarted_master_knows_the_batch_time() {
    let mut story = Story::of(40, Some(1));
    let first = story.lease("a", 1);
    story.pass(2);
    story.acknowledge("a", &first).unwrap();
    let LeaseOutcome::Lease(_) = story.request("curl", 3, None, ClientKind::Stateless).unwrap() else {
        panic!("nothing")
    };
    story.restart(story.journal.len());
    story.pass(17);
    assert_eq!(story.waits("b"), Reason::NoBatchesAvailable, "three batches may take three times 2 s each");
    story.pass(1);
    story.lease("b", 1);
}

#[test]
fn an_ended_incarnation_is_granted_nothing_more() {
    let mut story = Story::of(20, Some(1));
    let incarnation = WorkerId::new("n/0", 7);
    let request = LeaseRequest { dataset: "d".into(), batches: 1, epoch: None, client: ClientKind::Stateless };
    story.ledger.lease(&incarnation, &request, story.now, &mut story.journal).unwrap();
    story.ledger.worker_ended(&incarnation, WorkerEnd::Lost, story.now, &mut story.journal);
    let refused = story.ledger.lease(&incarnation, &request, story.now, &mut story.journal).unwrap_err();
    assert_eq!(refused.reason, Reason::WorkerEnded);
    let next = WorkerId::new("n/0", 8);
    assert!(matches!(story.ledger.lease(&next, &request, story.now, &mut story.journal), Ok(LeaseOutcome::Lease(_))));
}

/// Live nodes with these names, in this round.
fn nodes(names: &[&str], round: u64) -> ObservedNodes {
    let alive = names.iter().map(|name| Arc::from(*name)).collect();
    ObservedNodes { alive, round: Some(Round(round)), failed_rounds: BTreeSet::new(), closed: false }
}

#[test]
fn workers_are_lost_with_their_node_and_only_with_it() {
    let mut story = Story::of(100, Some(1));
    story.ledger.observe_nodes(&nodes(&["n", "m"], 0), story.now, &mut story.journal);
    for name in ["n/0", "m/0", "curl", "by/hand"] {
        story.lease(name, 1);
    }
    story.ledger.observe_nodes(&nodes(&["m"], 1), story.now, &mut story.journal);
    let left: Vec<String> = story.ledger.workers().map(|worker| worker.to_string()).collect();
    assert_eq!(left, ["by/hand", "curl", "m/0"], "no node has ever been called `by`");
    assert_eq!(story.totals().repeated_at_most, BATCH);
}

#[test]
fn a_node_lost_while_the_master_was_down_is_noticed_by_the_next_master() {
    let mut story = Story::of(100, Some(1));
    let LeaseOutcome::Lease(_) = story.request("n/0", 1, None, ClientKind::Stateless).unwrap() else {
        panic!("nothing")
    };
    story.restart(story.journal.len());
    story.ledger.observe_nodes(&nodes(&["m"], 1), story.now, &mut story.journal);
    assert_eq!(story.totals().granted, 0);
}

#[test]
fn the_first_failure_of_a_round_is_charged_if_the_program_ended_it() {
    for program_failed in [true, false] {
        let mut story = Story::of(100, Some(1));
        story.ledger.observe_nodes(&nodes(&["n", "m"], 4), story.now, &mut story.journal);
        let leases = ["n/0", "m/0"].map(|name| story.request(name, 1, None, ClientKind::Stateless).unwrap());
        let [_, LeaseOutcome::Lease(bad)] = leases else { panic!("nothing") };
        for name in ["m/0", "n/0", "m/0"] {
            story.ledger.worker_failed(&worker(name), Round(4), story.now, &mut story.journal);
        }
        story.restart(story.journal.len());
        let mut met = nodes(&["n", "m"], 4);
        story.ledger.observe_nodes(&met, story.now, &mut story.journal);
        assert_eq!(story.totals().outstanding, 100, "the round is not settled yet");
        met.round = Some(Round(5));
        met.failed_rounds.extend(program_failed.then_some(Round(4)));
        story.ledger.observe_nodes(&met, story.now, &mut story.journal);
        let charged = |fact: &Fact| matches!(fact, Fact::Charged { batch, .. } if *batch == bad.batches.first);
        assert_eq!(story.journal.iter().filter(|fact| charged(fact)).count(), usize::from(program_failed));
        assert_eq!(story.totals().granted, 0, "both grants are free");
    }
}

#[test]
fn a_batch_quarantined_in_one_epoch_is_quarantined_in_the_next_and_after_a_restore() {
    let mut story = Story::of(30, Some(2));
    for _ in 0..2 {
        let bad = story.lease("a", 1);
        assert_eq!(bad.batches.first, 0);
        story.end("a", WorkerEnd::Failed);
    }
    let mut leased = Vec::new();
    while let LeaseOutcome::Lease(lease) = story.request("a", 1, None, ClientKind::Resuming).unwrap() {
        leased.push((lease.epoch, lease.batches.first));
        story.acknowledge("a", &lease).unwrap();
    }
    assert_eq!(leased, [(0, 1), (0, 2), (1, 1), (1, 2)]);
    let named = [(0, 0, 2), (1, 0, 2)];
    assert_eq!(story.ledger.quarantined("d"), named);
    let position = story.ledger.position();
    let mut elsewhere = Story::of(30, Some(2));
    elsewhere.ledger.restore(position.clone(), elsewhere.now, &mut elsewhere.journal).unwrap();
    let named: Vec<_> = elsewhere.ledger.quarantined("d").iter().map(|(epoch, batch, _)| (*epoch, *batch)).collect();
    assert_eq!(named, [(0, 0), (1, 0)]);
    assert_eq!(elsewhere.ledger.position(), position);
}

#[test]
fn a_stateless_client_keeps_its_lease_over_a_restart() {
    let mut story = Story::of(20, Some(1));
    let LeaseOutcome::Lease(lease) = story.request("curl", 1, None, ClientKind::Stateless).unwrap() else {
        panic!("nothing")
    };
    story.restart(story.journal.len());
    assert_eq!(story.acknowledge("curl", &lease), Ok(10));
}

#[test]
fn a_later_incarnation_ends_the_earlier_one() {
    let mut story = Story::of(20, Some(1));
    let lease = story.lease("a", 1);
    let request = LeaseRequest { dataset: "d".into(), batches: 1, epoch: None, client: ClientKind::Resuming };
    let second = WorkerId::new("a", 1);
    let Ok(LeaseOutcome::Lease(again)) = story.ledger.lease(&second, &request, story.now, &mut story.journal) else {
        panic!("nothing for the second incarnation")
    };
    assert_eq!(again.batches, lease.batches);
    assert_eq!(story.acknowledge("a", &lease), Err(Reason::WorkerReplaced));
}

#[test]
fn a_batch_that_the_program_fails_on_is_found_among_many_and_quarantined() {
    let mut story = Story::of(100, Some(1));
    let lease = story.lease("a", 4);
    assert_eq!(lease.batches.count, 4);
    let poison = lease.batches.first + 2;
    story.end("a", WorkerEnd::Failed);
    // Each of the four is leased alone. The bad one fails twice more.
    let mut failures = 0;
    while story.ledger.quarantined("d").is_empty() {
        let lease = story.lease("a", 4);
        assert_eq!(lease.batches.count, 1, "alone");
        assert_eq!(story.waits("a"), Reason::SuspectIsolated, "nothing beside it");
        if lease.batches.first == poison {
            story.end("a", WorkerEnd::Failed);
            failures += 1;
        } else {
            story.acknowledge("a", &lease).unwrap();
        }
    }
    assert_eq!((failures, story.ledger.quarantined("d")), (2, vec![(0, poison, 2)]));
    while let LeaseOutcome::Lease(lease) = story.request("a", 4, None, ClientKind::Resuming).unwrap() {
        assert_ne!(lease.batches.first, poison);
        story.acknowledge("a", &lease).unwrap();
    }
    let totals = story.totals();
    assert_eq!((totals.accounted, totals.quarantined, totals.outstanding), (90, 10, 0));
}

#[test]
fn only_the_root_cause_is_charged() {
    let mut story = Story::of(1000, Some(1));
    let (bad, good) = (story.lease("a", 1), story.lease("b", 1));
    story.end("a", WorkerEnd::Failed);
    story.end("b", WorkerEnd::Lost);
    let charged: Vec<_> = story.journal.iter().filter(|fact| matches!(fact, Fact::Charged { .. })).collect();
    assert!(matches!(charged[..], [Fact::Charged { batch, .. }] if *batch == bad.batches.first), "{charged:?}");
    let (first, second) = (story.lease("a", 1), story.lease("b", 1));
    assert_eq!((first.batches.first, second.batches.first), (bad.batches.first, good.batches.first));
}

#[test]
fn a_restore_reopens_later_records_and_counts_them() {
    let mut story = Story::of(100, Some(2));
    let first = story.lease("a", 2);
    story.acknowledge("a", &first).unwrap();
    let token = story.ledger.position();
    let second = story.lease("a", 3);
    let third = story.lease("b", 1);
    story.acknowledge("a", &second).unwrap();
    let rewound = story.ledger.restore(token, story.now, &mut story.journal).unwrap();
    assert_eq!((rewound, story.totals().rewound, story.totals().accounted), (30, 30, 20));
    assert_eq!(story.acknowledge("b", &third), Err(Reason::LeaseVoid), "open leases are void");
    assert_eq!(story.lease("a", 3).batches, second.batches);
}

#[test]
fn quarantined_batches_stay_quarantined_after_a_rewind() {
    let mut story = Story::of(100, Some(1));
    let token = story.ledger.position();
    for _ in 0..2 {
        let lease = story.lease("a", 1);
        assert_eq!(lease.batches.first, 0);
        story.end("a", WorkerEnd::Failed);
        story.ledger.restore(token.clone(), story.now, &mut story.journal).unwrap();
    }
    assert_eq!(story.ledger.quarantined("d"), [(0, 0, 2)]);
    assert_eq!(story.lease("a", 1).batches.first, 1);
}

#[test]
fn an_inconsistent_position_is_refused_and_changes_nothing() {
    let mut story = Story::of(100, Some(1));
    let lease = story.lease("a", 2);
    story.acknowledge("a", &lease).unwrap();
    let good = story.ledger.position();
    let before = story.totals();
    let mut odd = Vec::new();
    for change in 0..4 {
        let mut position = good.clone();
        let at = position.datasets.get_mut("d").unwrap();
        match change {
            0 => at.begun = 7,
            1 => at.accounted = u64::MAX,
            2 => at.epochs.get_mut(&0).unwrap().fresh = 11,
            _ => at.epochs.get_mut(&0).unwrap().open.insert(Batches::new(5, u64::MAX)),
        }
        odd.push(position);
    }
    for position in odd {
        let refused = story.ledger.restore(position, story.now, &mut story.journal).unwrap_err();
        assert_eq!(refused.reason, Reason::InvalidPosition);
    }
    assert_eq!(story.totals(), before);
}

#[test]
fn a_worker_can_wait_for_an_epoch() {
    let mut story = Story::of(20, Some(2));
    let one = story.lease("a", 1);
    let Ok(LeaseOutcome::Lease(two)) = story.request("b", 1, Some(0), ClientKind::Resuming) else {
        panic!("nothing for b")
    };
    assert!(
        matches!(story.request("b", 1, Some(0), ClientKind::Resuming), Ok(LeaseOutcome::Wait(_))),
        "a has the rest"
    );
    story.acknowledge("b", &two).unwrap();
    story.acknowledge("a", &one).unwrap();
    assert_eq!(story.request("b", 1, Some(0), ClientKind::Resuming), Ok(LeaseOutcome::Finished));
    assert!(matches!(
        story.request("b", 1, Some(1), ClientKind::Resuming),
        Ok(LeaseOutcome::Lease(Lease { epoch: 1, .. }))
    ));
    let refused = story.request("b", 1, Some(3), ClientKind::Resuming).unwrap_err();
    assert_eq!(refused.reason, Reason::UnknownEpoch);
}

#[test]
fn the_next_epoch_begins_while_others_finish_the_last() {
    let mut story = Story::of(20, None);
    let slow = story.lease("a", 1);
    story.lease("b", 1);
    let next = story.lease("b", 1);
    assert_eq!((next.epoch, next.batches.first), (1, 0));
    assert_eq!(story.acknowledge("a", &slow), Ok(10));
}

#[test]
fn an_idle_worker_steals_half_of_the_unleased_batches_of_another() {
    let mut story = Story::of(100_000, Some(1));
    // Grants grow while the worker uses them up quickly.
    let mut first = story.lease("a", 1);
    for _ in 0..1026 {
        story.acknowledge("a", &first).unwrap();
        first = story.lease("a", 1);
    }
    let held = story.totals().granted;
    assert!(held > 10_000, "{held} records are granted ahead");
    while story.totals().outstanding > story.totals().granted {
        let lease = story.lease("b", 64);
        story.acknowledge("b", &lease).unwrap();
    }
    let mut shared = 0;
    while let LeaseOutcome::Lease(lease) = story.request("b", 64, None, ClientKind::Resuming).unwrap() {
        shared += story.acknowledge("b", &lease).unwrap();
    }
    assert!(shared > 0);
    assert_eq!(story.waits("b"), Reason::NoBatchesAvailable);
    assert_eq!(story.acknowledge("a", &first), Ok(10), "leased batches are never stolen");
}

#[test]
fn replaying_the_facts_rebuilds_the_same_ledger() {
    let mut story = Story::of(500, Some(2));
    for round in 0..12 {
        let lease = story.lease(if round % 2 == 0 { "a" } else { "b" }, 2);
        match round % 4 {
            0 | 1 => drop(story.acknowledge(if round % 2 == 0 { "a" } else { "b" }, &lease).unwrap()),
            2 => story.end("a", WorkerEnd::Failed),
            _ => story.end("b", WorkerEnd::Lost),
        }
    }
    let before = (story.totals().accounted, story.totals().outstanding, story.ledger.position());
    story.restart(story.journal.len());
    assert_eq!((story.totals().accounted, story.totals().outstanding, story.ledger.position()), before);
    let text = serde_json::to_string(&story.ledger).unwrap();
    let read: Ledger = serde_json::from_str(&text).unwrap();
    assert_eq!(read.position(), story.ledger.position(), "and so does a snapshot");
}
