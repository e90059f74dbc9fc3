//! The data API over sessions and over HTTP, with restarting masters.

use flexor_wire::master::v1 as wire;
use serde_json::{Value, json};
use wire::reply::Result as Answer;
use wire::request::Op;

use crate::serving::{Node, Serving};

fn dataset(records: u64) -> Op {
    Op::Register(of_records(records))
}

fn of_records(records: u64) -> wire::Dataset {
    wire::Dataset { name: "d".to_owned(), records, batch: 10, epochs: Some(1), ..Default::default() }
}

fn lease(batches: u64) -> Op {
    Op::Lease(wire::LeaseBatches { dataset: "d".to_owned(), batches, ..Default::default() })
}

fn acknowledge(held: wire::LeasedBatches, durable: bool) -> Op {
    Op::Acknowledge(wire::AcknowledgeBatches { done: Some(held), durable, ..Default::default() })
}

/// The program failed in a worker, perhaps only because the round ended.
fn failed(worker: Option<wire::Node>, round: Option<u64>) -> Op {
    let ended = wire::WorkerEnded { worker, ending: wire::worker_ended::Ending::Failed.into() };
    Op::Ended(wire::WorkersEnded { workers: vec![ended], round })
}

async fn leased(worker: &mut Node, batches: u64) -> wire::Lease {
    match worker.ask(lease(batches)).await {
        Answer::Lease(lease) => lease,
        other => panic!("{other:?}"),
    }
}

/// The batches with a count of skipped records.
fn with_skipped(held: wire::LeasedBatches, skipped_records: u64) -> wire::LeasedBatches {
    wire::LeasedBatches { skipped_records, ..held }
}

async fn skipped_records(serving: &Serving) -> u64 {
    let (_, text) = Serving::http(serving.grpc, "GET /api/datasets/d HTTP/1.1").await;
    serde_json::from_str::<Value>(&text).unwrap()["skippedRecords"].as_u64().unwrap()
}

