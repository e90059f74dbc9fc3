//! Checkpoints restore on any number of servers, survive any interruption, and name their damage.

mod corpus;
mod in_memory;
mod large_file;

use std::sync::Arc;

use in_memory::InMemory;
use safetensors::SafeTensors;

use super::*;
use crate::hosted::Hosted;
use crate::layout::{Layout, TableId};
use crate::partition::Buffered;
use crate::placement::PARTITIONS;
use crate::spec::Optimizer;
use crate::testing::{Gradients, Naive, batch, keys, layout, optimizers};

const LEDGER: &[u8] = b"where the data stood";

/// A model on several servers.
fn servers(layout: &Arc<Layout>, count: usize) -> Vec<Hosted> {
    let servers: Vec<_> = (0..count).map(|_| Hosted::new(Arc::clone(layout))).collect();
    PartitionId::all().for_each(|id| servers[id.index() % count].make([id]));
    servers
}

fn train(servers: &[Hosted], naive: &mut Naive, batches: std::ops::Range<u64>) {
    for number in batches {
        let gradients = Gradients::of_batch(&servers[0].layout(), number);
        servers.iter().for_each(|server| drop(gradients.push(server)));
        naive.apply(&[gradients]);
    }
}

fn save(storage: &dyn Storage, id: u64, servers: &[Hosted]) -> Result<Manifest, CheckpointError> {
    let (id, count) = (CheckpointId(id), servers.len());
    let part = |(i, server)| write_part(storage, id, &format!("{i}-of-{count}"), server, Moment::OneByOne);
    let parts = servers.iter().enumerate().map(part).collect::<Result<_, _>>()?;
    write_manifest(storage, id, servers[0].layout().spec(), parts, LEDGER.to_vec())
}

fn restore(
    storage: &dyn Storage,
    id: CheckpointId,
    layout: &Arc<Layout>,
    count: usize,
) -> Result<Vec<Hosted>, CheckpointError> {
    let checkpoint = Checkpoint::open(storage, id)?;
    assert_eq!(checkpoint.manifest().ledger, LEDGER);
    let server = |number: usize| {
        let own: Vec<_> = PartitionId::all().filter(|id| id.index() % count == number).collect();
        let hosted = Hosted::new(Arc::clone(layout));
        let partitions = checkpoint.restore(layout, &own)?;
        assert_eq!(partitions.len(), own.len());
        partitions.into_iter().for_each(|partition| drop(hosted.install(partition)));
        Ok(hosted)
    };
    (0..count).map(server).collect()
}

/// All partitions together on one server, to be looked at.
fn together(servers: Vec<Hosted>, layout: &Arc<Layout>) -> Hosted {
    let whole = Hosted::new(Arc::clone(layout));
    for server in servers {
        server
            .owned()
            .into_iter()
            .filter_map(|id| server.remove(id))
            .for_each(|partition| drop(whole.install(partition)));
    }
    assert_eq!(whole.owned().len(), PARTITIONS);
    whole
}

#[test]
fn training_goes_on_as_if_nothing_had_happened_on_any_number_of_servers() {
    for (which, (before, after)) in
        [(1, 2), (1, 5), (2, 3), (3, 1), (3, 2), (5, 3), (5, 5), (2, 1)].into_iter().enumerate()
    {
        let layout = layout(optimizers()[which % 4]);
        let (storage, mut naive) = (InMemory::default(), Naive::new(&layout));
        let old = servers(&layout, before);
        train(&old, &mut naive, 0..9);
        save(&storage, 1, &old).unwrap();
        // What comes after the checkpoint is lost with the servers and done again.
        train(&old, &mut naive.clone(), 9..12);
        let new = restore(&storage, CheckpointId(1), &layout, after).unwrap();
        let repeated = Gradients::of_batch(&layout, 4);
        new.iter().for_each(|server| drop(repeated.push(server)));
        train(&new, &mut naive, 9..15);
        naive.assert_held_by(&together(new, &layout));
    }
}

