//! What one partition promises: once, whole, in order; and a copy of it is the same.

use proptest::prelude::*;

use super::*;
use crate::dense::Slice;
use crate::hosted::Hosted;
use crate::piece::Piece;
use crate::spec::Optimizer;
use crate::testing::{Gradients, Naive, batch, layout, optimizers};

impl Partition {
    /// Steps and values of a row.
    pub(crate) fn record(&self, table: TableId, key: u64) -> Option<(u32, Vec<f32>)> {
        let of = &self.tables[table.0 as usize];
        let row = of.find(self.layout.name_hash(table)?.place(key), key)?;
        let (page, word) = of.pages().page_and_word(row);
        let record = &of.pages().page_words(page)[word..][..of.shape().words()];
        Some((of.shape().steps(record), of.shape().values(record).to_vec()))
    }

    /// Steps and values of a slice.
    pub(crate) fn whole_slice(&self, slice: SliceId) -> Option<(u32, Vec<f32>)> {
        let of: &Slice = &self.slices[self.place_of(slice)?].1;
        Some((of.steps, of.values().to_vec()))
    }
}

fn server(optimizer: Optimizer) -> (Arc<Layout>, Hosted) {
    let layout = layout(optimizer);
    let hosted = Hosted::new(Arc::clone(&layout));
    hosted.make(PartitionId::all());
    (layout, hosted)
}

/// Copies a partition as bytes, doing something between the pieces.
fn copy(from: &Hosted, id: PartitionId, mut meanwhile: impl FnMut()) -> Partition {
    let (snapshot, budget) = (from.next_snapshot(), Budget::new(usize::MAX));
    let mut copy = from.with(id, |partition| partition.begin_copy(snapshot, budget)).unwrap();
    let mut arriving = Arriving::new(&from.layout(), id);
    while let Some(piece) = from.with(id, |partition| partition.next_piece(&mut copy)).unwrap().unwrap() {
        arriving.take(Piece::from_bytes(&piece.to_bytes()).unwrap()).unwrap();
        meanwhile();
    }
    from.with(id, |partition| partition.end_copy(&copy)).unwrap();
    arriving.finish().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_copy_that_follows_is_the_same_partition(
        which in 0_usize..4,
        before in 0_u64..12,
        meanwhile in 0_u64..12,
        after in 0_u64..6,
    ) {
        let (layout, owner) = server(optimizers()[which]);
        let mut naive = Naive::new(&layout);
        let gradients = |number| Gradients::of_batch(&layout, number);
        for number in 0..before {
            gradients(number).push(&owner);
            naive.apply(&[gradients(number)]);
        }
        // Batches are applied while the first partitions are copied; each copy gets those that its owner had since.
        let mut next = before;
        let mut copies = Vec::new();
        for id in PartitionId::all() {
            let since = next;
            let copied = copy(&owner, id, || {
                if next < before + meanwhile {
                    gradients(next).push(&owner);
                    naive.apply(&[gradients(next)]);
                    next += 1;
                }
            });
            copies.push((since, copied));
        }
        let follower = Hosted::new(Arc::clone(&layout));
        for (since, copied) in copies {
            let id = copied.id();
            let alone = Hosted::new(Arc::clone(&layout));
            alone.install(copied);
            for number in since..next {
                gradients(number).push(&alone);
            }
            follower.install(alone.remove(id).unwrap());
        }
        naive.assert_held_by(&owner);
        naive.assert_held_by(&follower);
        for number in next..next + after {
            prop_assert_eq!(gradients(number).push(&owner), gradients(number).push(&follower));
            naive.apply(&[gradients(number)]);
        }
        naive.assert_held_by(&follower);
        for id in PartitionId::all() {
            let state = |hosted: &Hosted| hosted.with(id, |partition| (partition.version, partition.history.clone())).unwrap();
            prop_assert_eq!(state(&owner), state(&follower));
        }
    }

    #[test]
    fn a_synchronous_step_does_not_depend_on_who_came_first(
        which in 0_usize..4,
        steps in prop::collection::vec(1_usize..5, 1..5),
        shuffle in any::<u64>(),
    ) {
        let (layout, hosted) = server(optimizers()[which]);
        let (mut naive, mut first) = (Naive::new(&layout), 0);
        for (step, count) in (0_u64..).zip(steps) {
            let batches: Vec<Gradients> = (first..first + count as u64).map(|number| Gradients::of_batch(&layout, number)).collect();
            let ids: Vec<BatchId> = batches.iter().map(|gradients| gradients.batch.unwrap()).collect();
            let mut arrivals = batches.clone();
            arrivals.rotate_left((shuffle as usize + step as usize) % count);
            if shuffle.is_multiple_of(2) {
                arrivals.reverse();
            }
            for gradients in &arrivals {
                gradients.with(&layout, |push| hosted.buffer(gradients.batch.unwrap(), &hosted.check(push).unwrap()));
            }
            // Half-way through, all partitions move, with what waits.
            let moved = Hosted::new(Arc::clone(&layout));
            PartitionId::all().for_each(|id| assert!(moved.install(copy(&hosted, id, || {})).is_none()));
            for server in [&hosted, &moved] {
                let answers = server.commit(step, &ids, Divisors::average(count as u32), 0.0);
                let taken = Ok(Committed::Applied { version: step + 1 });
                prop_assert!(answers.iter().all(|(_, answer)| *answer == taken));
            }
            naive.apply(&batches);
            naive.assert_held_by(&hosted);
            naive.assert_held_by(&moved);
            prop_assert_eq!(hosted.load().waiting, 0);
            first += count as u64;
        }
    }
}

