//! Tests of one partition: exactly-once updates, ordered steps, and identical replicas.

use proptest::prelude::*;

use super::*;
use crate::dense::Slice;
use crate::hosted::HostedPartitions;
use crate::piece::Piece;
use crate::spec::Optimizer;
use crate::test_support::{ReferenceModel, TestGradients, batch, layout, optimizers};

impl Partition {
    /// Steps and values of a row.
    pub(crate) fn record(&self, table: TableId, key: u64) -> Option<(u32, Vec<f32>)> {
        let of = &self.tables[table.0 as usize];
        let row = of.find(self.layout.name_hash(table)?.hash_key(key), key)?;
        let (page, word) = of.pages().page_and_word(row);
        let record = &of.pages().page_words(page)[word..][..of.shape().words()];
        Some((of.shape().steps(record), of.shape().values(record).to_vec()))
    }

    /// Steps and values of a slice.
    pub(crate) fn slice_state(&self, slice: SliceId) -> Option<(u32, Vec<f32>)> {
        let of: &Slice = &self.slices[self.slice_index(slice)?].1;
        Some((of.steps, of.values().to_vec()))
    }
}

fn server(optimizer: Optimizer) -> (Arc<Layout>, HostedPartitions) {
    let layout = layout(optimizer);
    let hosted = HostedPartitions::new(Arc::clone(&layout));
    hosted.make(PartitionId::all());
    (layout, hosted)
}

/// Exports and imports a partition as bytes, and calls `meanwhile` between the pieces.
fn transfer(from: &HostedPartitions, id: PartitionId, mut meanwhile: impl FnMut()) -> Partition {
    let (snapshot, budget) = (from.next_snapshot(), Budget::new(usize::MAX));
    let mut export = from.with(id, |partition| partition.start_export(snapshot, budget)).unwrap();
    let mut import = PartitionImport::new(&from.layout(), id);
    while let Some(piece) = from.with(id, |partition| partition.next_piece(&mut export)).unwrap().unwrap() {
        import.add(Piece::from_bytes(&piece.to_bytes()).unwrap()).unwrap();
        meanwhile();
    }
    from.with(id, |partition| partition.end_export(&export)).unwrap();
    import.finish().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn an_imported_partition_that_gets_later_updates_is_identical(
        which in 0_usize..4,
        before in 0_u64..12,
        meanwhile in 0_u64..12,
        after in 0_u64..6,
    ) {
        let (layout, primary) = server(optimizers()[which]);
        let mut reference = ReferenceModel::new(&layout);
        let gradients = |number| TestGradients::of_batch(&layout, number);
        for number in 0..before {
            gradients(number).push(&primary);
            reference.apply(&[gradients(number)]);
        }
        // Batches are applied during the first exports. Each import gets the batches that its primary applied since.
        let mut next = before;
        let mut imported = Vec::new();
        for id in PartitionId::all() {
            let since = next;
            let import = transfer(&primary, id, || {
                if next < before + meanwhile {
                    gradients(next).push(&primary);
                    reference.apply(&[gradients(next)]);
                    next += 1;
                }
            });
            imported.push((since, import));
        }
        let backup = HostedPartitions::new(Arc::clone(&layout));
        for (since, import) in imported {
            let id = import.id();
            let alone = HostedPartitions::new(Arc::clone(&layout));
            alone.install(import);
            for number in since..next {
                gradients(number).push(&alone);
            }
            backup.install(alone.remove(id).unwrap());
        }
        reference.assert_matches(&primary);
        reference.assert_matches(&backup);
        for number in next..next + after {
            prop_assert_eq!(gradients(number).push(&primary), gradients(number).push(&backup));
            reference.apply(&[gradients(number)]);
        }
        reference.assert_matches(&backup);
        for id in PartitionId::all() {
            let state = |hosted: &HostedPartitions| hosted.with(id, |partition| (partition.version, partition.history.clone())).unwrap();
            prop_assert_eq!(state(&primary), state(&backup));
        }
    }

    #[test]
    fn a_synchronous_step_does_not_depend_on_the_order_of_arrival(
        which in 0_usize..4,
        steps in prop::collection::vec(1_usize..5, 1..5),
        shuffle in any::<u64>(),
    ) {
        let (layout, hosted) = server(optimizers()[which]);
        let (mut reference, mut first) = (ReferenceModel::new(&layout), 0);
        for (step, count) in (0_u64..).zip(steps) {
            let batches: Vec<TestGradients> = (first..first + count as u64).map(|number| TestGradients::of_batch(&layout, number)).collect();
            let ids: Vec<BatchId> = batches.iter().map(|gradients| gradients.batch.unwrap()).collect();
            let mut arrivals = batches.clone();
            arrivals.rotate_left((shuffle as usize + step as usize) % count);
            if shuffle.is_multiple_of(2) {
                arrivals.reverse();
            }
            for gradients in &arrivals {
                gradients.with(&layout, |push| hosted.buffer(gradients.batch.unwrap(), &hosted.check(push).unwrap()));
            }
            // All partitions move in the middle of a step, with their buffered contributions.
            let moved = HostedPartitions::new(Arc::clone(&layout));
            PartitionId::all().for_each(|id| assert!(moved.install(transfer(&hosted, id, || {})).is_none()));
            for server in [&hosted, &moved] {
                let answers = server.commit(step, &ids, Divisors::average(count as u32), 0.0);
                let taken = Ok(CommitOutcome::Applied { version: step + 1 });
                prop_assert!(answers.iter().all(|(_, answer)| *answer == taken));
            }
            reference.apply(&batches);
            reference.assert_matches(&hosted);
            reference.assert_matches(&moved);
            prop_assert_eq!(hosted.load().waiting, 0);
            first += count as u64;
        }
    }
}

