//! Conversion between ElasticDL's placement and the native one, including slots and step counts of every row.

use std::collections::BTreeMap;
use std::path::Path;

use flexor_ps::buckets::Buckets;
use flexor_ps::checkpoint::{Checkpoint, CheckpointCut, CheckpointId, DirectoryStorage, write_manifest, write_part};
use flexor_ps::elasticdl::{LoadedCheckpoint, convert};
use flexor_ps::hosted::{DenseAnswer, HostedPartitions, ReadMode, SliceRequest};
use flexor_ps::layout::Layout;
use flexor_ps::placement::PartitionId;
use flexor_ps::push::RowKeys;
use flexor_ps::spec::Optimizer;

use super::job::{Job, JobValues};

/// Native servers that have restored a checkpoint, each with a share of the partitions.
fn native(folder: &Path, id: CheckpointId, count: usize) -> Vec<HostedPartitions> {
    let storage = DirectoryStorage::new(folder);
    let checkpoint = Checkpoint::open(&storage, id).unwrap();
    checkpoint.verify().unwrap();
    let layout = Layout::new(checkpoint.manifest().model.clone()).unwrap();
    let share = |server: usize| {
        let own: Vec<_> = PartitionId::all().filter(|partition| partition.index() % count == server).collect();
        let hosted = HostedPartitions::new(layout.clone());
        for partition in checkpoint.restore(&layout, &own).unwrap() {
            hosted.install(partition);
        }
        hosted
    };
    (0..count).map(share).collect()
}

/// The values on native servers, in the form that an ElasticDL worker sees.
fn values(servers: &[HostedPartitions], like: &JobValues) -> JobValues {
    let layout = servers[0].layout();
    let mut values = JobValues { variables: BTreeMap::new(), rows: BTreeMap::new(), versions: like.versions.clone() };
    for (number, variable) in (0..).zip(&layout.spec().variables) {
        let mut weights = Vec::new();
        for slice in layout.slices_of(number) {
            for server in servers {
                let wanted = [SliceRequest { slice, known: None }];
                server
                    .pull_dense(&wanted, ReadMode::Peek, |_, answer| {
                        if let DenseAnswer::Modified { weights: more, .. } = answer {
                            weights.extend_from_slice(more);
                        }
                    })
                    .unwrap();
            }
        }
        values.variables.insert(variable.name.clone(), weights);
    }
    for (name, rows) in &like.rows {
        let table = layout.table_named(name).unwrap();
        let keys: Vec<u64> = (0..rows.len() as u64).collect();
        let buckets = Buckets::of(layout.name_hash(table).unwrap(), &keys);
        let dim = layout.dim(table).unwrap();
        let mut sum = vec![0.0; keys.len() * dim];
        for server in servers {
            let mut out = Vec::new();
            server.pull(RowKeys { table, keys: &keys, buckets: &buckets }, ReadMode::Peek, &mut out).unwrap();
            sum.iter_mut().zip(out).for_each(|(sum, value)| *sum += value);
        }
        values.rows.insert(name, sum.chunks(dim).map(<[f32]>::to_vec).collect());
    }
    values
}

#[tokio::test]
async fn native_and_elasticdl_servers_continue_from_each_others_checkpoints() {
    let optimizer = Optimizer::adam(0.01);
    let dir = tempfile::tempdir().unwrap();
    let (legacy, converted, back) = (dir.path().join("a"), dir.path().join("b"), dir.path().join("c"));
    let mut job = Job::start(2, optimizer, Some((&legacy, 4, 0))).await;
    job.train(4).await;
    let held = job.values().await;
    job.train(3).await;
    let wanted = job.values().await;

    let manifest = convert(LoadedCheckpoint::read(&legacy.join("version-4"), None, 0).unwrap(), &converted).unwrap();
    assert_eq!(manifest.id, CheckpointId(4));
    let servers = native(&converted, manifest.id, 3);
    assert_eq!(values(&servers, &held), held);

    // Written by three native servers, loaded by any number of ElasticDL-compatible ones, with Adam's slots.
    let storage = DirectoryStorage::new(&back);
    let parts = servers.iter().enumerate().map(|(number, hosted)| {
        write_part(&storage, CheckpointId(9), &format!("{number}-of-3"), hosted, CheckpointCut::PerPartition).unwrap()
    });
    let parts = parts.collect();
    write_manifest(&storage, CheckpointId(9), servers[0].layout().spec(), parts, b"a ledger".to_vec()).unwrap();
    for count in [1, 2, 5] {
        let loaded = LoadedCheckpoint::read(&back, None, 0).unwrap();
        let version = loaded.version();
        drop(loaded);
        let mut job = Job::restore(count, optimizer, &back, version).await;
        let found = job.values().await;
        assert_eq!((&found.variables, &found.rows), (&held.variables, &held.rows));
        job.train_from(4, 3).await;
        let found = job.values().await;
        assert_eq!((found.variables, found.rows), (wanted.variables.clone(), wanted.rows.clone()));
        let named = LoadedCheckpoint::read(&back.join("checkpoint-000000000009"), None, 0).unwrap();
        assert_eq!(named.version(), version);
    }
}
