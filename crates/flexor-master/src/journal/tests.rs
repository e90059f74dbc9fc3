//! The journal on real files, as its owner uses it.

mod commits;
mod compactions;
mod corpus;
mod damage;
mod full_disk;
mod histories;
mod prefixes;
mod refusals;
mod two_masters;

use std::path::{Path, PathBuf};
use std::time::Duration;

use flexor_model::JobUid;

use super::{Health, Journal, JournalError, LossPolicy, Lsn, Recovered, Recovery};
use crate::clock::Clock;
use crate::faults::{ActiveFaults, DiskError, Faults};

/// Longer than any step takes; only a failing test reaches it.
const DEADLINE: Duration = Duration::from_secs(20);

/// A state folder, and the faults and clock of its machine.
struct Machine {
    _folder: Option<tempfile::TempDir>,
    state: PathBuf,
    faults: Faults,
    clock: Clock,
}

impl Machine {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        Self { _folder: Some(folder), ..Self::with_state(&state) }
    }

    fn with_state(state: &Path) -> Self {
        let faults = Faults::settable();
        Self { _folder: None, state: state.to_owned(), clock: Clock::start(faults.clone()), faults }
    }

    fn open(&self) -> Result<Recovery, JournalError> {
        self.open_with(LossPolicy::Refuse)
    }

    fn open_with(&self, policy: LossPolicy) -> Result<Recovery, JournalError> {
        Journal::open(&self.state, &job(), policy, (&self.faults, &self.clock))
    }

    /// Takes over with the recovered state.
    fn take_over(&self) -> (Journal, Vec<u32>) {
        let recovery = self.open().unwrap();
        let numbers = numbers_of(&recovery.recovered);
        (recovery.begin(&snapshot_of(&numbers)).unwrap(), numbers)
    }

    /// The content that the next master would read.
    fn recovered(&self) -> Recovered {
        self.open().unwrap().recovered
    }

    fn writes_fail(&self, write_error: Option<DiskError>) {
        self.faults.set(ActiveFaults { write_error, ..self.faults.active() });
    }

    fn fsyncs_fail(&self, fsync_error: Option<DiskError>) {
        self.faults.set(ActiveFaults { fsync_error, ..self.faults.active() });
    }

    fn fsyncs_take(&self, fsync_delay_ms: u64) {
        self.faults.set(ActiveFaults { fsync_delay_ms, ..self.faults.active() });
    }

    /// The note of the last generation that has begun.
    fn begun(&self) -> PathBuf {
        self.state.join("journal-begun")
    }

    /// The only segment.
    fn segment(&self) -> PathBuf {
        let [segment] = <[PathBuf; 1]>::try_from(self.files()).unwrap();
        segment
    }

    /// All files but the note of the last generation that has begun.
    fn files(&self) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = self.state.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
        files.retain(|file| *file != self.begun());
        files.sort();
        files
    }
}

fn job() -> JobUid {
    JobUid::from("7c0f-11")
}

/// The state of these tests is a list of numbers; a fact is one more.
fn snapshot_of(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn numbers_of(recovered: &Recovered) -> Vec<u32> {
    let bytes = recovered.snapshot.iter().flatten().chain(recovered.facts.iter().flatten()).copied();
    let bytes: Vec<u8> = bytes.collect();
    bytes.chunks_exact(4).map(|chunk| u32::from_le_bytes(chunk.try_into().unwrap())).collect()
}

fn append(journal: &Journal, number: u32) -> Lsn {
    journal.append(&number.to_le_bytes()).unwrap()
}

/// The result of a future, with a deadline.
fn wait<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(DEADLINE, future).await.expect("in time") })
}

fn wait_for_health(journal: &Journal, wanted: impl Fn(&Health) -> bool) -> Health {
    let mut health = journal.health();
    wait(async move { health.wait_for(|health| wanted(health)).await.unwrap().clone() })
}

/// Waits for a condition that no watch reports.
fn eventually(condition: impl Fn() -> bool) {
    wait(async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
}