async fn post(serving: &Serving, path: &str, body: Value) -> (u16, Value) {
    let head = format!("POST {path} HTTP/1.1\nContent-Type: application/json\n\n{body}");
    let (code, text) = Serving::http(serving.grpc, &head).await;
    (code, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

async fn totals(serving: &Serving) -> Value {
    let (code, text) = Serving::http(serving.grpc, "GET /api/datasets/d HTTP/1.1").await;
    assert_eq!(code, 200, "{text}");
    serde_json::from_str::<Value>(&text).unwrap()["totals"].clone()
}

#[tokio::test]
async fn an_order_that_the_master_does_not_know_is_refused_and_not_taken_as_sequential() {
    let serving = Serving::start(1, 1).await;
    let mut worker = Node::connect(&serving, "w", 1).await;
    let answer = worker.ask(Op::Register(wire::Dataset { order: 77, ..of_records(45) })).await;
    let text = format!("{answer:?}");
    assert!(text.contains("ProtocolViolation") && text.contains("the order 77"), "{text}");
    // The true dataset is taken afterwards.
    assert!(matches!(worker.ask(dataset(45)).await, Answer::Done(_)));
}

#[tokio::test]
async fn a_worker_processes_a_dataset_over_a_session() {
    let serving = Serving::start(1, 1).await;
    let mut worker = Node::connect(&serving, "w", 1).await;
    assert!(matches!(worker.ask(dataset(45)).await, Answer::Done(_)));
    let mut records = Vec::new();
    loop {
        let lease = leased(&mut worker, 2).await;
        if lease.finished {
            break;
        }
        records.extend(lease.batches.iter().flat_map(|batch| batch.first..batch.first + batch.count));
        let done = worker.ask(acknowledge(lease.held.unwrap(), false)).await;
        assert!(matches!(done, Answer::Accounted(_)), "{done:?}");
    }
    assert_eq!(records, (0..45).collect::<Vec<_>>());
    assert_eq!(totals(&serving).await["accounted"], 45);
}

#[tokio::test]
async fn curl_is_enough() {
    let serving = Serving::start(1, 1).await;
    let register = json!({ "name": "d", "records": 25, "batch": 10, "shuffle": "records", "seed": 7 });
    assert_eq!(post(&serving, "/api/datasets", register.clone()).await.0, 200);
    assert_eq!(post(&serving, "/api/datasets", register).await.0, 200, "twice is once");
    let mut records = Vec::new();
    loop {
        let (code, answer) = post(&serving, "/api/datasets/d/lease", json!({ "worker": "w" })).await;
        assert_eq!(code, 200, "{answer}");
        if answer["finished"] == true {
            break;
        }
        for record in answer["batches"][0]["records"].as_array().unwrap() {
            records.push(record.as_u64().unwrap());
        }
        let done =
            json!({ "worker": "w", "lease": answer["lease"], "first": answer["first"], "count": answer["count"] });
        assert_eq!(post(&serving, "/api/datasets/d/acknowledge", done).await.0, 200);
    }
    assert_ne!(records, (0..25).collect::<Vec<_>>());
    records.sort_unstable();
    assert_eq!(records, (0..25).collect::<Vec<_>>());
    let totals = totals(&serving).await;
    assert_eq!((&totals["accounted"], &totals["outstanding"]), (&json!(25), &json!(0)));
}

#[tokio::test]
async fn an_invalid_request_is_refused_with_its_reason() {
    let serving = Serving::start(1, 1).await;
    let unknown = post(&serving, "/api/datasets/none/lease", json!({ "worker": "w" })).await;
    assert_eq!((unknown.0, &unknown.1["reason"]), (404, &json!("UnknownDataset")));
    let zero = post(&serving, "/api/datasets", json!({ "name": "d", "records": 5, "batch": 0 })).await;
    assert_eq!((zero.0, &zero.1["reason"]), (400, &json!("InvalidValue")));
    assert_eq!(post(&serving, "/api/datasets", json!({ "name": "d", "records": 5, "batch": 1 })).await.0, 200);
    let changed = post(&serving, "/api/datasets", json!({ "name": "d", "records": 4, "batch": 1 })).await;
    assert_eq!((changed.0, &changed.1["reason"]), (409, &json!("DatasetChanged")));
    let stolen = json!({ "worker": "w", "lease": 99, "first": 0 });
    let stolen = post(&serving, "/api/datasets/d/acknowledge", stolen).await;
    assert_eq!((stolen.0, &stolen.1["reason"]), (409, &json!("LeaseVoid")));
    let position = post(&serving, "/api/restore", json!({ "position": "v1.nonsense" })).await;
    assert_eq!((position.0, &position.1["reason"]), (400, &json!("InvalidPosition")));
    let unnamed = post(&serving, "/api/datasets/d/lease", json!({ "worker": "" })).await;
    assert_eq!(unnamed.0, 400);
}

#[tokio::test]
async fn the_next_master_knows_acknowledged_batches_and_lets_workers_resume() {
    let folder = tempfile::tempdir().unwrap();
    let first = Serving::with(1, 1, Some(folder.path()), None).await.unwrap();
    let mut worker = Node::connect(&first, "w", 1).await;
    worker.ask(dataset(100)).await;
    let done = leased(&mut worker, 1).await.held.unwrap();
    let open = leased(&mut worker, 1).await.held.unwrap();
    worker.ask(acknowledge(done, true)).await;
    let curl = post(&first, "/api/datasets/d/lease", json!({ "worker": "curl" })).await.1;
    drop(first);

    let second = Serving::with(1, 1, Some(folder.path()), None).await.unwrap();
    let acknowledged = json!({ "worker": "curl", "lease": curl["lease"], "first": curl["first"] });
    assert_eq!(
        post(&second, "/api/datasets/d/acknowledge", acknowledged).await.0,
        200,
        "a stateless client need not resume"
    );
    let mut worker = Node::connect(&second, "w", 1).await;
    match worker.ask(lease(1)).await {
        Answer::Refusal(refusal) => assert_eq!(refusal.reason, "WorkerInDoubt"),
        other => panic!("{other:?}"),
    }
    let back = wire::Resume { holds: vec![open], acknowledged: vec![done], ..Default::default() };
    let Answer::Void(void) = worker.ask(Op::Resume(back)).await else { panic!("no answer") };
    assert_eq!(void.held, []);
    let accounted = worker.ask(acknowledge(open, false)).await;
    assert!(matches!(accounted, Answer::Accounted(wire::Accounted { records: 10, .. })), "{accounted:?}");
    assert_eq!(totals(&second).await["accounted"], 30);
    assert!(!leased(&mut worker, 1).await.batches.is_empty());
}

#[tokio::test]
async fn skipped_records_count_with_the_acknowledgement_that_accounts_for_them() {
    let folder = tempfile::tempdir().unwrap();
    let first = Serving::with(1, 1, Some(folder.path()), None).await.unwrap();
    let mut worker = Node::connect(&first, "w", 1).await;
    worker.ask(dataset(100)).await;
    let one = leased(&mut worker, 1).await.held.unwrap();
    let two = leased(&mut worker, 1).await.held.unwrap();
    worker.ask(acknowledge(with_skipped(one, 3), false)).await;
    worker.ask(acknowledge(with_skipped(one, 3), true)).await;
    let stranger = wire::LeasedBatches { lease: 99, ..with_skipped(one, 5) };
    assert!(matches!(worker.ask(acknowledge(stranger, true)).await, Answer::Refusal(_)));
    assert_eq!(skipped_records(&first).await, 3, "a repeated acknowledgement counts once, and a refused one does not");
    let (_, metrics) = Serving::http(first.http, "GET /metrics HTTP/1.1").await;
    assert!(metrics.contains("flexor_dataset_skipped_records{job=\"mnist\",dataset=\"d\"} 3"), "{metrics}");
    drop(first);

    let second = Serving::with(1, 1, Some(folder.path()), None).await.unwrap();
    assert_eq!(skipped_records(&second).await, 3);
    let mut worker = Node::connect(&second, "w", 1).await;
    // The earlier master may have known both, or not.
    let acknowledged = vec![with_skipped(one, 3), with_skipped(two, 10)];
    worker.ask(Op::Resume(wire::Resume { acknowledged, ..Default::default() })).await;
    worker.ask(acknowledge(with_skipped(two, 10), true)).await;
    assert_eq!(skipped_records(&second).await, 13);
    drop(second);

    let third = Serving::with(1, 1, Some(folder.path()), None).await.unwrap();
    assert_eq!((skipped_records(&third).await, &totals(&third).await["accounted"]), (13, &json!(20)));
}

#[tokio::test]
async fn skipped_records_are_rewound_with_the_data() {
    let serving = Serving::start(1, 1).await;
    let mut worker = Node::connect(&serving, "w", 1).await;
    let steps = wire::Dataset { step_batches: Some(2), steps_ahead: 1, ..of_records(100) };
    worker.ask(Op::Register(steps)).await;
    let mut position = String::new();
    for number in 0..4 {
        let lease = leased(&mut worker, 1).await;
        let done =
            wire::LeasedBatches { step: lease.batches[0].step, ..with_skipped(lease.held.unwrap(), 1 << number) };
        worker.ask(acknowledge(done, false)).await;
        if number == 2 {
            let Answer::Position(at) = worker.ask(Op::Position(wire::GetPosition {})).await else { panic!() };
            position = at.position;
        }
    }
    assert_eq!(skipped_records(&serving).await, 15);
    worker.ask(Op::Restore(wire::RestorePosition { position })).await;
    assert_eq!(skipped_records(&serving).await, 3, "a position has complete steps: the third batch is processed again");
    assert_eq!(totals(&serving).await["accounted"], 20);
}

#[tokio::test]
async fn a_lease_waits_for_batches_that_others_release() {
    let serving = Serving::start(1, 1).await;
    let (mut one, mut two) = (Node::connect(&serving, "a", 1).await, Node::connect(&serving, "b", 1).await);
    one.ask(dataset(10)).await;
    let held = leased(&mut one, 1).await.held.unwrap();
    let waiting = leased(&mut two, 1).await;
    assert!(waiting.wait.starts_with("NoBatchesAvailable"), "{waiting:?}");
    two.say(Op::Lease(wire::LeaseBatches { dataset: "d".to_owned(), wait_ms: 20_000, ..Default::default() })).await;
    one.ask(Op::Release(held)).await;
    match two.answer().await {
        Answer::Lease(lease) => assert_eq!(lease.batches.len(), 1),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_position_is_restored_and_counted() {
    let serving = Serving::start(1, 1).await;
    let mut worker = Node::connect(&serving, "w", 1).await;
    worker.ask(dataset(100)).await;
    let Answer::Position(start) = worker.ask(Op::Position(wire::GetPosition {})).await else { panic!("no position") };
    let held = leased(&mut worker, 3).await.held.unwrap();
    worker.ask(acknowledge(held, false)).await;
    let restore = Op::Restore(wire::RestorePosition { position: start.position });
    assert_eq!(worker.ask(restore).await, Answer::Rewound(wire::Rewound { records: 30 }));
    let totals = totals(&serving).await;
    assert_eq!((&totals["accounted"], &totals["rewound"]), (&json!(0), &json!(30)));
    assert_eq!(leased(&mut worker, 3).await.held.unwrap().first, held.first);
}

#[tokio::test]
async fn a_batch_that_the_program_fails_on_is_listed() {
    let serving = Serving::start(1, 1).await;
    let mut launcher = Node::connect(&serving, "launcher", 1).await;
    launcher.ask(dataset(30)).await;
    for incarnation in 1..=2 {
        let mut worker = Node::connect(&serving, "w", incarnation).await;
        assert_eq!(leased(&mut worker, 1).await.held.unwrap().first, 0);
        let node = Some(wire::Node { name: "w".to_owned(), incarnation });
        assert!(matches!(launcher.ask(failed(node, None)).await, Answer::Done(_)));
    }
    let (_, text) = Serving::http(serving.grpc, "GET /api/datasets HTTP/1.1").await;
    let all: Value = serde_json::from_str(&text).unwrap();
    let bad = &all["datasets"][0]["quarantine"][0];
    assert_eq!(*bad, json!({ "epoch": 0, "batch": 0, "failures": 2, "first": 0, "count": 10 }), "{text}");
}

#[tokio::test]
async fn a_lease_whose_answer_was_lost_is_leased_again() {
    let serving = Serving::start(1, 1).await;
    assert_eq!(post(&serving, "/api/datasets", json!({ "name": "d", "records": 20, "batch": 10 })).await.0, 200);
    let ask = |holds: Value| json!({ "worker": "w", "holds": holds });
    let lost = post(&serving, "/api/datasets/d/lease", ask(json!([]))).await.1;
    // The worker never learned of the lease, so it holds nothing.
    let again = post(&serving, "/api/datasets/d/lease", ask(json!([]))).await.1;
    assert_eq!((&again["first"], &again["count"]), (&lost["first"], &lost["count"]));
    assert_ne!(again["lease"], lost["lease"]);
    let held = json!([{ "lease": again["lease"], "first": again["first"], "count": again["count"] }]);
    let more = post(&serving, "/api/datasets/d/lease", ask(held)).await.1;
    assert_eq!((&again["first"], &more["first"]), (&json!(0), &json!(1)), "what it holds stays its own");
    assert_eq!(totals(&serving).await["repeatedAtMost"], 10, "an earlier process of that name may have heard of it");
}

#[tokio::test]
async fn a_body_that_cannot_be_read_is_refused_with_a_reason_too() {
    let serving = Serving::start(1, 1).await;
    for body in [json!({ "worker": "w", "holdz": [] }), json!([]), json!({ "worker": "w", "batches": -1 })] {
        let (code, answer) = post(&serving, "/api/datasets/d/lease", body).await;
        assert_eq!((code, &answer["reason"]), (400, &json!("InvalidValue")), "{answer}");
        assert_ne!(answer["error"], "");
    }
    let (code, text) = Serving::http(serving.grpc, "POST /api/datasets/d/lease HTTP/1.1\n\n{\"worker\":\"w\"}").await;
    assert_eq!(code, 415, "{text}");
    assert!(text.contains("Content-Type"), "it says what is missing: {text}");
}

/// A launcher in a world of `size`, with one worker named after it.
async fn launcher(serving: &Serving, name: &str) -> Node {
    let node = Node::connect(serving, name, 1).await;
    node.join().await;
    node
}

async fn lease_in_round(serving: &Serving, node: &str, round: u64) -> wire::LeasedBatches {
    let mut worker = Node::connect(serving, &format!("{node}/0"), round).await;
    leased(&mut worker, 1).await.held.unwrap()
}

async fn report_failure(launcher: &mut Node, node: &str, round: u64) {
    let worker = Some(wire::Node { name: format!("{node}/0"), incarnation: round });
    assert!(matches!(launcher.ask(failed(worker, Some(round))).await, Answer::Done(_)));
}

async fn await_totals(serving: &Serving, what: &str, holds: impl Fn(&Value) -> bool) {
    for _ in 0..400 {
        let (_, text) = Serving::http(serving.grpc, "GET /api/datasets/d HTTP/1.1").await;
        if holds(&serde_json::from_str(&text).unwrap()) {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(25)).await;
    }
    panic!("waited for {what}; {}", totals(serving).await);
}

#[tokio::test]
async fn the_first_of_two_failures_is_charged() {
    let serving = Serving::start(2, 2).await;
    let (mut a, mut b) = (launcher(&serving, "a").await, launcher(&serving, "b").await);
    a.ask(dataset(100)).await;
    let mut round = a.complete().await.round;
    b.complete().await;
    for _ in 0..2 {
        let (bad, good) = (lease_in_round(&serving, "a", round).await, lease_in_round(&serving, "b", round).await);
        assert_eq!((bad.first, bad.count, good.count), (0, 1, 1));
        report_failure(&mut a, "a", round).await;
        report_failure(&mut b, "b", round).await;
        a.join().await;
        b.join().await;
        let next = |world: &wire::World| world.state() == wire::world::MemberState::InWorld && world.round > round;
        let met = a.world(next).await.round;
        b.world(next).await;
        round = met;
        await_totals(&serving, "the end of all leases", |dataset| dataset["totals"]["granted"] == 0).await;
    }
    await_totals(&serving, "one quarantined batch", |dataset| {
        dataset["quarantine"] == json!([{ "epoch": 0, "batch": 0, "failures": 2, "first": 0, "count": 10 }])
    })
    .await;
}

#[tokio::test]
async fn workers_are_lost_with_their_node_and_no_batch_is_charged() {
    let serving = Serving::start(1, 2).await;
    let (mut a, mut b) = (launcher(&serving, "a").await, launcher(&serving, "b").await);
    a.ask(dataset(100)).await;
    let round = a.world(|world| world.size == 2).await.round;
    b.world(|world| world.size == 2).await;
    lease_in_round(&serving, "a", round).await;
    lease_in_round(&serving, "b", round).await;
    report_failure(&mut a, "a", round).await;
    assert_eq!(Serving::http(serving.grpc, "POST /api/gone/b HTTP/1.1\nContent-Type: application/json").await.0, 200);
    a.join().await;
    a.world(|world| world.round > round && world.size == 1).await;
    await_totals(&serving, "the end of all leases", |dataset| dataset["totals"]["granted"] == 0).await;
    let mut worker = Node::connect(&serving, "a/0", round + 1).await;
    let lease = leased(&mut worker, 4).await;
    assert_eq!(
        (lease.held.unwrap().first, lease.held.unwrap().count),
        (0, 2),
        "two were returned, and none is suspected"
    );
}

#[tokio::test]
async fn a_dataset_that_is_too_large_is_refused() {
    let serving = Serving::start(1, 1).await;
    let all = json!({ "name": "d", "records": u64::MAX, "batch": 1, "shuffle": "batches" });
    let (code, answer) = post(&serving, "/api/datasets", all).await;
    assert_eq!((code, &answer["reason"]), (400, &json!("InvalidValue")), "{answer}");
    let most = json!({ "name": "d", "records": 1_u64 << 53, "batch": 1, "shuffle": "batches" });
    assert_eq!(post(&serving, "/api/datasets", most).await.0, 200);
    let (code, answer) = post(&serving, "/api/datasets/d/lease", json!({ "worker": "w" })).await;
    assert_eq!((code, &answer["count"]), (200, &json!(1)), "{answer}");
}

#[tokio::test]
async fn a_lease_is_acknowledged_under_the_name_of_its_own_dataset() {
    let serving = Serving::start(1, 1).await;
    for name in ["d", "other"] {
        assert_eq!(post(&serving, "/api/datasets", json!({ "name": name, "records": 10, "batch": 10 })).await.0, 200);
    }
    let (_, lease) = post(&serving, "/api/datasets/d/lease", json!({ "worker": "w" })).await;
    let held = json!({ "worker": "w", "lease": lease["lease"], "first": lease["first"] });
    for act in ["acknowledge", "release"] {
        let (code, refused) = post(&serving, &format!("/api/datasets/other/{act}"), held.clone()).await;
        assert_eq!((code, &refused["reason"]), (409, &json!("LeaseVoid")), "{refused}");
        let (code, refused) = post(&serving, &format!("/api/datasets/none/{act}"), held.clone()).await;
        assert_eq!((code, &refused["reason"]), (404, &json!("UnknownDataset")), "{refused}");
    }
    assert_eq!(totals(&serving).await["accounted"], 0);
    assert_eq!(post(&serving, "/api/datasets/d/acknowledge", held).await.1["records"], 10);
}