#[test]
fn death_at_any_write_leaves_the_checkpoint_before_it() {
    let layout = layout(Optimizer::adagrad(0.1));
    let (storage, mut naive) = (InMemory::default(), Naive::new(&layout));
    let training = servers(&layout, 2);
    train(&training, &mut naive, 0..5);
    save(&storage, 1, &training).unwrap();
    let first = naive.clone();
    train(&training, &mut naive, 5..8);
    let mut interrupted = 0;
    loop {
        let dying = storage.that_dies_after(interrupted);
        let saved = save(&dying, 2, &training);
        let survivor = dying.after_death();
        let latest = latest(&survivor).unwrap().unwrap();
        let restored = together(restore(&survivor, latest, &layout, 1).unwrap(), &layout);
        match saved {
            Ok(_) => {
                assert_eq!(latest, CheckpointId(2));
                naive.assert_held_by(&restored);
                break;
            }
            Err(_) => {
                assert_eq!(latest, CheckpointId(1));
                first.assert_held_by(&restored);
            }
        }
        interrupted += 1;
    }
    assert!(interrupted > 500, "only {interrupted} steps were tried");
}

#[test]
fn a_flipped_bit_is_named_and_not_loaded() {
    let layout = layout(Optimizer::adam(0.1));
    let (storage, mut naive) = (InMemory::default(), Naive::new(&layout));
    let training = servers(&layout, 1);
    train(&training, &mut naive, 0..4);
    save(&storage, 7, &training).unwrap();
    for (name, bytes) in storage.files() {
        // Every part of the file, at distances that hit heads, checksums and contents.
        for place in (0..bytes.len()).step_by(997).chain(bytes.len().saturating_sub(40)..bytes.len()) {
            let damaged = storage.with_flipped_bit(&name, place, place % 8);
            let opened = Checkpoint::open(&damaged, CheckpointId(7));
            let read = opened.and_then(|checkpoint| {
                checkpoint.restore(&layout, &PartitionId::all().collect::<Vec<_>>())?;
                checkpoint.verify()
            });
            let error = match read {
                Ok(()) => {
                    // A manifest with other white space is the same manifest.
                    assert!(
                        name.ends_with(MANIFEST) && bytes[place].is_ascii_whitespace(),
                        "bit in byte {place} of {name}"
                    );
                    continue;
                }
                Err(error) => error,
            };
            let CheckpointError::Damaged { file, offset, .. } = &error else { panic!("{name} {place}: {error}") };
            assert_eq!(*file, name, "byte {place}: {error}");
            let near = offset.abs_diff(place as u64) <= CHECKSUM_EVERY as u64;
            assert!(near, "byte {place} of {name}: {error}");
        }
    }
}

#[test]
fn a_file_that_was_cut_off_is_named() {
    let layout = layout(Optimizer::sgd(0.1));
    let storage = InMemory::default();
    save(&storage, 1, &servers(&layout, 1)).unwrap();
    let all: Vec<_> = PartitionId::all().collect();
    for (name, bytes) in storage.files() {
        let cut = storage.with_file(&name, &bytes[..bytes.len() / 2]);
        let read = Checkpoint::open(&cut, CheckpointId(1)).and_then(|checkpoint| checkpoint.restore(&layout, &all));
        let error = read.unwrap_err();
        assert!(matches!(&error, CheckpointError::Damaged { file, .. } if *file == name), "{error}");
    }
}

#[test]
fn the_wrong_model_is_refused() {
    let trained = layout(Optimizer::sgd(0.1));
    let storage = InMemory::default();
    save(&storage, 1, &servers(&trained, 1)).unwrap();
    let other = layout(Optimizer::adam(0.1));
    let error = restore(&storage, CheckpointId(1), &other, 1).unwrap_err().to_string();
    assert!(
        error.contains("checkpoint 1 is of another model: optimizer: Adam here, SGD in the checkpoint; go"),
        "{error}"
    );
}