#[test]
fn a_repeated_batch_is_applied_once() {
    let (layout, hosted) = server(Optimizer::adam(0.1));
    let mut reference = ReferenceModel::new(&layout);
    let gradients = TestGradients::of_batch(&layout, 3);
    reference.apply(std::slice::from_ref(&gradients));
    assert!(gradients.push(&hosted).iter().all(|(_, answer)| *answer == Ok(PartOutcome::Applied { version: 1 })));
    assert!(
        gradients
            .push(&hosted)
            .iter()
            .all(|(_, answer)| *answer == Ok(PartOutcome::AlreadyApplied { version: Some(1) }))
    );
    reference.assert_matches(&hosted);
    hosted.close(&[(batch(3).dataset_epoch(), 0..128)]);
    assert!(gradients.push(&hosted).iter().all(|(_, answer)| *answer == Ok(PartOutcome::Closed)));
    reference.assert_matches(&hosted);
    let overlapping = TestGradients { batch: Some(BatchId { first: 100, ..batch(0) }), ..gradients };
    assert!(
        overlapping
            .push(&hosted)
            .iter()
            .all(|(_, answer)| matches!(answer, Err(PartitionError::OverlapsApplied { .. })))
    );
    reference.assert_matches(&hosted);
}

#[test]
fn a_backup_applies_a_replicated_push_of_a_closed_batch() {
    let (layout, backup) = server(Optimizer::sgd(0.1));
    let gradients = TestGradients::of_batch(&layout, 3);
    backup.close(&[(batch(3).dataset_epoch(), 0..128)]);
    gradients.with(&layout, |push| {
        let checked = backup.check(push).unwrap();
        for id in checked.partitions() {
            let outcome = backup.with(id, |partition| partition.apply_replicated(&checked, false, None)).flatten();
            assert_eq!(outcome, Ok(PartOutcome::Applied { version: 1 }));
        }
    });
    let mut reference = ReferenceModel::new(&layout);
    reference.apply(std::slice::from_ref(&gradients));
    reference.assert_matches(&backup);
    assert!(
        gradients
            .push(&backup)
            .iter()
            .all(|(_, answer)| *answer == Ok(PartOutcome::AlreadyApplied { version: Some(1) }))
    );
}

