//! Tests of restore on any number of servers, of interrupted writes, and of damaged files.

mod corpus;
mod in_memory;
mod large_file;

use std::sync::Arc;

use in_memory::InMemory;
use safetensors::SafeTensors;

use super::*;
use crate::hosted::HostedPartitions;
use crate::layout::{Layout, TableId};
use crate::partition::BufferOutcome;
use crate::placement::PARTITIONS;
use crate::spec::Optimizer;
use crate::test_support::{ReferenceModel, TestGradients, batch, keys, layout, optimizers};

const LEDGER: &[u8] = b"where the data stood";

/// Several servers that share the partitions of a model.
fn servers(layout: &Arc<Layout>, count: usize) -> Vec<HostedPartitions> {
    let servers: Vec<_> = (0..count).map(|_| HostedPartitions::new(Arc::clone(layout))).collect();
    PartitionId::all().for_each(|id| servers[id.index() % count].make([id]));
    servers
}

fn train(servers: &[HostedPartitions], reference: &mut ReferenceModel, batches: std::ops::Range<u64>) {
    for number in batches {
        let gradients = TestGradients::of_batch(&servers[0].layout(), number);
        servers.iter().for_each(|server| drop(gradients.push(server)));
        reference.apply(&[gradients]);
    }
}

fn save(storage: &dyn Storage, id: u64, servers: &[HostedPartitions]) -> Result<Manifest, CheckpointError> {
    let (id, count) = (CheckpointId(id), servers.len());
    let part = |(i, server)| write_part(storage, id, &format!("{i}-of-{count}"), server, CheckpointCut::PerPartition);
    let parts = servers.iter().enumerate().map(part).collect::<Result<_, _>>()?;
    write_manifest(storage, id, servers[0].layout().spec(), parts, LEDGER.to_vec())
}

fn restore(
    storage: &dyn Storage,
    id: CheckpointId,
    layout: &Arc<Layout>,
    count: usize,
) -> Result<Vec<HostedPartitions>, CheckpointError> {
    let checkpoint = Checkpoint::open(storage, id)?;
    assert_eq!(checkpoint.manifest().ledger, LEDGER);
    let server = |number: usize| {
        let own: Vec<_> = PartitionId::all().filter(|id| id.index() % count == number).collect();
        let hosted = HostedPartitions::new(Arc::clone(layout));
        let partitions = checkpoint.restore(layout, &own)?;
        assert_eq!(partitions.len(), own.len());
        partitions.into_iter().for_each(|partition| drop(hosted.install(partition)));
        Ok(hosted)
    };
    (0..count).map(server).collect()
}

/// Moves all partitions to one server, for comparison.
fn together(servers: Vec<HostedPartitions>, layout: &Arc<Layout>) -> HostedPartitions {
    let all = HostedPartitions::new(Arc::clone(layout));
    for server in servers {
        server
            .partition_ids()
            .into_iter()
            .filter_map(|id| server.remove(id))
            .for_each(|partition| drop(all.install(partition)));
    }
    assert_eq!(all.partition_ids().len(), PARTITIONS);
    all
}

#[test]
fn a_checkpoint_restores_exactly_on_any_number_of_servers() {
    for (which, (before, after)) in
        [(1, 2), (1, 5), (2, 3), (3, 1), (3, 2), (5, 3), (5, 5), (2, 1)].into_iter().enumerate()
    {
        let layout = layout(optimizers()[which % 4]);
        let (storage, mut reference) = (InMemory::default(), ReferenceModel::new(&layout));
        let old = servers(&layout, before);
        train(&old, &mut reference, 0..9);
        save(&storage, 1, &old).unwrap();
        // Updates after the checkpoint are lost with the servers and repeated.
        train(&old, &mut reference.clone(), 9..12);
        let new = restore(&storage, CheckpointId(1), &layout, after).unwrap();
        let repeated = TestGradients::of_batch(&layout, 4);
        new.iter().for_each(|server| drop(repeated.push(server)));
        train(&new, &mut reference, 9..15);
        reference.assert_matches(&together(new, &layout));
    }
}