#[test]
fn a_server_that_did_not_write_leaves_no_checkpoint() {
    let layout = layout(Optimizer::sgd(0.1));
    let storage = InMemory::default();
    let two = servers(&layout, 2);
    let part = write_part(&storage, CheckpointId(1), "0-of-2", &two[0], Moment::OneByOne).unwrap();
    let error = write_manifest(&storage, CheckpointId(1), layout.spec(), vec![part], vec![]).unwrap_err();
    assert!(matches!(error, CheckpointError::Partition { partition: PartitionId(1), files: 0, .. }), "{error}");
    assert_eq!(latest(&storage).unwrap(), None);
}

#[test]
fn as_many_are_kept_as_asked_and_none_means_all() {
    let layout = layout(Optimizer::sgd(0.1));
    let (storage, training) = (InMemory::default(), servers(&layout, 1));
    let mut naive = Naive::new(&layout);
    for id in 1..=5 {
        train(&training, &mut naive, id..id + 1);
        save(&storage, id, &training).unwrap();
    }
    write_part(&storage, CheckpointId(3_000), "0-of-1", &training[0], Moment::OneByOne).unwrap();
    storage.delete(&CheckpointId(2).manifest()).unwrap();
    assert_eq!(keep_last(&storage, 0, None).unwrap(), []);
    assert_eq!(keep_last(&storage, 2, None).unwrap(), [1, 2, 3].map(CheckpointId));
    assert_eq!(list(&storage).unwrap(), [4, 5].map(CheckpointId));
    // One that is being written is left alone.
    assert!(storage.files().keys().any(|name| name.starts_with("checkpoint-000000003000/")));
    assert_eq!(keep_last(&storage, 9, None).unwrap(), []);
    restore(&storage, CheckpointId(4), &layout, 1).unwrap();
    // The next attempt has no use for it.
    delete_unfinished(&storage, CheckpointId(3000)).unwrap();
    assert!(storage.files().keys().any(|name| name.starts_with("checkpoint-000000003000/")));
    delete_unfinished(&storage, CheckpointId(3001)).unwrap();
    assert!(!storage.files().keys().any(|name| name.starts_with("checkpoint-000000003000/")));
    assert_eq!(list(&storage).unwrap(), [4, 5].map(CheckpointId));
}

#[test]
fn what_was_learnt_is_not_pushed_out_by_a_job_that_learns_nothing() {
    let layout = layout(Optimizer::sgd(0.1));
    let (storage, training) = (InMemory::default(), servers(&layout, 1));
    let mut naive = Naive::new(&layout);
    for id in 1..=3 {
        train(&training, &mut naive, id..id + 1);
        save(&storage, id, &training).unwrap();
    }
    for id in 4..=9 {
        save(&storage, id, &training).unwrap();
        keep_last(&storage, 3, Some(CheckpointId(id - 1))).unwrap();
    }
    assert_eq!(list(&storage).unwrap(), [1, 2, 8, 9].map(CheckpointId), "the last one is known by then");
    train(&training, &mut naive, 4..5);
    save(&storage, 10, &training).unwrap();
    assert_eq!(keep_last(&storage, 3, Some(CheckpointId(9))).unwrap(), [1, 8].map(CheckpointId));
}

#[test]
fn of_two_jobs_in_one_folder_the_later_one_writes_nothing() {
    let layout = layout(Optimizer::sgd(0.1));
    let storage = InMemory::default();
    let (first, second) = (servers(&layout, 2), servers(&layout, 2));
    let mut naive = Naive::new(&layout);
    train(&first, &mut naive, 0..1);
    save(&storage, 1, &first).unwrap();
    // Both have found the first one.
    train(&first, &mut naive, 1..2);
    save(&storage, 2, &first).unwrap();
    let written = storage.files();
    let refused = save(&storage, 2, &second).unwrap_err().to_string();
    assert!(
        refused.contains("another job writes into the same folder, checkpoint 2 is none of this job's"),
        "{refused}"
    );
    // With the next number it is the same, because it was not this job that has written the last.
    let refused = save(&storage, 3, &second).unwrap_err();
    assert!(matches!(refused, CheckpointError::OtherJob { other: CheckpointId(2), .. }), "{refused}");
    assert_eq!(storage.files(), written, "nothing was written and nothing deleted");
    train(&first, &mut naive, 2..3);
    save(&storage, 3, &first).unwrap();
}

