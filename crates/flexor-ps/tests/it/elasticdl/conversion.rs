//! From ElasticDL's placement to the native one and back: one model, down to the state of every row.

use std::collections::BTreeMap;
use std::path::Path;

use flexor_ps::buckets::Buckets;
use flexor_ps::checkpoint::{Checkpoint, CheckpointId, Folder, Moment, write_manifest, write_part};
use flexor_ps::elasticdl::{Kept, convert};
use flexor_ps::hosted::{DenseAnswer, Hosted, KnownSlice, Reading};
use flexor_ps::layout::Layout;
use flexor_ps::placement::PartitionId;
use flexor_ps::push::Wanted;
use flexor_ps::spec::Optimizer;

use super::training::{Job, Values};

/// Native servers that have restored a checkpoint, each a share of the partitions.
fn native(folder: &Path, id: CheckpointId, count: usize) -> Vec<Hosted> {
    let storage = Folder::new(folder);
    let checkpoint = Checkpoint::open(&storage, id).unwrap();
    checkpoint.verify().unwrap();
    let layout = Layout::new(checkpoint.manifest().model.clone()).unwrap();
    let share = |server: usize| {
        let own: Vec<_> = PartitionId::all().filter(|partition| partition.index() % count == server).collect();
        let hosted = Hosted::new(layout.clone());
        for partition in checkpoint.restore(&layout, &own).unwrap() {
            hosted.install(partition);
        }
        hosted
    };
    (0..count).map(share).collect()
}

/// What native servers have, as the worker of the other wire would see it.
fn values(servers: &[Hosted], like: &Values) -> Values {
    let layout = servers[0].layout();
    let mut values = Values { variables: BTreeMap::new(), rows: BTreeMap::new(), versions: like.versions.clone() };
    for (number, variable) in (0..).zip(&layout.spec().variables) {
        let mut weights = Vec::new();
        for slice in layout.slices_of(number) {
            for server in servers {
                let wanted = [KnownSlice { slice, known: None }];
                server
                    .pull_dense(&wanted, Reading::Peek, |_, answer| {
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
            server.pull(Wanted { table, keys: &keys, buckets: &buckets }, Reading::Peek, &mut out).unwrap();
            sum.iter_mut().zip(out).for_each(|(sum, value)| *sum += value);
        }
        values.rows.insert(name, sum.chunks(dim).map(<[f32]>::to_vec).collect());
    }
    values
}

#[tokio::test]
async fn native_servers_go_on_from_what_such_servers_kept_and_the_other_way_round() {
    let optimizer = Optimizer::adam(0.01);
    let home = tempfile::tempdir().unwrap();
    let (legacy, converted, back) = (home.path().join("a"), home.path().join("b"), home.path().join("c"));
    let mut job = Job::start(2, optimizer, Some((&legacy, 4, 0))).await;
    job.train(4).await;
    let held = job.values().await;
    job.train(3).await;
    let wanted = job.values().await;

    let manifest = convert(Kept::read(&legacy.join("version-4"), None, 0).unwrap(), &converted).unwrap();
    assert_eq!(manifest.id, CheckpointId(4));
    let servers = native(&converted, manifest.id, 3);
    assert_eq!(values(&servers, &held), held);

    // Written by three native servers, read by any number of the others, with all that Adam remembers.
    let storage = Folder::new(&back);
    let parts = servers.iter().enumerate().map(|(number, hosted)| {
        write_part(&storage, CheckpointId(9), &format!("{number}-of-3"), hosted, Moment::OneByOne).unwrap()
    });
    let parts = parts.collect();
    write_manifest(&storage, CheckpointId(9), servers[0].layout().spec(), parts, b"a ledger".to_vec()).unwrap();
    for count in [1, 2, 5] {
        let kept = Kept::read(&back, None, 0).unwrap();
        let version = kept.version();
        drop(kept);
        let mut job = Job::go_on(count, optimizer, &back, version).await;
        let found = job.values().await;
        assert_eq!((&found.variables, &found.rows), (&held.variables, &held.rows));
        job.train_from(4, 3).await;
        let found = job.values().await;
        assert_eq!((found.variables, found.rows), (wanted.variables.clone(), wanted.rows.clone()));
        let named = Kept::read(&back.join("checkpoint-000000000009"), None, 0).unwrap();
        assert_eq!(named.version(), version);
    }
}