#[test]
fn a_crash_at_any_write_leaves_the_previous_checkpoint() {
    let layout = layout(Optimizer::adagrad(0.1));
    let (storage, mut reference) = (InMemory::default(), ReferenceModel::new(&layout));
    let training = servers(&layout, 2);
    train(&training, &mut reference, 0..5);
    save(&storage, 1, &training).unwrap();
    let first = reference.clone();
    train(&training, &mut reference, 5..8);
    let mut interrupted = 0;
    loop {
        let crashing = storage.crashing_after(interrupted);
        let saved = save(&crashing, 2, &training);
        let survivor = crashing.after_crash();
        let latest = latest(&survivor).unwrap().unwrap();
        let restored = together(restore(&survivor, latest, &layout, 1).unwrap(), &layout);
        match saved {
            Ok(_) => {
                assert_eq!(latest, CheckpointId(2));
                reference.assert_matches(&restored);
                break;
            }
            Err(_) => {
                assert_eq!(latest, CheckpointId(1));
                first.assert_matches(&restored);
            }
        }
        interrupted += 1;
    }
    assert!(interrupted > 500, "only {interrupted} steps were tried");
}

#[test]
fn a_flipped_bit_is_located_and_not_restored() {
    let layout = layout(Optimizer::adam(0.1));
    let (storage, mut reference) = (InMemory::default(), ReferenceModel::new(&layout));
    let training = servers(&layout, 1);
    train(&training, &mut reference, 0..4);
    save(&storage, 7, &training).unwrap();
    for (name, bytes) in storage.files() {
        // A stride that hits headers, checksums and contents.
        for byte in (0..bytes.len()).step_by(997).chain(bytes.len().saturating_sub(40)..bytes.len()) {
            let damaged = storage.with_flipped_bit(&name, byte, byte % 8);
            let opened = Checkpoint::open(&damaged, CheckpointId(7));
            let read = opened.and_then(|checkpoint| {
                checkpoint.restore(&layout, &PartitionId::all().collect::<Vec<_>>())?;
                checkpoint.verify()
            });
            let error = match read {
                Ok(()) => {
                    // Other white space does not change a manifest.
                    assert!(
                        name.ends_with(MANIFEST) && bytes[byte].is_ascii_whitespace(),
                        "bit in byte {byte} of {name}"
                    );
                    continue;
                }
                Err(error) => error,
            };
            let CheckpointError::Damaged { file, offset, .. } = &error else { panic!("{name} {byte}: {error}") };
            assert_eq!(*file, name, "byte {byte}: {error}");
            let near = offset.abs_diff(byte as u64) <= CHECKSUM_EVERY as u64;
            assert!(near, "byte {byte} of {name}: {error}");
        }
    }
}