#[test]
fn a_later_run_of_a_job_goes_on_in_its_folder_and_so_does_one_whose_servers_change() {
    let layout = layout(Optimizer::sgd(0.1));
    let storage = InMemory::default();
    let mut naive = Naive::new(&layout);
    let first = servers(&layout, 2);
    train(&first, &mut naive, 0..1);
    save(&storage, 1, &first).unwrap();
    let next = restore(&storage, CheckpointId(1), &layout, 1).unwrap();
    save(&storage, 2, &next).unwrap();
    save(&storage, 3, &next).unwrap();
    // A server that had no part in some of them.
    save(&storage, 4, &restore(&storage, CheckpointId(3), &layout, 3).unwrap()).unwrap();
    save(&storage, 5, &next).unwrap();
    // One that was given up, and became whole all the same.
    let part = |id| write_part(&storage, CheckpointId(id), "0-of-1", &next[0], Moment::OneByOne).unwrap();
    let (late, in_time) = (part(6), part(7));
    write_manifest(&storage, CheckpointId(6), layout.spec(), vec![late], LEDGER.to_vec()).unwrap();
    write_manifest(&storage, CheckpointId(7), layout.spec(), vec![in_time], LEDGER.to_vec()).unwrap();
    save(&storage, 8, &next).unwrap();
}

#[test]
fn nothing_is_deleted_where_another_job_may_have_written() {
    let layout = layout(Optimizer::sgd(0.1));
    let storage = InMemory::default();
    let mut naive = Naive::new(&layout);
    for id in 1..=4 {
        let training = servers(&layout, 1);
        train(&training, &mut naive, 0..id);
        save(&storage, id, &training).unwrap();
    }
    assert_eq!(keep_last(&storage, 1, Some(CheckpointId(2))).unwrap(), []);
    assert_eq!(keep_last(&storage, 1, Some(CheckpointId(3))).unwrap(), [1, 2].map(CheckpointId));
}

#[test]
fn one_moment_is_written_while_training_goes_on() {
    let layout = layout(Optimizer::adam(0.1));
    let (storage, mut naive) = (InMemory::default(), Naive::new(&layout));
    let training = servers(&layout, 1);
    train(&training, &mut naive, 0..5);
    let then = naive.clone();
    let moment = Moment::hold(&training[0], &training[0].owned(), usize::MAX);
    train(&training, &mut naive, 5..9);
    let part = write_part(&storage, CheckpointId(1), "0-of-1", &training[0], moment).unwrap();
    write_manifest(&storage, CheckpointId(1), layout.spec(), vec![part], LEDGER.to_vec()).unwrap();
    then.assert_held_by(&together(restore(&storage, CheckpointId(1), &layout, 1).unwrap(), &layout));
    naive.assert_held_by(&training[0]);
}

#[test]
fn a_moment_that_training_has_overrun_is_not_written() {
    let layout = layout(Optimizer::sgd(0.1));
    let (storage, training) = (InMemory::default(), servers(&layout, 1));
    let moment = Moment::hold(&training[0], &training[0].owned(), 100);
    train(&training, &mut Naive::new(&layout), 0..3);
    let error = write_part(&storage, CheckpointId(1), "0-of-1", &training[0], moment).unwrap_err();
    assert!(error.to_string().contains("the 100 bytes"), "{error}");
    assert!(storage.files().is_empty());
}

