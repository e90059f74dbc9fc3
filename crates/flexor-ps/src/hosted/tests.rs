//! Compares a server with a reference model through random histories.

use proptest::prelude::*;

use super::*;
use crate::buckets::Buckets;
use crate::layout::{SliceId, TableId};
use crate::push::RowKeys;
use crate::snapshot::SnapshotLost;
use crate::spec::{Initializer, Optimizer, TableSpec, VariableSpec};
use crate::test_support::{ReferenceModel, TestGradients, batch, key, keys, layout, optimizers, read};

fn server(optimizer: Optimizer) -> (Arc<Layout>, HostedPartitions) {
    let layout = layout(optimizer);
    let hosted = HostedPartitions::new(Arc::clone(&layout));
    hosted.make(PartitionId::all());
    (layout, hosted)
}

fn slices(layout: &Layout) -> Vec<SliceRequest> {
    layout.slices().map(|slice| SliceRequest { slice, known: None }).collect()
}

fn assert_reads_as(hosted: &HostedPartitions, reference: &ReferenceModel, reading: ReadMode) {
    for table in [TableId(0), TableId(1)] {
        let wanted: Vec<Vec<f32>> = keys().into_iter().map(|key| reference.weights(table, key)).collect();
        assert_eq!(read(hosted, table, reading), wanted);
    }
    let give = |slice: SliceId, answer: DenseAnswer<'_>| match answer {
        DenseAnswer::Modified { weights, .. } => assert!(weights == reference.slice(slice), "{slice}"),
        DenseAnswer::NotModified | DenseAnswer::NotHere => panic!("{slice}: {answer:?}"),
    };
    hosted.pull_dense(&slices(&hosted.layout()), reading, give).unwrap();
}

#[derive(Debug, Clone)]
enum Event {
    Push(u64),
    Pull(u8),
    OpenSnapshot,
    ReadSnapshot(usize),
    CloseSnapshot(usize),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0_u64..30).prop_map(Event::Push),
        2 => (0_u8..2).prop_map(Event::Pull),
        1 => Just(Event::OpenSnapshot),
        2 => any::<usize>().prop_map(Event::ReadSnapshot),
        1 => any::<usize>().prop_map(Event::CloseSnapshot),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_history_matches_the_reference_model(
        which in 0_usize..4,
        history in prop::collection::vec(event(), 1..40),
    ) {
        let (layout, hosted) = server(optimizers()[which]);
        let (mut reference, mut pushed) = (ReferenceModel::new(&layout), std::collections::BTreeSet::new());
        let mut snapshots: Vec<(SnapshotId, ReferenceModel)> = Vec::new();
        for event in history {
            match event {
                Event::Push(number) => {
                    let gradients = TestGradients::of_batch(&layout, number);
                    let answers = gradients.push(&hosted);
                    let is_new = pushed.insert(number);
                    for (_, answer) in answers {
                        prop_assert_eq!(matches!(answer, Ok(PartOutcome::Applied { .. })), is_new, "{:?}", answer);
                    }
                    if is_new {
                        reference.apply(&[gradients]);
                    }
                }
                Event::Pull(table) => {
                    let table = TableId(table.into());
                    let wanted: Vec<Vec<f32>> = keys().into_iter().map(|key| reference.weights(table, key)).collect();
                    prop_assert_eq!(read(&hosted, table, ReadMode::Train), wanted);
                }
                Event::OpenSnapshot => snapshots.push((hosted.open_snapshot(PartitionId::all(), usize::MAX), reference.clone())),
                Event::ReadSnapshot(which) if !snapshots.is_empty() => {
                    let (id, then) = &snapshots[which % snapshots.len()];
                    assert_reads_as(&hosted, then, ReadMode::Snapshot(*id));
                }
                Event::CloseSnapshot(which) if !snapshots.is_empty() => {
                    let (id, _) = snapshots.remove(which % snapshots.len());
                    hosted.close_snapshot(id);
                }
                Event::ReadSnapshot(_) | Event::CloseSnapshot(_) => {}
            }
        }
        snapshots.iter().for_each(|(id, then)| assert_reads_as(&hosted, then, ReadMode::Snapshot(*id)));
        assert_reads_as(&hosted, &reference, ReadMode::Peek);
        reference.assert_matches(&hosted);
    }
}

