//! Checks that a server with all partitions answers each input in the corpus of the fuzz target `ps_requests` as its
//! name says.

use std::fs;
use std::path::Path;

use flexor_ps::placement::PARTITIONS;
use flexor_ps::server::{Server, ServerName};
use flexor_ps::spec::{Initializer, MAX_DIM, ModelSpec, Optimizer, TableSpec, VariableSpec};
use flexor_wire::master::v1 as master;
use flexor_wire::ps::v1 as wire;
use flexor_wire::ps::v1::parameter_server_client::ParameterServerClient;
use flexor_wire::ps::v1::pushed_part::Outcome;
use flexor_wire::ps::v1::reply::Result as Answer;
use flexor_wire::ps::v1::request::Op;
use futures::stream;
use prost::Message;

fn model() -> ModelSpec {
    let table = |name: &str, dim| TableSpec { name: name.to_owned(), dim, init: Initializer::UNIFORM };
    ModelSpec {
        variables: vec![VariableSpec { name: "w".to_owned(), shape: vec![6], init: Initializer::Zeros }],
        tables: vec![table("users", 2), table("items", 3)],
        optimizer: Optimizer::adam(0.1),
        seed: 1,
    }
}

fn server() -> Server {
    server_of(&model())
}

fn server_of(model: &ModelSpec) -> Server {
    let (server, _) = Server::new(ServerName { name: "ps-0".to_owned(), incarnation: 1 }, None);
    let replicas = master::PartitionReplicas {
        primary: Some(0),
        generation: 1,
        primary_since: 1,
        ..master::PartitionReplicas::default()
    };
    let map = master::PartitionMap {
        epoch: 1,
        servers: vec![master::Server { name: "ps-0".to_owned(), incarnation: 1, ..master::Server::default() }],
        partitions: vec![replicas; PARTITIONS],
        model: serde_json::to_string(model).unwrap(),
        ..master::PartitionMap::default()
    };
    server.apply_plan(&master::ServerPlan { map: Some(map), ..master::ServerPlan::default() }).unwrap();
    server
}

/// An input of the corpus; a fingerprint of 0 stands for that of the model.
fn seed(name: &str) -> wire::Request {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/ps_requests");
    let mut request = wire::Request::decode(fs::read(folder.join(name)).unwrap().as_slice()).unwrap();
    match &mut request.op {
        Some(Op::Pull(wire::Pull { model: number, .. }) | Op::Push(wire::Push { model: number, .. })) => {
            *number = if *number == 0 { model().fingerprint().0 } else { *number };
        }
        None => {}
    }
    request
}

/// The answers of a server to these requests.
async fn answers(server: &Server, requests: Vec<wire::Request>) -> Vec<Answer> {
    let mut call = tonic::Request::new(stream::iter(requests));
    call.metadata_mut().insert("flexor-server", "1 ps-0".parse().unwrap());
    let mut stream = ParameterServerClient::new(server.routes()).work(call).await.unwrap().into_inner();
    let mut answers = Vec::new();
    while let Some(reply) = stream.message().await.unwrap() {
        answers.push(reply.result.unwrap());
    }
    answers
}

#[tokio::test]
async fn pulls_of_the_corpus_are_answered() {
    let bytes_of = async |name: &str| {
        let server = server();
        let answers = answers(&server, vec![seed(name)]).await;
        let [Answer::Pulled(pulled)] = &answers[..] else { panic!("{name}: {answers:?}") };
        (pulled.rows.iter().map(bytes::Bytes::len).collect::<Vec<_>>(), pulled.slices.len(), server.load().rows)
    };
    assert_eq!(bytes_of("pull_whole").await, (vec![24, 12], 1, 4));
    assert_eq!(bytes_of("pull_peek").await, (vec![16], 0, 0), "a peek creates no rows");
    assert_eq!(bytes_of("pull_of_a_known_slice").await, (vec![], 0, 0), "the slice is unchanged");
    let lost = answers(&server(), vec![seed("pull_of_a_snapshot")]).await;
    assert!(matches!(&lost[..], [Answer::Lost(_)]), "{lost:?}");
}

#[tokio::test]
async fn every_kind_of_pull_is_counted_once() {
    for (name, rows) in [("pull_whole", 4), ("pull_peek", 2), ("pull_of_a_known_slice", 0)] {
        let server = server();
        answers(&server, vec![seed(name)]).await;
        assert_eq!((server.load().pulls, server.load().pulled_rows), (1, rows), "{name}");
    }
    let server = server();
    answers(&server, vec![seed("pull_unknown_table_behind_a_good_one")]).await;
    assert_eq!(server.load().pulls, 0, "a rejected pull is not counted");
}

