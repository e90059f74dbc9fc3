//! Any bytes are a pull or a push of our own wire, or refused: never a panic, never memory for what is not there. What is
//! refused or only looks changes nothing, and a push of a batch that comes again is not applied again.
#![no_main]

use std::collections::BTreeMap;
use std::sync::LazyLock;

use flexor_ps::server::{Server, ServerName};
use flexor_ps::spec::{Initializer, ModelSpec, Optimizer, TableSpec, VariableSpec};
use flexor_wire::master::v1 as master;
use flexor_wire::ps::v1 as wire;
use flexor_wire::ps::v1::parameter_server_client::ParameterServerClient;
use flexor_wire::ps::v1::pushed_part::Outcome;
use flexor_wire::ps::v1::reply::Result as Answer;
use flexor_wire::ps::v1::request::Op;
use libfuzzer_sys::fuzz_target;
use prost::Message;

const PARTITIONS: usize = 256;
/// How wide the rows of each table are.
const WIDTHS: [usize; 2] = [2, 3];

static MODEL: LazyLock<ModelSpec> = LazyLock::new(|| {
    let table = |(name, dim): (&str, usize)| {
        TableSpec { name: name.to_owned(), dim: dim as u32, init: Initializer::UNIFORM }
    };
    ModelSpec {
        variables: vec![VariableSpec { name: "w".to_owned(), shape: vec![6], init: Initializer::Zeros }],
        tables: ["users", "items"].into_iter().zip(WIDTHS).map(table).collect(),
        optimizer: Optimizer::adam(0.1),
        seed: 1,
    }
});

/// The server is primary of everything.
static PLAN: LazyLock<master::ServerPlan> = LazyLock::new(|| {
    let server = master::Server { name: "ps-0".to_owned(), incarnation: 1, address: "127.0.0.1:1".to_owned() };
    let replicas = master::PartitionReplicas { primary: Some(0), backup: None, generation: 1, checkpoint: None, primary_since: 1 };
    let map = master::PartitionMap {
        generation: 1,
        epoch: 1,
        servers: vec![server],
        partitions: vec![replicas; PARTITIONS],
        model: serde_json::to_string(&*MODEL).expect("a model can be written"),
        rewind_epoch: 0,
    };
    master::ServerPlan { map: Some(map), ..master::ServerPlan::default() }
});

fuzz_target!(|bytes: &[u8]| {
    let Ok(mut request) = wire::Request::decode(bytes) else { return };
    // No fuzzer guesses the number of the model; 0 stands for it.
    match &mut request.op {
        Some(Op::Pull(wire::Pull { model, .. }) | Op::Push(wire::Push { model, .. })) if *model == 0 => {
            *model = MODEL.fingerprint().0;
        }
        Some(_) | None => {}
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("threads can be had").block_on(send_twice(request));
});

/// Sends a request, and once more, with a look at what it is about before, between and after.
async fn send_twice(request: wire::Request) {
    let (server, _) = Server::new(ServerName { name: "ps-0".to_owned(), incarnation: 1 }, None);
    server.apply_plan(&PLAN).expect("the plan can be carried out");
    let look = look(&request);
    let numbered = |id: u64, request: &wire::Request| wire::Request { id, ..request.clone() };
    let requests =
        [numbered(1, &look), numbered(2, &request), numbered(3, &look), numbered(4, &request), numbered(5, &look)];
    let answers = answers(&server, requests).await;
    let seen = |id: u64| match answers.get(&id) {
        Some(Answer::Pulled(pulled)) => pulled,
        other => panic!("a look is answered, not with {other:?}"),
    };
    let (before, between, after) = (seen(1), seen(3), seen(5));
    let rows = server.load().rows;
    match (&request.op, answers.get(&2)) {
        (_, Some(Answer::Refused(_))) => {
            assert!(matches!(answers.get(&4), Some(Answer::Refused(_))), "what is refused is refused again");
            assert_eq!((before, rows), (after, 0), "what is refused changes nothing");
        }
        (Some(Op::Push(push)), Some(Answer::Pushed(pushed))) => {
            assert!(pushed.parts.iter().all(|part| part.outcome() != Outcome::Unspecified));
            if push.batch.is_some() {
                let Some(Answer::Pushed(again)) = answers.get(&4) else { panic!("{:?}", answers.get(&4)) };
                assert!(again.parts.iter().all(|part| part.outcome() != Outcome::Applied), "{again:?}");
                assert_eq!(between, after, "what comes again is not applied again");
            }
            if push.rewind_epoch.is_some() {
                assert_eq!(before, after, "no step is committed");
            }
        }
        (Some(Op::Pull(pull)), Some(Answer::Pulled(pulled))) => {
            let width = |of: &wire::Keys| of.keys.len() / 8 * 4 * WIDTHS[of.table as usize];
            let widths: Vec<usize> = pull.rows.iter().map(width).collect();
            assert_eq!(pulled.rows.iter().map(|rows| rows.len()).collect::<Vec<_>>(), widths);
            assert_eq!(before, after, "a pull changes no value");
            assert!(!pull.peek || rows == 0, "a look makes no rows");
        }
        // Values of a step that is yet to come, or of a snapshot that there is not.
        (Some(Op::Pull(_)), None | Some(Answer::NotYet(_) | Answer::Lost(_))) => assert_eq!(before, after),
        (op, answer) => panic!("{op:?} is answered with {answer:?}"),
    }
}

/// Asks for the variable and for the rows that a request names, without making any.
fn look(request: &wire::Request) -> wire::Request {
    let whole = |table: u32, keys: &[u8]| {
        let keys = &keys[..keys.len() / 8 * 8];
        ((table as usize) < WIDTHS.len()).then(|| wire::Keys { table, keys: keys.to_vec().into() })
    };
    let rows = match &request.op {
        Some(Op::Pull(pull)) => pull.rows.iter().filter_map(|of| whole(of.table, &of.keys)).collect(),
        Some(Op::Push(push)) => push.rows.iter().filter_map(|of| whole(of.table, &of.keys)).collect(),
        None => Vec::new(),
    };
    let slice = wire::KnownSlice { slice: Some(wire::Slice { variable: 0, index: 0 }), known: None };
    let model = MODEL.fingerprint().0;
    let pull = wire::Pull { model, rows, slices: vec![slice], peek: true, ..wire::Pull::default() };
    wire::Request { id: 0, op: Some(Op::Pull(pull)) }
}

/// What a server answers to a client that sends these, by their ids.
async fn answers(server: &Server, requests: [wire::Request; 5]) -> BTreeMap<u64, Answer> {
    let mut call = tonic::Request::new(futures::stream::iter(requests));
    call.metadata_mut().insert("flexor-server", "1 ps-0".parse().expect("it can be sent"));
    let stream = ParameterServerClient::new(server.routes()).work(call).await.expect("the call is for this server");
    let mut stream = stream.into_inner();
    let mut answers = BTreeMap::new();
    while let Some(reply) = stream.message().await.expect("all that is answered can be read") {
        let before = answers.insert(reply.id, reply.result.expect("an answer"));
        assert!(before.is_none(), "two answers to one request");
    }
    answers
}