#[test]
fn a_batch_is_applied_once_whatever_is_repeated() {
    let (layout, hosted) = server(Optimizer::adam(0.1));
    let mut naive = Naive::new(&layout);
    let gradients = Gradients::of_batch(&layout, 3);
    naive.apply(std::slice::from_ref(&gradients));
    assert!(gradients.push(&hosted).iter().all(|(_, answer)| *answer == Ok(Pushed::Applied { version: 1 })));
    assert!(gradients.push(&hosted).iter().all(|(_, answer)| *answer == Ok(Pushed::AlreadyApplied { version: 1 })));
    naive.assert_held_by(&hosted);
    hosted.close(&[(batch(3).pass(), 0..128)]);
    assert!(gradients.push(&hosted).iter().all(|(_, answer)| *answer == Ok(Pushed::Closed)));
    naive.assert_held_by(&hosted);
    let cut_elsewhere = Gradients { batch: Some(BatchId { first: 100, ..batch(0) }), ..gradients };
    assert!(cut_elsewhere.push(&hosted).iter().all(|(_, answer)| matches!(answer, Err(Turned::CutElsewhere { .. }))));
    naive.assert_held_by(&hosted);
}

#[test]
fn a_copy_takes_over_what_its_owner_has_though_the_batch_is_closed_by_now() {
    let (layout, copy) = server(Optimizer::sgd(0.1));
    let gradients = Gradients::of_batch(&layout, 3);
    copy.close(&[(batch(3).pass(), 0..128)]);
    gradients.with(&layout, |push| {
        let checked = copy.check(push).unwrap();
        for id in checked.partitions() {
            let taken = copy.with(id, |partition| partition.take_over(&checked, false, None)).flatten();
            assert_eq!(taken, Ok(Pushed::Applied { version: 1 }));
        }
    });
    let mut naive = Naive::new(&layout);
    naive.apply(std::slice::from_ref(&gradients));
    naive.assert_held_by(&copy);
    assert!(gradients.push(&copy).iter().all(|(_, answer)| *answer == Ok(Pushed::AlreadyApplied { version: 1 })));
}