#[test]
fn a_step_is_committed_once_and_in_order() {
    let (layout, hosted) = server(Optimizer::sgd(0.1));
    let gradients = TestGradients::of_batch(&layout, 0);
    let buffer = || gradients.with(&layout, |push| hosted.buffer(batch(0), &hosted.check(push).unwrap()));
    assert!(buffer().iter().all(|(_, answer)| *answer == Ok(BufferOutcome::Waiting)));
    assert!(buffer().iter().all(|(_, answer)| *answer == Ok(BufferOutcome::AlreadyWaiting)));
    let commit = |step| hosted.commit(step, &[batch(0)], Divisors::average(1), 0.0);
    assert!(
        commit(1)
            .iter()
            .all(|(_, answer)| matches!(answer, Err(PartitionError::OutOfOrder { version: 0, asked: 1, .. })))
    );
    assert!(commit(0).iter().all(|(_, answer)| *answer == Ok(CommitOutcome::Applied { version: 1 })));
    assert!(commit(0).iter().all(|(_, answer)| *answer == Ok(CommitOutcome::AlreadyApplied { version: 1 })));
    assert!(buffer().iter().all(|(_, answer)| *answer == Ok(BufferOutcome::AlreadyApplied)));
    let mut reference = ReferenceModel::new(&layout);
    reference.apply(std::slice::from_ref(&gradients));
    reference.assert_matches(&hosted);
}

#[test]
fn a_stale_push_has_a_smaller_learning_rate() {
    let (layout, hosted) = server(Optimizer::sgd(0.1));
    let slice = SliceId { variable: 0, index: 0 };
    let push = |based_on| {
        let gradients = TestGradients { batch: None, tables: vec![], slices: vec![(slice, 0, vec![1.0, 1.0, 1.0])] };
        gradients.push_on(&hosted, |_| PushOptions { based_on })
    };
    let id = layout.partition_of(slice).unwrap();
    let weight = || hosted.with(id, |partition| partition.slice(slice).unwrap().weights[0]).unwrap();
    (0..4).for_each(|_| assert_eq!(push(None).len(), 1));
    let before = weight();
    push(Some(0));
    assert_eq!(weight(), before - 0.1 / 4.0 * 1.0);
}

#[test]
fn pieces_that_do_not_fit_are_rejected() {
    let (layout, hosted) = server(Optimizer::sgd(0.1));
    (0..5).for_each(|number| drop(TestGradients::of_batch(&layout, number).push(&hosted)));
    let id = layout.name_hash(TableId(0)).unwrap().hash_key(1).partition();
    let mut export = hosted.with(id, |partition| partition.start_export(SnapshotId(99), Budget::new(1 << 20))).unwrap();
    let mut pieces = Vec::new();
    while let Some(piece) = hosted.with(id, |partition| partition.next_piece(&mut export)).unwrap().unwrap() {
        pieces.push(piece);
    }
    let import_all = |layout: &Arc<Layout>, id, pieces: &[Piece]| {
        let mut import = PartitionImport::new(layout, id);
        pieces.iter().try_for_each(|piece| import.add(piece.clone()))?;
        import.finish().map(|partition| partition.rows())
    };
    assert!(import_all(&layout, id, &pieces).unwrap() > 0);
    let other_model = crate::test_support::layout(Optimizer::adam(0.1));
    assert!(matches!(import_all(&other_model, id, &pieces), Err(ImportError::OtherModel { .. })));
    let other = PartitionId(id.0.wrapping_add(1));
    assert!(matches!(import_all(&layout, other, &pieces), Err(ImportError::OtherPartition { .. })));
    assert!(matches!(import_all(&layout, id, &pieces[1..]), Err(ImportError::Disorder(_))));
    assert!(matches!(import_all(&layout, id, &pieces[..pieces.len() - 1]), Err(ImportError::Missing { .. })));
    let (last, rest) = pieces.split_last().unwrap();
    let mut twice = rest.to_vec();
    twice.push(rest.last().unwrap().clone());
    twice.push(last.clone());
    assert!(matches!(import_all(&layout, id, &twice), Err(ImportError::Row { .. })));
    let short: Vec<_> = rest[..rest.len() - 1].iter().chain([last]).cloned().collect();
    assert!(matches!(import_all(&layout, id, &short), Err(ImportError::Missing { .. })));
}
