//! Writing that is given up on the way.

use std::io::{self, Write};
use std::ops::Range;
use std::sync::atomic::AtomicUsize;

use super::*;
use crate::server::{Reports, testing};

/// The server owns everything, and is told to write this.
fn plan(server: &Server, save: Option<u64>) {
    let save = save.map(|number| master::SaveOrder { number, ..master::SaveOrder::default() });
    let plan = testing::plan(testing::map(1, testing::owned_by(0)));
    server.plan(&master::ServerPlan { save, ..plan }).unwrap();
}

fn server() -> (Server, Reports) {
    let (server, reports) = testing::server();
    plan(&server, None);
    (server, reports)
}

/// A folder in which something happens at a certain write.
struct Eventful<F> {
    folder: Folder,
    at: usize,
    happens: F,
    writes: AtomicUsize,
}

struct Counted<'a, F>(&'a Eventful<F>, &'a mut dyn Write);

impl<F: Fn()> Write for Counted<'_, F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.writes.fetch_add(1, Ordering::Relaxed) + 1 == self.0.at {
            (self.0.happens)();
        }
        self.1.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.1.flush()
    }
}

impl<F: Fn() + Send + Sync> Storage for Eventful<F> {
    fn put(&self, name: &str, write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        self.folder.put(name, &mut |file| write(&mut Counted(self, file)))
    }

    fn read(&self, name: &str, range: Range<u64>) -> io::Result<Vec<u8>> {
        self.folder.read(name, range)
    }

    fn size(&self, name: &str) -> io::Result<u64> {
        self.folder.size(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.folder.list()
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        self.folder.delete(name)
    }

    fn delete_folder(&self, folder: &str) -> io::Result<()> {
        self.folder.delete_folder(folder)
    }
}

#[test]
fn what_was_given_up_is_not_written_to_its_end() {
    let home = tempfile::tempdir().unwrap();
    for (next, steps) in [(None, None), (None, Some(0)), (Some(2), None), (Some(2), Some(0))] {
        let (server, _reports) = server();
        let hosted = Arc::clone(server.0.hosted.get().unwrap());
        plan(&server, Some(1));
        let folder = Folder::new(home.path());
        let storage = Eventful { folder, at: 10, happens: || plan(&server, next), writes: AtomicUsize::new(0) };
        let error = server.write_part(&storage, 1, steps, &hosted).unwrap_err();
        assert!(matches!(error, CheckpointError::GivenUp { id: CheckpointId(1) }), "{error}");
        assert_eq!(storage.writes.into_inner(), 10, "nothing more is written");
        assert_eq!(storage.folder.list().unwrap(), [""; 0]);
        let error = server.write_part(&storage.folder, 1, steps, &hosted).unwrap_err();
        assert!(matches!(error, CheckpointError::GivenUp { .. }), "it is not begun either: {error}");
        plan(&server, Some(3));
        server.write_part(&storage.folder, 3, steps, &hosted).unwrap();
        storage.folder.delete_folder(&CheckpointId(3).folder()).unwrap();
    }
}

#[cfg(unix)]
#[test]
fn a_checkpoint_that_the_storage_does_not_give_is_not_passed_over() {
    let home = tempfile::tempdir().unwrap();
    let folder = Folder::new(home.path());
    let (server, _reports) = server();
    let hosted = server.0.hosted.get().unwrap();
    for number in [1, 2] {
        plan(&server, Some(number));
        let part = server.write_part(&folder, number, None, hosted).unwrap();
        let seal = master::Seal { parts: vec![part], ..master::Seal::default() };
        write_seal(&folder, number, hosted, seal, 0).unwrap();
    }
    assert_eq!(look(&folder).unwrap().latest, Some(2));
    let tables = home.path().join("checkpoint-000000000002/tables-ps-0.flx");
    std::fs::remove_file(&tables).unwrap();
    // Whoever opens it goes round in circles: an error of the storage, which knows nothing of what was there.
    std::os::unix::fs::symlink(&tables, &tables).unwrap();
    let error = look(&folder).unwrap_err();
    assert!(error.may_pass() && error.to_string().contains("tables-ps-0.flx"), "{error}");
    std::fs::remove_file(&tables).unwrap();
    let found = look(&folder).unwrap();
    assert_eq!((found.latest, found.damaged.len()), (Some(1), 1), "what is gone is gone");
}

#[tokio::test(start_paused = true)]
async fn what_is_still_being_read_is_waited_for_before_anything_is_written() {
    let (server, mut reports) = server();
    let last = PartitionId::all().last().unwrap();
    server.0.posts.lock(last).is_beginning = true;
    server.0.wanted_save.store(7, Ordering::Release);
    let waiting = tokio::spawn({
        let server = server.clone();
        async move { server.when_begun(7).await }
    });
    let master::from_server::Message::Save(report) = reports.recv().await.unwrap() else { panic!("another word") };
    assert_eq!((report.number, report.result), (7, Some(Saved::Writing(true))), "the master goes on waiting");
    assert!(!waiting.is_finished());
    server.0.posts.lock(last).is_beginning = false;
    server.0.changed.notify_waiters();
    waiting.await.unwrap();

    server.0.posts.lock(last).is_beginning = true;
    plan(&server, None);
    server.when_begun(7).await;
}