#[test]
fn a_commit_is_taken_once_and_in_order() {
    let (layout, hosted) = server(Optimizer::sgd(0.1));
    let gradients = Gradients::of_batch(&layout, 0);
    let buffer = || gradients.with(&layout, |push| hosted.buffer(batch(0), &hosted.check(push).unwrap()));
    assert!(buffer().iter().all(|(_, answer)| *answer == Ok(Buffered::Waiting)));
    assert!(buffer().iter().all(|(_, answer)| *answer == Ok(Buffered::AlreadyWaiting)));
    let commit = |step| hosted.commit(step, &[batch(0)], Divisors::average(1), 0.0);
    assert!(commit(1).iter().all(|(_, answer)| matches!(answer, Err(Turned::OutOfOrder { version: 0, asked: 1, .. }))));
    assert!(commit(0).iter().all(|(_, answer)| *answer == Ok(Committed::Applied { version: 1 })));
    assert!(commit(0).iter().all(|(_, answer)| *answer == Ok(Committed::AlreadyApplied { version: 1 })));
    assert!(buffer().iter().all(|(_, answer)| *answer == Ok(Buffered::AlreadyApplied)));
    let mut naive = Naive::new(&layout);
    naive.apply(std::slice::from_ref(&gradients));
    naive.assert_held_by(&hosted);
}

#[test]
fn a_stale_push_takes_a_smaller_step() {
    let (layout, hosted) = server(Optimizer::sgd(0.1));
    let slice = SliceId { variable: 0, index: 0 };
    let push = |based_on| {
        let gradients = Gradients { batch: None, tables: vec![], slices: vec![(slice, 0, vec![1.0, 1.0, 1.0])] };
        gradients.push_on(&hosted, |_| Terms { based_on })
    };
    let id = layout.partition_of(slice).unwrap();
    let weight = || hosted.with(id, |partition| partition.slice(slice).unwrap().weights[0]).unwrap();
    (0..4).for_each(|_| assert_eq!(push(None).len(), 1));
    let before = weight();
    push(Some(0));
    assert_eq!(weight(), before - 0.1 / 4.0 * 1.0);
}

#[test]
fn pieces_of_something_else_do_not_arrive() {
    let (layout, hosted) = server(Optimizer::sgd(0.1));
    (0..5).for_each(|number| drop(Gradients::of_batch(&layout, number).push(&hosted)));
    let id = layout.name_hash(TableId(0)).unwrap().place(1).partition();
    let mut copy = hosted.with(id, |partition| partition.begin_copy(SnapshotId(99), Budget::new(1 << 20))).unwrap();
    let mut pieces = Vec::new();
    while let Some(piece) = hosted.with(id, |partition| partition.next_piece(&mut copy)).unwrap().unwrap() {
        pieces.push(piece);
    }
    let arrive = |layout: &Arc<Layout>, id, pieces: &[Piece]| {
        let mut arriving = Arriving::new(layout, id);
        pieces.iter().try_for_each(|piece| arriving.take(piece.clone()))?;
        arriving.finish().map(|partition| partition.rows())
    };
    assert!(arrive(&layout, id, &pieces).unwrap() > 0);
    let other_model = crate::testing::layout(Optimizer::adam(0.1));
    assert!(matches!(arrive(&other_model, id, &pieces), Err(ArrivalError::OtherModel { .. })));
    let other = PartitionId(id.0.wrapping_add(1));
    assert!(matches!(arrive(&layout, other, &pieces), Err(ArrivalError::OtherPartition { .. })));
    assert!(matches!(arrive(&layout, id, &pieces[1..]), Err(ArrivalError::Disorder(_))));
    assert!(matches!(arrive(&layout, id, &pieces[..pieces.len() - 1]), Err(ArrivalError::Missing { .. })));
    let (last, rest) = pieces.split_last().unwrap();
    let mut twice = rest.to_vec();
    twice.push(rest.last().unwrap().clone());
    twice.push(last.clone());
    assert!(matches!(arrive(&layout, id, &twice), Err(ArrivalError::Row { .. })));
    let short: Vec<_> = rest[..rest.len() - 1].iter().chain([last]).cloned().collect();
    assert!(matches!(arrive(&layout, id, &short), Err(ArrivalError::Missing { .. })));
}