#[test]
fn evaluation_creates_no_rows() {
    let (_, hosted) = server(Optimizer::adagrad(0.1));
    let peeked = read(&hosted, TableId(0), ReadMode::Peek);
    assert_eq!(hosted.load().rows, 0);
    assert_eq!(read(&hosted, TableId(0), ReadMode::Train), peeked);
    assert_eq!(hosted.load().rows, keys().len() as u64);
}

#[test]
fn a_current_slice_is_not_sent_again() {
    let (layout, hosted) = server(Optimizer::sgd(0.1));
    let mut known = slices(&layout);
    let sent = |known: &mut Vec<SliceRequest>| {
        let mut sent = 0;
        let mut now = Vec::new();
        let give = |slice, answer: DenseAnswer<'_>| {
            if let DenseAnswer::Modified { version, .. } = answer {
                sent += 1;
                now.push(SliceRequest { slice, known: Some(version) });
            }
        };
        hosted.pull_dense(known, ReadMode::Train, give).unwrap();
        for of in &now {
            known.iter_mut().filter(|known| known.slice == of.slice).for_each(|known| *known = *of);
        }
        sent
    };
    assert_eq!(sent(&mut known), 3);
    assert_eq!(sent(&mut known), 0);
    TestGradients::of_batch(&layout, 1).push(&hosted);
    assert_eq!(sent(&mut known), 2);
    assert_eq!(sent(&mut known), 0);
}

#[test]
fn a_snapshot_over_its_budget_is_lost_with_the_reason() {
    let (layout, hosted) = server(Optimizer::sgd(0.1));
    let id = hosted.open_snapshot(PartitionId::all(), 1000);
    TestGradients::of_batch(&layout, 0).push(&hosted);
    let keys = keys();
    let buckets = Buckets::of(layout.name_hash(TableId(0)).unwrap(), &keys);
    let wanted = RowKeys { table: TableId(0), keys: &keys, buckets: &buckets };
    let lost = hosted.pull(wanted, ReadMode::Snapshot(id), &mut Vec::new()).unwrap_err();
    assert_eq!(lost, PullError::Snapshot(SnapshotLost::Overrun { budget: 1000 }));
    hosted.close_snapshot(id);
    let closed = hosted.pull(wanted, ReadMode::Snapshot(id), &mut Vec::new()).unwrap_err();
    assert_eq!(closed, PullError::Snapshot(SnapshotLost::Unknown));
}

#[test]
fn a_missing_partition_is_named_and_the_others_answer() {
    let (layout, hosted) = server(Optimizer::sgd(0.1));
    let gone = layout.name_hash(TableId(0)).unwrap().hash_key(key(1)).partition();
    assert!(hosted.remove(gone).is_some());
    let keys = keys();
    let buckets = Buckets::of(layout.name_hash(TableId(0)).unwrap(), &keys);
    let mut out = Vec::new();
    let wanted = RowKeys { table: TableId(0), keys: &keys, buckets: &buckets };
    let turned = hosted.pull(wanted, ReadMode::Train, &mut out).unwrap();
    assert_eq!(turned, [PartitionError::NotHere(gone)]);
    assert_eq!(out.len(), keys.len() * 5);
    let answers = TestGradients::of_batch(&layout, 0).push(&hosted);
    let refused: Vec<_> = answers.iter().filter(|(_, answer)| answer.is_err()).map(|(id, _)| *id).collect();
    assert!(refused.len() <= 1 && answers.len() > 10, "{refused:?}");
}

