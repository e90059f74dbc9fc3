//! What clients see while all servers go back, on threads of their own.

use std::sync::Barrier;
use std::time::Instant;

use flexor_wire::ps::v1 as wire;
use flexor_wire::ps::v1::reply::Result as Answer;

use super::*;
use crate::placement::PARTITIONS;
use crate::server::ServerName;
use crate::spec::{Initializer, ModelSpec, Optimizer, TableSpec};

const KEYS: u64 = 4096;
const LAST: u64 = 300;

fn model() -> ModelSpec {
    ModelSpec {
        variables: Vec::new(),
        tables: vec![TableSpec { name: "t".to_owned(), dim: 1, init: Initializer::Zeros }],
        optimizer: Optimizer::sgd(1.0),
        seed: 1,
    }
}

/// All partitions begin again by this map, with nothing learnt.
fn go_back(server: &Server, map: u64) {
    let seat = master::Seat { owner: Some(0), origin: map, since: 1, ..master::Seat::default() };
    let map = master::ServerMap {
        epoch: map,
        rewound: map,
        servers: vec![master::Server { name: "ps-0".to_owned(), incarnation: 1, ..master::Server::default() }],
        seats: vec![seat; PARTITIONS],
        model: serde_json::to_string(&model()).unwrap(),
        ..master::ServerMap::default()
    };
    server.plan(&master::ServerPlan { map: Some(map), ..master::ServerPlan::default() }).unwrap();
}

fn keys() -> Vec<u8> {
    (0..KEYS).flat_map(u64::to_le_bytes).collect()
}

fn push(rewound: u64) -> wire::request::Op {
    let gradients: Vec<u8> = (0..KEYS).flat_map(|_| (-1.0_f32).to_le_bytes()).collect();
    let rows = vec![wire::RowGradients { table: 0, keys: keys().into(), gradients: gradients.into() }];
    let batch = Some(wire::Batch { dataset: 1, epoch: 0, first: 0, records: 1 });
    let model = model().fingerprint().0;
    wire::request::Op::Push(wire::Push { model, batch, rows, in_step: true, rewound, ..wire::Push::default() })
}

/// What is read after so many steps since all servers went back by this map.
fn pull(rewound: u64, steps: u64) -> wire::request::Op {
    let (model, rows) = (model().fingerprint().0, vec![wire::Keys { table: 0, keys: keys().into() }]);
    wire::request::Op::Pull(wire::Pull { model, rows, steps, rewound: Some(rewound), ..wire::Pull::default() })
}

fn take_first_step(server: &Server, rewound: u64) {
    let batches = vec![master::StepBatch { first: 0, records: 1 }];
    let first = master::StepTaken { step: 0, dataset: 1, epoch: 0, batches };
    server.follow_steps(&master::StepsTaken { rewound, taken: 1, steps: vec![first] });
}

#[test]
fn nobody_reads_or_changes_what_was_before_all_servers_went_back() {
    let (server, _reports) = Server::new(ServerName { name: "ps-0".to_owned(), incarnation: 1 }, None);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let ask = |op: wire::request::Op| runtime.block_on(server.answered(wire::Request { id: 1, op: Some(op) }));
    go_back(&server, 1);
    for map in 2..LAST {
        let Some(Answer::Pushed(pushed)) = ask(push(map - 1)).result else { panic!("nothing is wrong with it") };
        assert!(pushed.parts.iter().all(|part| part.outcome() == wire::pushed_part::Outcome::Taken));
        take_first_step(&server, map - 1);
        let at_once = Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                at_once.wait();
                go_back(&server, map);
            });
            at_once.wait();
            // Somewhere between the first partition that goes and the last.
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_micros(map % 100 * 5) {
                std::hint::spin_loop();
            }
            let pulled = loop {
                if let Some(Answer::Pulled(pulled)) = ask(pull(map, 0)).result {
                    break pulled;
                }
            };
            assert!(pulled.elsewhere.is_empty(), "{:?}", pulled.elsewhere);
            assert!(pulled.rows[0].iter().all(|byte| *byte == 0), "something was learnt before map {map}");
        });
    }
    std::thread::scope(|scope| {
        scope.spawn(|| go_back(&server, LAST));
        // Parts that were taken by a partition that was still to go would be missing in the step.
        let mut left = PARTITIONS;
        while left > 0 {
            let Some(Answer::Pushed(pushed)) = ask(push(LAST)).result else { panic!("nothing is wrong with it") };
            let taken = |part: &&wire::PushedPart| part.outcome() == wire::pushed_part::Outcome::Taken;
            left -= pushed.parts.iter().filter(taken).count();
        }
    });
    take_first_step(&server, LAST);
    let Some(Answer::Pulled(pulled)) = ask(pull(LAST, 1)).result else { panic!("the step was taken") };
    let ones: Vec<u8> = (0..KEYS).flat_map(|_| 1.0_f32.to_le_bytes()).collect();
    assert!(pulled.rows[0] == ones, "a part of the push is missing");
}
