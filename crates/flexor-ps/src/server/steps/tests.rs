//! What clients see while all servers go back, on threads of their own.

use std::sync::Barrier;
use std::time::Instant;

use flexor_wire::ps::v1::reply::Result as Answer;
use futures::FutureExt;

use super::*;
use crate::placement::{NameHash, PARTITIONS};
use crate::server::numbers::{Origin, Turn};
use crate::server::testing::{map, model, owned_by, plan, server};

const KEYS: u64 = 4096;
const LAST: u64 = 300;

/// All partitions begin again by this map, with nothing learnt.
fn go_back(server: &Server, map: u64) {
    hears(server, map, map, master::Seat { origin: map, ..owned_by(0) });
}

/// A server hears by this map that every partition is so.
fn hears(server: &Server, epoch: u64, rewound: u64, seat: master::Seat) {
    server.plan(&plan(master::ServerMap { rewound, ..map(epoch, seat) })).unwrap();
}

fn keys() -> Vec<u8> {
    (0..KEYS).flat_map(u64::to_le_bytes).collect()
}

fn push(rewound: u64) -> wire::request::Op {
    let gradients: Vec<u8> = (0..KEYS).flat_map(|_| (-1.0_f32).to_le_bytes()).collect();
    let rows = vec![wire::RowGradients { table: 0, keys: keys().into(), gradients: gradients.into() }];
    let batch = Some(wire::Batch { dataset: 1, epoch: 0, first: 0, records: 1 });
    let model = model().fingerprint().0;
    wire::request::Op::Push(wire::Push { model, batch, rows, rewound: Some(rewound), ..wire::Push::default() })
}

/// What is read after so many steps since all servers went back by this map.
fn pull(rewound: u64, steps: u64) -> wire::request::Op {
    let (model, rows) = (model().fingerprint().0, vec![wire::Keys { table: 0, keys: keys().into() }]);
    let at_step = Some(wire::AtStep { steps, rewound });
    wire::request::Op::Pull(wire::Pull { model, rows, at_step, ..wire::Pull::default() })
}

fn take_first_step(server: &Server, rewound: u64) {
    let batches = vec![master::StepBatch { first: 0, records: 1 }];
    let first = master::StepTaken { step: 0, dataset: 1, epoch: 0, batches };
    server.follow_steps(&master::StepsTaken { rewound, taken: 1, steps: vec![first] });
}

#[test]
fn nobody_reads_or_changes_what_was_before_all_servers_went_back() {
    let (server, _reports) = server();
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

#[test]
fn who_asks_for_a_step_of_before_all_went_back_is_told_so_at_once() {
    let (server, _reports) = server();
    go_back(&server, 7);
    let answer = |rewound, steps| {
        let request = wire::Request { id: 1, op: Some(pull(rewound, steps)) };
        server.answered(request).now_or_never().and_then(|reply| reply.result)
    };
    let void = wire::NotYet { why: Some(wire::not_yet::Why::Rewound(7)) };
    assert_eq!(answer(6, 0), Some(Answer::NotYet(void)), "however many steps were taken then");
    assert_eq!(answer(6, 9), Some(Answer::NotYet(void)));
    assert!(matches!(answer(7, 0), Some(Answer::Pulled(_))));
}

/// Copies of all partitions, with the gradients of the first step, which they have not taken.
fn copies() -> Vec<Partition> {
    let (server, _reports) = server();
    go_back(&server, 1);
    let request = wire::Request { id: 1, op: Some(push(1)) };
    let pushed = server.answered(request).now_or_never().expect("there is nobody to wait for");
    assert!(matches!(pushed.result, Some(Answer::Pushed(_))));
    let hosted = server.0.hosted.get().unwrap();
    PartitionId::all().filter_map(|id| hosted.remove(id)).collect()
}

#[test]
fn nobody_reads_what_has_just_come_before_it_has_taken_the_steps_that_it_missed() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let all_keys: Vec<PartitionId> = (0..KEYS).map(|key| NameHash::of("t").place(key).partition()).collect();
    for round in 0..100 {
        let (server, _reports) = server();
        hears(&server, 1, 1, owned_by(1));
        for copy in copies() {
            server.0.posts.lock(copy.id()).turn = Turn::beginning(Origin(1));
            server.0.hosted.get().unwrap().install(copy);
        }
        take_first_step(&server, 1);
        let at_once = Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                at_once.wait();
                hears(&server, 2, 1, master::Seat { since: 2, ..owned_by(0) });
            });
            at_once.wait();
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_micros(round * 5) {
                std::hint::spin_loop();
            }
            let request = || wire::Request { id: 1, op: Some(pull(1, 1)) };
            // At most as often as there are partitions that come one by one.
            for _ in 0..10_000 {
                let reply = runtime.block_on(server.answered(request()));
                let Some(Answer::Pulled(pulled)) = reply.result else { panic!("the step was taken: {reply:?}") };
                let rows = pulled.rows[0].as_chunks::<4>().0.iter().map(|row| f32::from_le_bytes(*row));
                for (id, value) in all_keys.iter().zip(rows) {
                    let is_here = !pulled.elsewhere.contains(&id.number());
                    assert!(!is_here || value == 1.0, "partition {id} is read as it was a step before");
                }
                if pulled.elsewhere.is_empty() {
                    return;
                }
            }
            panic!("the partitions never come");
        });
    }
}
