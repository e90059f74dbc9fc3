//! What clients see during a rewind, on several threads.

use std::sync::Barrier;
use std::time::Instant;

use flexor_wire::ps::v1::reply::Result as Answer;
use futures::FutureExt;

use super::*;
use crate::placement::{NameHash, PARTITIONS};
use crate::server::sequence::{PartitionGeneration, SequenceNumber};
use crate::server::testing::{map, model, plan, primary_is, server};

const KEYS: u64 = 4096;
const LAST: u64 = 300;

/// Rewinds all partitions to their initial values by this map.
fn rewind(server: &Server, map: u64) {
    apply_map(server, map, map, master::PartitionReplicas { generation: map, ..primary_is(0) });
}

/// Applies a map in which every partition has these replicas.
fn apply_map(server: &Server, epoch: u64, rewind_epoch: u64, replicas: master::PartitionReplicas) {
    server.apply_plan(&plan(master::PartitionMap { rewind_epoch, ..map(epoch, replicas) })).unwrap();
}

fn keys() -> Vec<u8> {
    (0..KEYS).flat_map(u64::to_le_bytes).collect()
}

fn push(rewind_epoch: u64) -> wire::request::Op {
    let gradients: Vec<u8> = (0..KEYS).flat_map(|_| (-1.0_f32).to_le_bytes()).collect();
    let rows = vec![wire::RowGradients { table: 0, keys: keys().into(), gradients: gradients.into() }];
    let batch = Some(wire::Batch { dataset: 1, epoch: 0, first: 0, records: 1 });
    let model = model().fingerprint().0;
    wire::request::Op::Push(wire::Push {
        model,
        batch,
        rows,
        rewind_epoch: Some(rewind_epoch),
        ..wire::Push::default()
    })
}

/// A pull after this number of steps since the rewind.
fn pull(rewind_epoch: u64, steps: u64) -> wire::request::Op {
    let (model, rows) = (model().fingerprint().0, vec![wire::Keys { table: 0, keys: keys().into() }]);
    let at_step = Some(wire::AtStep { steps, rewind_epoch });
    wire::request::Op::Pull(wire::Pull { model, rows, at_step, ..wire::Pull::default() })
}

fn commit_first_step(server: &Server, rewind_epoch: u64) {
    let batches = vec![master::StepBatch { first: 0, records: 1 }];
    let first = master::CommittedStep { step: 0, dataset: 1, epoch: 0, batches };
    server.record_committed_steps(&master::CommittedSteps { rewind_epoch, committed: 1, steps: vec![first] });
}

#[test]
fn no_client_reads_or_changes_values_from_before_a_rewind() {
    let (server, _reports) = server();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let ask = |op: wire::request::Op| runtime.block_on(server.answered(wire::Request { id: 1, op: Some(op) }));
    rewind(&server, 1);
    for map in 2..LAST {
        let Some(Answer::Pushed(pushed)) = ask(push(map - 1)).result else { panic!("the push is valid") };
        assert!(pushed.parts.iter().all(|part| part.outcome() == wire::pushed_part::Outcome::Applied));
        commit_first_step(&server, map - 1);
        let at_once = Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                at_once.wait();
                rewind(&server, map);
            });
            at_once.wait();
            // Between the first partition that is rewound and the last.
            let started = Instant::now();
            while started.elapsed() < Duration::from_micros(map % 100 * 5) {
                std::hint::spin_loop();
            }
            let pulled = loop {
                if let Some(Answer::Pulled(pulled)) = ask(pull(map, 0)).result {
                    break pulled;
                }
            };
            assert!(pulled.retry_partitions.is_empty(), "{:?}", pulled.retry_partitions);
            assert!(pulled.rows[0].iter().all(|byte| *byte == 0), "a row has values from before map {map}");
        });
    }
    std::thread::scope(|scope| {
        scope.spawn(|| rewind(&server, LAST));
        // Parts applied to a partition before its rewind would be missing in the step.
        let mut left = PARTITIONS;
        while left > 0 {
            let Some(Answer::Pushed(pushed)) = ask(push(LAST)).result else { panic!("the push is valid") };
            let taken = |part: &&wire::PushedPart| part.outcome() == wire::pushed_part::Outcome::Applied;
            left -= pushed.parts.iter().filter(taken).count();
        }
    });
    commit_first_step(&server, LAST);
    let Some(Answer::Pulled(pulled)) = ask(pull(LAST, 1)).result else { panic!("the step is committed") };
    let ones: Vec<u8> = (0..KEYS).flat_map(|_| 1.0_f32.to_le_bytes()).collect();
    assert!(pulled.rows[0] == ones, "a part of the push is missing");
}

#[test]
fn a_pull_for_a_step_before_the_rewind_is_void_at_once() {
    let (server, _reports) = server();
    rewind(&server, 7);
    let answer = |rewind_epoch, steps| {
        let request = wire::Request { id: 1, op: Some(pull(rewind_epoch, steps)) };
        server.answered(request).now_or_never().and_then(|reply| reply.result)
    };
    let void = wire::NotYet { why: Some(wire::not_yet::Why::RewindEpoch(7)) };
    assert_eq!(answer(6, 0), Some(Answer::NotYet(void)), "however many steps were committed then");
    assert_eq!(answer(6, 9), Some(Answer::NotYet(void)));
    assert!(matches!(answer(7, 0), Some(Answer::Pulled(_))));
}

/// All partitions, with buffered gradients of the first step, which is not committed.
fn partitions_before_first_step() -> Vec<Partition> {
    let (server, _reports) = server();
    rewind(&server, 1);
    let request = wire::Request { id: 1, op: Some(push(1)) };
    let pushed = server.answered(request).now_or_never().expect("there is no backup to wait for");
    assert!(matches!(pushed.result, Some(Answer::Pushed(_))));
    let hosted = server.0.hosted.get().unwrap();
    PartitionId::all().filter_map(|id| hosted.remove(id)).collect()
}

#[test]
fn a_new_partition_is_not_read_before_it_has_committed_the_missed_steps() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let all_keys: Vec<PartitionId> = (0..KEYS).map(|key| NameHash::of("t").hash_key(key).partition()).collect();
    for round in 0..100 {
        let (server, _reports) = server();
        apply_map(&server, 1, 1, primary_is(1));
        for partition in partitions_before_first_step() {
            server.0.replicas.lock(partition.id()).last_applied = SequenceNumber::start_of(PartitionGeneration(1));
            server.0.hosted.get().unwrap().install(partition);
        }
        commit_first_step(&server, 1);
        let at_once = Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                at_once.wait();
                apply_map(&server, 2, 1, master::PartitionReplicas { primary_since: 2, ..primary_is(0) });
            });
            at_once.wait();
            let started = Instant::now();
            while started.elapsed() < Duration::from_micros(round * 5) {
                std::hint::spin_loop();
            }
            let request = || wire::Request { id: 1, op: Some(pull(1, 1)) };
            // Bounded: partitions arrive one by one.
            for _ in 0..10_000 {
                let reply = runtime.block_on(server.answered(request()));
                let Some(Answer::Pulled(pulled)) = reply.result else { panic!("the step is committed: {reply:?}") };
                let rows = pulled.rows[0].as_chunks::<4>().0.iter().map(|row| f32::from_le_bytes(*row));
                for (id, value) in all_keys.iter().zip(rows) {
                    let is_here = !pulled.retry_partitions.contains(&id.number());
                    assert!(!is_here || value == 1.0, "partition {id} is read a step too early");
                }
                if pulled.retry_partitions.is_empty() {
                    return;
                }
            }
            panic!("the partitions never arrive");
        });
    }
}