#[test]
fn a_truncated_file_is_named() {
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
fn a_checkpoint_of_another_model_is_rejected() {
    let trained = layout(Optimizer::sgd(0.1));
    let storage = InMemory::default();
    save(&storage, 1, &servers(&trained, 1)).unwrap();
    let other = layout(Optimizer::adam(0.1));
    let error = restore(&storage, CheckpointId(1), &other, 1).unwrap_err().to_string();
    assert!(
        error.contains("checkpoint 1 is of another model: optimizer: Adam here, SGD in the checkpoint; continue"),
        "{error}"
    );
}

#[test]
fn a_missing_part_prevents_the_manifest() {
    let layout = layout(Optimizer::sgd(0.1));
    let storage = InMemory::default();
    let two = servers(&layout, 2);
    let part = write_part(&storage, CheckpointId(1), "0-of-2", &two[0], CheckpointCut::PerPartition).unwrap();
    let error = write_manifest(&storage, CheckpointId(1), layout.spec(), vec![part], vec![]).unwrap_err();
    assert!(matches!(error, CheckpointError::Partition { partition: PartitionId(1), files: 0, .. }), "{error}");
    assert_eq!(latest(&storage).unwrap(), None);
}

#[test]
fn the_last_checkpoints_are_kept_and_zero_keeps_all() {
    let layout = layout(Optimizer::sgd(0.1));
    let (storage, training) = (InMemory::default(), servers(&layout, 1));
    let mut reference = ReferenceModel::new(&layout);
    for id in 1..=5 {
        train(&training, &mut reference, id..id + 1);
        save(&storage, id, &training).unwrap();
    }
    write_part(&storage, CheckpointId(3_000), "0-of-1", &training[0], CheckpointCut::PerPartition).unwrap();
    storage.delete(&CheckpointId(2).manifest()).unwrap();
    assert_eq!(keep_last(&storage, 0, None).unwrap(), []);
    assert_eq!(keep_last(&storage, 2, None).unwrap(), [1, 2, 3].map(CheckpointId));
    assert_eq!(list(&storage).unwrap(), [4, 5].map(CheckpointId));
    // A checkpoint in progress is not deleted.
    assert!(storage.files().keys().any(|name| name.starts_with("checkpoint-000000003000/")));
    assert_eq!(keep_last(&storage, 9, None).unwrap(), []);
    restore(&storage, CheckpointId(4), &layout, 1).unwrap();
    // The next attempt deletes it.
    delete_incomplete(&storage, CheckpointId(3000)).unwrap();
    assert!(storage.files().keys().any(|name| name.starts_with("checkpoint-000000003000/")));
    delete_incomplete(&storage, CheckpointId(3001)).unwrap();
    assert!(!storage.files().keys().any(|name| name.starts_with("checkpoint-000000003000/")));
    assert_eq!(list(&storage).unwrap(), [4, 5].map(CheckpointId));
}

#[test]
fn checkpoints_without_new_updates_do_not_push_out_trained_ones() {
    let layout = layout(Optimizer::sgd(0.1));
    let (storage, training) = (InMemory::default(), servers(&layout, 1));
    let mut reference = ReferenceModel::new(&layout);
    for id in 1..=3 {
        train(&training, &mut reference, id..id + 1);
        save(&storage, id, &training).unwrap();
    }
    for id in 4..=9 {
        save(&storage, id, &training).unwrap();
        keep_last(&storage, 3, Some(CheckpointId(id - 1))).unwrap();
    }
    assert_eq!(list(&storage).unwrap(), [1, 2, 8, 9].map(CheckpointId), "the latest known checkpoint is kept");
    train(&training, &mut reference, 4..5);
    save(&storage, 10, &training).unwrap();
    assert_eq!(keep_last(&storage, 3, Some(CheckpointId(9))).unwrap(), [1, 8].map(CheckpointId));
}

#[test]
fn of_two_jobs_in_one_directory_the_later_one_writes_nothing() {
    let layout = layout(Optimizer::sgd(0.1));
    let storage = InMemory::default();
    let (first, second) = (servers(&layout, 2), servers(&layout, 2));
    let mut reference = ReferenceModel::new(&layout);
    train(&first, &mut reference, 0..1);
    save(&storage, 1, &first).unwrap();
    // Both jobs know the first checkpoint.
    train(&first, &mut reference, 1..2);
    save(&storage, 2, &first).unwrap();
    let written = storage.files();
    let refused = save(&storage, 2, &second).unwrap_err().to_string();
    assert!(
        refused.contains("another job writes into the same directory, checkpoint 2 is not of this job"),
        "{refused}"
    );
    // The next number is rejected too, because another job wrote the last checkpoint.
    let refused = save(&storage, 3, &second).unwrap_err();
    assert!(matches!(refused, CheckpointError::OtherJob { other: CheckpointId(2), .. }), "{refused}");
    assert_eq!(storage.files(), written, "nothing was written and nothing deleted");
    train(&first, &mut reference, 2..3);
    save(&storage, 3, &first).unwrap();
}

#[test]
fn a_later_run_with_other_servers_continues_in_the_directory_of_the_job() {
    let layout = layout(Optimizer::sgd(0.1));
    let storage = InMemory::default();
    let mut reference = ReferenceModel::new(&layout);
    let first = servers(&layout, 2);
    train(&first, &mut reference, 0..1);
    save(&storage, 1, &first).unwrap();
    let next = restore(&storage, CheckpointId(1), &layout, 1).unwrap();
    save(&storage, 2, &next).unwrap();
    save(&storage, 3, &next).unwrap();
    // The server had no part in checkpoint 4.
    save(&storage, 4, &restore(&storage, CheckpointId(3), &layout, 3).unwrap()).unwrap();
    save(&storage, 5, &next).unwrap();
    // A cancelled checkpoint that was completed later.
    let part = |id| write_part(&storage, CheckpointId(id), "0-of-1", &next[0], CheckpointCut::PerPartition).unwrap();
    let (late, in_time) = (part(6), part(7));
    write_manifest(&storage, CheckpointId(6), layout.spec(), vec![late], LEDGER.to_vec()).unwrap();
    write_manifest(&storage, CheckpointId(7), layout.spec(), vec![in_time], LEDGER.to_vec()).unwrap();
    save(&storage, 8, &next).unwrap();
}

#[test]
fn nothing_is_deleted_where_another_job_may_have_written() {
    let layout = layout(Optimizer::sgd(0.1));
    let storage = InMemory::default();
    let mut reference = ReferenceModel::new(&layout);
    for id in 1..=4 {
        let training = servers(&layout, 1);
        train(&training, &mut reference, 0..id);
        save(&storage, id, &training).unwrap();
    }
    assert_eq!(keep_last(&storage, 1, Some(CheckpointId(2))).unwrap(), []);
    assert_eq!(keep_last(&storage, 1, Some(CheckpointId(3))).unwrap(), [1, 2].map(CheckpointId));
}

#[test]
fn a_consistent_cut_is_written_while_training_goes_on() {
    let layout = layout(Optimizer::adam(0.1));
    let (storage, mut reference) = (InMemory::default(), ReferenceModel::new(&layout));
    let training = servers(&layout, 1);
    train(&training, &mut reference, 0..5);
    let then = reference.clone();
    let cut = CheckpointCut::take(&training[0], &training[0].partition_ids(), usize::MAX);
    train(&training, &mut reference, 5..9);
    let part = write_part(&storage, CheckpointId(1), "0-of-1", &training[0], cut).unwrap();
    write_manifest(&storage, CheckpointId(1), layout.spec(), vec![part], LEDGER.to_vec()).unwrap();
    then.assert_matches(&together(restore(&storage, CheckpointId(1), &layout, 1).unwrap(), &layout));
    reference.assert_matches(&training[0]);
}

#[test]
fn a_cut_over_its_budget_is_not_written() {
    let layout = layout(Optimizer::sgd(0.1));
    let (storage, training) = (InMemory::default(), servers(&layout, 1));
    let cut = CheckpointCut::take(&training[0], &training[0].partition_ids(), 100);
    train(&training, &mut ReferenceModel::new(&layout), 0..3);
    let error = write_part(&storage, CheckpointId(1), "0-of-1", &training[0], cut).unwrap_err();
    assert!(error.to_string().contains("the 100 bytes"), "{error}");
    assert!(storage.files().is_empty());
}

#[test]
fn a_released_cut_closes_its_snapshots() {
    let layout = layout(Optimizer::sgd(0.1));
    let training = servers(&layout, 1);
    let cut = CheckpointCut::take(&training[0], &training[0].partition_ids(), usize::MAX);
    let snapshot = match &cut {
        CheckpointCut::Consistent(exports) => exports[0].snapshot(),
        CheckpointCut::PerPartition | CheckpointCut::PerPartitionOf(_) => panic!("the cut is held"),
    };
    let is_open = || training[0].with(PartitionId(0), |partition| partition.version_of_snapshot(snapshot)).unwrap();
    assert_eq!(is_open(), Ok(0));
    cut.release(&training[0]);
    assert_eq!(is_open(), Err(SnapshotLost::Unknown));
}

#[test]
fn contributions_of_an_uncommitted_step_are_not_restored() {
    let layout = layout(Optimizer::sgd(0.1));
    let (storage, training) = (InMemory::default(), servers(&layout, 1));
    let gradients = TestGradients::of_batch(&layout, 0);
    let buffer = |hosted: &HostedPartitions| {
        gradients.with(&layout, |push| hosted.buffer(batch(0), &hosted.check(push).unwrap()))
    };
    buffer(&training[0]);
    // The batch was acknowledged, but its step was not committed before the checkpoint.
    training[0].close(&[(batch(0).dataset_epoch(), batch(0).first..batch(0).end())]);
    save(&storage, 1, &training).unwrap();
    let restored = together(restore(&storage, CheckpointId(1), &layout, 1).unwrap(), &layout);
    assert_eq!((training[0].load().waiting > 0, restored.load().waiting), (true, 0));
    assert!(
        buffer(&restored).iter().all(|(_, answer)| *answer == Ok(BufferOutcome::Waiting)),
        "the batch is buffered again"
    );
}

#[test]
fn a_plain_model_has_the_trained_weights() {
    let layout = layout(Optimizer::adam(0.1));
    let (storage, mut reference) = (InMemory::default(), ReferenceModel::new(&layout));
    let training = servers(&layout, 3);
    train(&training, &mut reference, 0..4);
    save(&storage, 1, &training).unwrap();
    let checkpoint = Checkpoint::open(&storage, CheckpointId(1)).unwrap();
    let mut bytes = Vec::new();
    export_plain(&checkpoint, &mut bytes).unwrap();
    let model = SafeTensors::deserialize(&bytes).unwrap();
    let floats = |name: &str| {
        let bytes = model.tensor(name).unwrap().data().as_chunks().0.to_vec();
        bytes.into_iter().map(f32::from_le_bytes).collect::<Vec<_>>()
    };
    let first: Vec<_> = layout.slices_of(1).flat_map(|slice| reference.slice(slice).to_vec()).collect();
    assert!(floats("dense/kernel") == first);
    assert_eq!(model.tensor("bias").unwrap().shape(), [3]);
    let keys_of_model = model.tensor("users@keys").unwrap().data().as_chunks().0.to_vec();
    let keys_of_model: Vec<u64> = keys_of_model.into_iter().map(u64::from_le_bytes).collect();
    assert!(keys_of_model.is_sorted() && keys_of_model.iter().all(|key| keys().contains(key)));
    let wanted: Vec<f32> = keys_of_model.iter().flat_map(|key| reference.weights(TableId(0), *key)).collect();
    assert_eq!(floats("users@values"), wanted);
    assert_eq!(model.tensor("users@values").unwrap().shape(), [keys_of_model.len(), 5]);
}

#[test]
fn checkpoints_in_a_directory_of_the_file_system_restore_exactly() {
    let home = tempfile::tempdir().unwrap();
    let layout = layout(Optimizer::adagrad(0.1));
    let (storage, mut reference) = (DirectoryStorage::new(home.path().join("kept")), ReferenceModel::new(&layout));
    let training = servers(&layout, 2);
    train(&training, &mut reference, 0..3);
    save(&storage, 1, &training).unwrap();
    train(&training, &mut reference, 3..4);
    save(&storage, 2, &training).unwrap();
    assert_eq!(keep_last(&storage, 1, None).unwrap(), [CheckpointId(1)]);
    let newest = latest(&storage).unwrap().unwrap();
    Checkpoint::open(&storage, newest).unwrap().verify().unwrap();
    reference.assert_matches(&together(restore(&storage, newest, &layout, 3).unwrap(), &layout));
}