#[tokio::test]
async fn a_pull_above_the_message_limit_is_rejected_and_creates_no_rows() {
    let mut model = model();
    model.tables[1].dim = MAX_DIM;
    let server = server_of(&model);
    let pull = |tables: &[u64]| {
        let keys = |count: &u64| (0..*count).flat_map(u64::to_le_bytes).collect::<Vec<_>>().into();
        let rows = tables.iter().map(|count| wire::Keys { table: 1, keys: keys(count) }).collect();
        let pull = wire::Pull { model: model.fingerprint().0, rows, ..wire::Pull::default() };
        wire::Request { op: Some(Op::Pull(pull)), ..wire::Request::default() }
    };
    let answers = answers(&server, vec![pull(&[128, 128]), pull(&[1])]).await;
    let [Answer::Refused(why), Answer::Pulled(one)] = &answers[..] else { panic!("{} answers", answers.len()) };
    assert!(why.contains("and a message has at most 67108864; pull fewer rows at a time"), "{why}");
    assert_eq!((one.rows[0].len(), server.load().rows), (MAX_DIM as usize * 4, 1), "the stream continues");
}

#[tokio::test]
async fn valid_pushes_of_the_corpus_are_applied_once() {
    for name in [
        "push_whole",
        "push_same_key_twice",
        "push_overlapping_slices",
        "push_of_a_step",
        "push_by_staleness",
        "push_left_out",
    ] {
        let answers = answers(&server(), vec![seed(name), seed(name)]).await;
        let [Answer::Pushed(first), Answer::Pushed(again)] = &answers[..] else { panic!("{name}: {answers:?}") };
        assert!(!first.parts.is_empty() && first.parts.iter().all(|part| part.outcome() == Outcome::Applied), "{name}");
        assert!(again.parts.iter().all(|part| part.outcome() == Outcome::AlreadyApplied), "{name}: {again:?}");
    }
    // A repeated push without a batch cannot be detected.
    let answers = answers(&server(), vec![seed("push_of_no_batch"), seed("push_of_no_batch")]).await;
    let is_taken = |answer: &Answer| matches!(answer, Answer::Pushed(of) if of.parts[0].outcome() == Outcome::Applied);
    assert!(answers.iter().all(is_taken), "{answers:?}");
}

#[tokio::test]
async fn pushes_of_closed_epochs_are_not_applied() {
    let server = server();
    let push = |epoch: u32| {
        let mut request = seed("push_whole");
        match &mut request.op {
            Some(Op::Push(wire::Push { batch: Some(batch), .. })) => batch.epoch = epoch,
            other => panic!("{other:?}"),
        }
        request
    };
    let Some(Op::Push(wire::Push { batch: Some(batch), .. })) = push(0).op else { panic!("it has a batch") };
    let (first, end) = (batch.first, batch.first + u64::from(batch.records));
    let range = |first_epoch, epoch| master::ClosedRange { dataset: batch.dataset, epoch, first, end, first_epoch };
    server.close_batches(&master::ClosedBatches { ranges: vec![range(Some(1), 3), range(None, 5)] });
    let answers = answers(&server, (0..=6).map(push).collect()).await;
    let is_late = answers.iter().map(|answer| match answer {
        Answer::Pushed(pushed) => pushed.parts.iter().all(|part| part.outcome() == Outcome::BatchClosed),
        other => panic!("{other:?}"),
    });
    assert_eq!(is_late.collect::<Vec<_>>(), [false, true, true, true, false, true, false]);
}

#[tokio::test]
async fn invalid_requests_of_the_corpus_are_rejected_and_change_nothing() {
    for (name, message) in [
        ("empty", "neither a pull nor a push"),
        ("pull_ragged_keys", "11 bytes are no list of numbers of 8 bytes"),
        ("pull_unknown_table", "the model has no table number 9"),
        ("pull_unknown_table_behind_a_good_one", "the model has no table number 9"),
        ("pull_unknown_slice", "the model has no slice"),
        ("pull_no_slice", "a slice is missing"),
        ("pull_another_model", "the job trains model"),
        ("push_not_a_number", "the gradient of 'users' is not finite"),
        ("push_infinite_slice", "the gradient of 'w' is not finite"),
        ("push_infinite_rate", "the learning rate of the push is inf"),
        ("push_batch_without_records", "a push of a batch without records"),
        ("push_too_few_gradients", "table 'users' has rows of 2 values, so 2 keys need 4 and not 3"),
        ("push_ragged_gradients", "9 bytes are no list of numbers of 4 bytes"),
        ("push_ragged_keys", "11 bytes are no list of numbers of 8 bytes"),
        ("push_unknown_table", "the model has no table number 2; it has 2"),
        ("push_beyond_its_slice", "a gradient of 2 from element 5 does not fit"),
        ("push_far_beyond_its_slice", "a gradient of 2 from element 4294967295 does not fit"),
        ("push_no_gradient_of_a_slice", "a gradient of 0 from element 0 does not fit"),
        ("push_no_slice", "a slice is missing"),
        ("push_another_model", "the job trains model"),
    ] {
        let server = server();
        let answers = answers(&server, vec![seed(name)]).await;
        let [Answer::Refused(why)] = &answers[..] else { panic!("{name}: {answers:?}") };
        assert!(why.contains(message), "{name}: {why}");
        assert_eq!(server.load().rows, 0, "{name}");
    }
}