#[test]
fn a_moment_that_is_let_go_costs_nothing_more() {
    let layout = layout(Optimizer::sgd(0.1));
    let training = servers(&layout, 1);
    let moment = Moment::hold(&training[0], &training[0].owned(), usize::MAX);
    let snapshot = match &moment {
        Moment::Together(copies) => copies[0].snapshot(),
        Moment::OneByOne | Moment::Of(_) => panic!("the moment is held"),
    };
    let is_open = || training[0].with(PartitionId(0), |partition| partition.version_of_snapshot(snapshot)).unwrap();
    assert_eq!(is_open(), Ok(0));
    moment.release(&training[0]);
    assert_eq!(is_open(), Err(SnapshotLost::Unknown));
}

#[test]
fn what_waited_for_a_step_is_computed_again() {
    let layout = layout(Optimizer::sgd(0.1));
    let (storage, training) = (InMemory::default(), servers(&layout, 1));
    let gradients = Gradients::of_batch(&layout, 0);
    let buffer =
        |hosted: &Hosted| gradients.with(&layout, |push| hosted.buffer(batch(0), &hosted.check(push).unwrap()));
    buffer(&training[0]);
    // All of it was acknowledged, but the step was not taken when the checkpoint was made.
    training[0].close(&[(batch(0).pass(), batch(0).first..batch(0).end())]);
    save(&storage, 1, &training).unwrap();
    let restored = together(restore(&storage, CheckpointId(1), &layout, 1).unwrap(), &layout);
    assert_eq!((training[0].load().waiting > 0, restored.load().waiting), (true, 0));
    assert!(buffer(&restored).iter().all(|(_, answer)| *answer == Ok(Buffered::Waiting)), "it is taken again");
}

#[test]
fn a_plain_model_has_what_was_learnt() {
    let layout = layout(Optimizer::adam(0.1));
    let (storage, mut naive) = (InMemory::default(), Naive::new(&layout));
    let training = servers(&layout, 3);
    train(&training, &mut naive, 0..4);
    save(&storage, 1, &training).unwrap();
    let checkpoint = Checkpoint::open(&storage, CheckpointId(1)).unwrap();
    let mut bytes = Vec::new();
    export_plain(&checkpoint, &mut bytes).unwrap();
    let model = SafeTensors::deserialize(&bytes).unwrap();
    let floats = |name: &str| {
        let bytes = model.tensor(name).unwrap().data().as_chunks().0.to_vec();
        bytes.into_iter().map(f32::from_le_bytes).collect::<Vec<_>>()
    };
    let first: Vec<_> = layout.slices_of(1).flat_map(|slice| naive.slice(slice).to_vec()).collect();
    assert!(floats("dense/kernel") == first);
    assert_eq!(model.tensor("bias").unwrap().shape(), [3]);
    let keys_of_model = model.tensor("users@keys").unwrap().data().as_chunks().0.to_vec();
    let keys_of_model: Vec<u64> = keys_of_model.into_iter().map(u64::from_le_bytes).collect();
    assert!(keys_of_model.is_sorted() && keys_of_model.iter().all(|key| keys().contains(key)));
    let wanted: Vec<f32> = keys_of_model.iter().flat_map(|key| naive.weights(TableId(0), *key)).collect();
    assert_eq!(floats("users@values"), wanted);
    assert_eq!(model.tensor("users@values").unwrap().shape(), [keys_of_model.len(), 5]);
}

#[test]
fn files_in_a_folder_do_the_same() {
    let home = tempfile::tempdir().unwrap();
    let layout = layout(Optimizer::adagrad(0.1));
    let (storage, mut naive) = (Folder::new(home.path().join("kept")), Naive::new(&layout));
    let training = servers(&layout, 2);
    train(&training, &mut naive, 0..3);
    save(&storage, 1, &training).unwrap();
    train(&training, &mut naive, 3..4);
    save(&storage, 2, &training).unwrap();
    assert_eq!(keep_last(&storage, 1, None).unwrap(), [CheckpointId(1)]);
    let newest = latest(&storage).unwrap().unwrap();
    Checkpoint::open(&storage, newest).unwrap().verify().unwrap();
    naive.assert_held_by(&together(restore(&storage, newest, &layout, 3).unwrap(), &layout));
}
