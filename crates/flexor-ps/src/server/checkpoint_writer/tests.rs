//! Checkpoints that are cancelled while they are written.

use std::io::{self, Write};
use std::ops::Range;
use std::sync::atomic::AtomicUsize;

use super::*;
use crate::server::{Reports, testing};

/// Makes the server primary of everything, with orders to write this checkpoint.
fn plan(server: &Server, number: Option<u64>) {
    let checkpoint = number.map(|number| master::CheckpointOrder { number, ..master::CheckpointOrder::default() });
    let plan = testing::plan(testing::map(1, testing::primary_is(0)));
    server.apply_plan(&master::ServerPlan { checkpoint, ..plan }).unwrap();
}

fn server() -> (Server, Reports) {
    let (server, reports) = testing::server();
    plan(&server, None);
    (server, reports)
}

/// A storage that runs a callback at a certain write.
struct StorageWithCallback<F> {
    storage: DirectoryStorage,
    at: usize,
    callback: F,
    writes: AtomicUsize,
}

struct Counted<'a, F>(&'a StorageWithCallback<F>, &'a mut dyn Write);

impl<F: Fn()> Write for Counted<'_, F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.writes.fetch_add(1, Ordering::Relaxed) + 1 == self.0.at {
            (self.0.callback)();
        }
        self.1.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.1.flush()
    }
}

impl<F: Fn() + Send + Sync> Storage for StorageWithCallback<F> {
    fn put(&self, name: &str, write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        self.storage.put(name, &mut |file| write(&mut Counted(self, file)))
    }

    fn read(&self, name: &str, range: Range<u64>) -> io::Result<Vec<u8>> {
        self.storage.read(name, range)
    }

    fn size(&self, name: &str) -> io::Result<u64> {
        self.storage.size(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.storage.list()
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        self.storage.delete(name)
    }

    fn delete_directory(&self, folder: &str) -> io::Result<()> {
        self.storage.delete_directory(folder)
    }
}

#[test]
fn a_cancelled_checkpoint_is_not_written_to_its_end() {
    let home = tempfile::tempdir().unwrap();
    for (next, steps) in [(None, None), (None, Some(0)), (Some(2), None), (Some(2), Some(0))] {
        let (server, _reports) = server();
        let hosted = Arc::clone(server.0.hosted.get().unwrap());
        plan(&server, Some(1));
        let directory = DirectoryStorage::new(home.path());
        let storage = StorageWithCallback {
            storage: directory,
            at: 10,
            callback: || plan(&server, next),
            writes: AtomicUsize::new(0),
        };
        let error = server.write_part(&storage, 1, steps, &hosted).unwrap_err();
        assert!(matches!(error, CheckpointError::Cancelled { id: CheckpointId(1) }), "{error}");
        assert_eq!(storage.writes.into_inner(), 10, "nothing more is written");
        assert_eq!(storage.storage.list().unwrap(), [""; 0]);
        let error = server.write_part(&storage.storage, 1, steps, &hosted).unwrap_err();
        assert!(matches!(error, CheckpointError::Cancelled { .. }), "it does not start either: {error}");
        plan(&server, Some(3));
        server.write_part(&storage.storage, 3, steps, &hosted).unwrap();
        storage.storage.delete_directory(&CheckpointId(3).directory()).unwrap();
    }
}

#[cfg(unix)]
#[test]
fn a_storage_error_does_not_skip_a_checkpoint() {
    let home = tempfile::tempdir().unwrap();
    let directory = DirectoryStorage::new(home.path());
    let (server, _reports) = server();
    let hosted = server.0.hosted.get().unwrap();
    for number in [1, 2] {
        plan(&server, Some(number));
        let part = server.write_part(&directory, number, None, hosted).unwrap();
        let seal = master::Seal { parts: vec![part], ..master::Seal::default() };
        write_seal(&directory, number, hosted, seal, 0).unwrap();
    }
    assert_eq!(find_latest(&directory).unwrap().latest, Some(2));
    let tables = home.path().join("checkpoint-000000000002/tables-ps-0.flx");
    std::fs::remove_file(&tables).unwrap();
    // A symlink to itself: opening it is a storage error, which says nothing about the contents.
    std::os::unix::fs::symlink(&tables, &tables).unwrap();
    let error = find_latest(&directory).unwrap_err();
    assert!(error.is_transient() && error.to_string().contains("tables-ps-0.flx"), "{error}");
    std::fs::remove_file(&tables).unwrap();
    let found = find_latest(&directory).unwrap();
    assert_eq!((found.latest, found.damaged.len()), (Some(1), 1), "a missing file is damage");
}

#[tokio::test(start_paused = true)]
async fn restores_complete_before_anything_is_written() {
    let (server, mut reports) = server();
    let last = PartitionId::all().last().unwrap();
    server.0.replicas.lock(last).is_restoring = true;
    server.0.ordered_checkpoint.store(7, Ordering::Release);
    let waiting = tokio::spawn({
        let server = server.clone();
        async move { server.wait_for_restores(7).await }
    });
    let master::from_server::Message::Checkpoint(report) = reports.recv().await.unwrap() else {
        panic!("another report")
    };
    assert_eq!((report.number, report.result), (7, Some(CheckpointResult::Writing(true))), "the master keeps waiting");
    assert!(!waiting.is_finished());
    server.0.replicas.lock(last).is_restoring = false;
    server.0.changed.notify_waiters();
    waiting.await.unwrap();

    server.0.replicas.lock(last).is_restoring = true;
    plan(&server, None);
    server.wait_for_restores(7).await;
}