#[test]
fn a_model_may_grow_but_not_change() {
    let (layout, hosted) = server(Optimizer::sgd(0.1));
    TestGradients::of_batch(&layout, 0).push(&hosted);
    let mut larger = layout.spec().clone();
    larger.tables.push(TableSpec { name: "late".into(), dim: 3, init: Initializer::Ones });
    larger.variables.push(VariableSpec { name: "late/kernel".into(), shape: vec![4], init: Initializer::Ones });
    let larger = hosted.declare(larger).unwrap();
    let late = larger.table_named("late").unwrap();
    assert_eq!(read(&hosted, late, ReadMode::Train)[0], [1.0; 3]);
    let slice = SliceId { variable: 2, index: 0 };
    let give = |_, answer: DenseAnswer<'_>| {
        assert_eq!(answer, DenseAnswer::Modified { version: 0, weights: &[1.0; 4] });
    };
    hosted.pull_dense(&[SliceRequest { slice, known: None }], ReadMode::Train, give).unwrap();
    let mut other = larger.spec().clone();
    other.seed += 1;
    assert_eq!(hosted.declare(other).unwrap_err(), DeclareError::OtherModel);
}

#[test]
fn a_client_can_assign_values() {
    let (layout, hosted) = server(Optimizer::sgd(0.1));
    let slice = SliceId { variable: 0, index: 0 };
    let id = layout.partition_of(slice).unwrap();
    let assigned = hosted.with(id, |partition| partition.assign_slice(&layout, slice, &[1.0, 2.0, 3.0])).unwrap();
    assert_eq!(assigned, Ok(true));
    let wrong = hosted.with(id, |partition| partition.assign_slice(&layout, slice, &[1.0])).unwrap();
    assert_eq!(wrong, Ok(false));
    let buckets = Buckets::of(layout.name_hash(TableId(1)).unwrap(), &[7]);
    let of = RowKeys { table: TableId(1), keys: &[7], buckets: &buckets };
    let row_partition = buckets.partitions().next().unwrap();
    hosted.with(row_partition, |partition| partition.assign_rows(&layout, of, &[0.5, 0.25])).unwrap().unwrap();
    let mut out = Vec::new();
    hosted.pull(of, ReadMode::Peek, &mut out).unwrap();
    assert_eq!(out, [0.5, 0.25]);
    assert_eq!(hosted.with(id, |partition| partition.slice(slice).unwrap().weights.to_vec()).unwrap(), [1.0, 2.0, 3.0]);
}

#[test]
fn ranges_of_several_epochs_are_closed_together() {
    let (layout, hosted) = server(Optimizer::sgd(0.1));
    let of_epoch = |epoch, number| {
        let batch = Some(BatchId { epoch, ..batch(number) });
        TestGradients { batch, ..TestGradients::of_batch(&layout, number) }
    };
    let dataset_epoch = |epoch| DatasetEpoch { epoch, ..batch(0).dataset_epoch() };
    hosted.close(&[(dataset_epoch(0), 0..64), (dataset_epoch(1), 32..64), (dataset_epoch(1), 96..128)]);
    for (epoch, number) in [(0, 0), (0, 1), (1, 1), (1, 3)] {
        let answers = of_epoch(epoch, number).push(&hosted);
        assert!(answers.iter().all(|(_, answer)| *answer == Ok(PartOutcome::Closed)), "{epoch} {number}: {answers:?}");
    }
    for (epoch, number) in [(0, 2), (1, 0), (1, 2), (2, 0)] {
        let answers = of_epoch(epoch, number).push(&hosted);
        let is_open = |answer: &Result<PartOutcome, PartitionError>| matches!(answer, Ok(PartOutcome::Applied { .. }));
        assert!(answers.iter().all(|(_, answer)| is_open(answer)), "{epoch} {number}: {answers:?}");
    }
}

#[test]
fn load_reports_requests_and_sizes() {
    let (layout, hosted) = server(Optimizer::adam(0.1));
    TestGradients::of_batch(&layout, 0).push(&hosted);
    read(&hosted, TableId(0), ReadMode::Train);
    read(&hosted, TableId(1), ReadMode::Train);
    hosted.count_pull(100);
    let load = hosted.load();
    assert_eq!((load.partitions, load.pulls, load.rows_pulled, load.pushes, load.rows_pushed), (256, 1, 100, 1, 48));
    assert!(load.rows >= 100 && load.bytes > 70_000 * 12, "{load:?}");
    hosted.close(&[(batch(0).dataset_epoch(), 0..32)]);
    assert_eq!(hosted.remove(PartitionId(3)).map(|partition| partition.id()), Some(PartitionId(3)));
    assert_eq!(hosted.load().partitions, 255);
}
