//! The journal of one job: its master's facts, which the next master reads.
//!
//! A folder holds segments, one per *generation* of the master: a header, a snapshot of the state, and the facts
//! decided since. Payloads belong to the caller. The journal guarantees that acknowledged facts reach the next
//! generation, and that a reader gets a prefix of what was written. It decides nothing, and knows its job only by uid.
//!
//! # Two masters
//!
//! The newer master wins. It makes its segment durable before it reads the older master's segment. The older master
//! writes, syncs, and then looks for a newer segment before it acknowledges. If the older master looked first, its
//! facts were there when the newer one read. Otherwise it sees the newer segment and never acknowledges again
//! ([`JournalError::Superseded`]). No lock is needed that a dead machine could leave behind. A newer master removes
//! older segments only when its own snapshot is durable, so every master always sees the highest segment.

mod committer;
mod compaction;
mod error;
mod folder;
mod health;
mod record;
mod recovery;
mod segment;
mod segment_file;
mod simulated_disk;
mod tail;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use flexor_model::{Generation, JobUid};
use tokio::sync::watch;

use crate::clock::Clock;
use crate::faults::Faults;
use committer::{Committer, Stop};
pub use error::JournalError;
pub use health::Health;
pub use recovery::{Cut, LossPolicy, Recovered, Recovery};
pub use segment::{BadTail, Header, Segment, Unreadable};
pub use simulated_disk::SimulatedDisk;
use simulated_disk::SimulatedJournal;

/// The number of a fact within one generation, from 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

/// A journal that accepts facts. One owner appends; any number of tasks may wait.
///
/// A fact passes three stages. [`append`](Self::append) puts it into memory. [`flush`](Self::flush) writes it to the
/// system, which keeps it when this process is killed. [`durable`](Self::durable) waits until it survives the machine.
/// Dropping the journal makes everything durable that the disk accepts.
#[derive(Debug)]
pub struct Journal(Backing);

#[derive(Debug)]
enum Backing {
    Disk { committer: Arc<Committer>, thread: Option<JoinHandle<()>> },
    Volatile { last: AtomicU64, health: watch::Sender<Health> },
    Simulated(SimulatedJournal),
}

/// What a caller of [`Journal::durable`] waits for.
enum DurableWait<R> {
    Disk(watch::Receiver<committer::Progress>),
    Nothing,
    Simulated(R),
}

impl Journal {
    /// Takes over the state folder of `job`, and creates it if needed. The journal itself begins with
    /// [`Recovery::begin`]. Blocks for about two fsyncs and the reading of one segment.
    pub fn open(
        folder: &Path,
        job: &JobUid,
        policy: LossPolicy,
        (faults, clock): (&Faults, &Clock),
    ) -> Result<Recovery, JournalError> {
        Recovery::open(folder, job, policy, (faults, clock))
    }

    /// Fails if a master of `job` would refuse to start with this folder. Changes nothing; the folder may be in use.
    pub fn check(folder: &Path, job: &JobUid) -> Result<(), JournalError> {
        Recovery::check(folder, job)
    }

    /// A journal that stores nothing, for a master without a state folder. It accepts everything.
    #[must_use]
    pub fn in_memory() -> Self {
        Self(Backing::Volatile { last: AtomicU64::new(0), health: watch::Sender::new(Health::Writable) })
    }

    /// A journal on a simulated disk, and what the disk held.
    #[must_use]
    pub fn simulated(disk: &SimulatedDisk) -> (Self, Recovered) {
        let (simulated, recovered) = SimulatedJournal::take_over(disk);
        (Self(Backing::Simulated(simulated)), recovered)
    }

    fn on_disk(committer: Arc<Committer>, thread: JoinHandle<()>) -> Self {
        Self(Backing::Disk { committer, thread: Some(thread) })
    }

    /// Whether the next master can read the facts.
    #[must_use]
    pub fn is_durable(&self) -> bool {
        matches!(self.0, Backing::Disk { .. } | Backing::Simulated(_))
    }

    /// The generation of this process; always 1 without a state folder.
    #[must_use]
    pub fn generation(&self) -> Generation {
        match &self.0 {
            Backing::Disk { committer, .. } => committer.generation(),
            Backing::Volatile { .. } => Generation(1),
            Backing::Simulated(simulated) => simulated.generation(),
        }
    }

    /// Appends a fact. Touches no disk; the fact becomes durable soon even without a waiter.
    ///
    /// An error means that the fact was refused: the journal has ended, or too many bytes wait for a full disk.
    pub fn append(&self, fact: &[u8]) -> Result<Lsn, JournalError> {
        match &self.0 {
            Backing::Disk { committer, .. } => committer.append(fact),
            Backing::Volatile { last, .. } => Ok(Lsn(last.fetch_add(1, Ordering::Relaxed) + 1)),
            Backing::Simulated(simulated) => simulated.append(fact),
        }
    }

    /// The last appended fact.
    #[must_use]
    pub fn last(&self) -> Lsn {
        match &self.0 {
            Backing::Disk { committer, .. } => committer.last(),
            Backing::Volatile { last, .. } => Lsn(last.load(Ordering::Relaxed)),
            Backing::Simulated(simulated) => simulated.last(),
        }
    }

    /// Writes everything appended so far to the system: after this a killed process loses nothing, and no newer master
    /// had read the journal before. Takes microseconds.
    ///
    /// An error means that nothing may be answered yet. The facts stay in memory, and [`Journal::durable`] completes
    /// when they are safe after all.
    pub fn flush(&self) -> Result<(), JournalError> {
        match &self.0 {
            Backing::Disk { committer, .. } => committer.flush(),
            Backing::Volatile { .. } | Backing::Simulated(_) => Ok(()),
        }
    }

    /// Waits until `lsn` and all facts before it are durable. Many waiters share one fsync. With a full disk this waits
    /// until there is room. An error is final.
    pub fn durable(&self, lsn: Lsn) -> impl Future<Output = Result<(), JournalError>> + Send + use<> {
        let progress = match &self.0 {
            Backing::Disk { committer, .. } => DurableWait::Disk(committer.request_durable(lsn)),
            Backing::Volatile { .. } => DurableWait::Nothing,
            Backing::Simulated(simulated) => DurableWait::Simulated(simulated.durable(lsn)),
        };
        async move {
            let mut progress = match progress {
                DurableWait::Disk(progress) => progress,
                DurableWait::Nothing => return Ok(()),
                DurableWait::Simulated(durable) => return durable.await,
            };
            let reached = progress.wait_for(|progress| progress.durable >= lsn || progress.ended.is_some()).await;
            let reached = reached.map_err(|_| JournalError::Closed)?;
            match &reached.ended {
                Some(error) if reached.durable < lsn => Err(error.clone()),
                Some(_) | None => Ok(()),
            }
        }
    }

    /// Waits until more than `lsn` is durable, without hurrying the commit, and returns the durable LSN. A journal in
    /// memory never completes this.
    pub fn durable_beyond(&self, lsn: Lsn) -> impl Future<Output = Result<Lsn, JournalError>> + Send + use<> {
        let progress = match &self.0 {
            Backing::Disk { committer, .. } => DurableWait::Disk(committer.request_durable(Lsn(0))),
            Backing::Volatile { .. } => DurableWait::Nothing,
            Backing::Simulated(simulated) => DurableWait::Simulated(simulated.durable_beyond(lsn)),
        };
        async move {
            let mut progress = match progress {
                DurableWait::Disk(progress) => progress,
                DurableWait::Nothing => return std::future::pending().await,
                DurableWait::Simulated(durable) => return durable.await,
            };
            let reached = progress.wait_for(|progress| progress.durable > lsn || progress.ended.is_some()).await;
            let reached = reached.map_err(|_| JournalError::Closed)?;
            match &reached.ended {
                Some(error) if reached.durable <= lsn => Err(error.clone()),
                Some(_) | None => Ok(reached.durable),
            }
        }
    }

    /// The last durable fact; for a journal in memory, the last one.
    #[must_use]
    pub fn durable_lsn(&self) -> Lsn {
        match &self.0 {
            Backing::Disk { committer, .. } => committer.durable(),
            Backing::Volatile { last, .. } => Lsn(last.load(Ordering::Relaxed)),
            Backing::Simulated(simulated) => simulated.durable_lsn(),
        }
    }

    /// Checks whether another master has taken over, and ends the journal if so. A commit finds that out by itself; an
    /// idle master must check.
    pub fn check_superseded(&self) {
        if let Backing::Disk { committer, .. } = &self.0 {
            committer.check_superseded();
        }
    }

    /// Whether there is room before [`JournalError::Backlog`].
    #[must_use]
    pub fn has_room(&self) -> bool {
        match &self.0 {
            Backing::Disk { committer, .. } => committer.has_room(),
            Backing::Volatile { .. } | Backing::Simulated(_) => true,
        }
    }

    /// Whether the segment is long enough for [`Journal::compact`].
    #[must_use]
    pub fn should_compact(&self) -> bool {
        match &self.0 {
            Backing::Disk { committer, .. } => committer.should_compact(),
            Backing::Volatile { .. } | Backing::Simulated(_) => false,
        }
    }

    /// Replaces everything appended so far by `snapshot`, which must contain it. Returns at once. On failure the old
    /// segment continues, and [`Journal::should_compact`] asks again later.
    pub fn compact(&self, snapshot: Vec<u8>) -> Result<(), JournalError> {
        if snapshot.len() > record::MAX_PAYLOAD {
            return Err(JournalError::TooLarge { bytes: snapshot.len() });
        }
        if let Backing::Disk { committer, .. } = &self.0 {
            committer.request_compaction(snapshot);
        }
        Ok(())
    }

    /// The journal's health, as it changes.
    #[must_use]
    pub fn health(&self) -> watch::Receiver<Health> {
        match &self.0 {
            Backing::Disk { committer, .. } => committer.health(),
            Backing::Volatile { health, .. } => health.subscribe(),
            Backing::Simulated(simulated) => simulated.health(),
        }
    }

    /// Fsyncs since the journal was opened.
    #[must_use]
    pub fn fsyncs(&self) -> u64 {
        match &self.0 {
            Backing::Disk { committer, .. } => committer.fsyncs(),
            Backing::Volatile { .. } | Backing::Simulated(_) => 0,
        }
    }

    /// Ends like a killed process: nothing more is written.
    #[cfg(test)]
    fn kill(mut self) {
        self.end(Stop::Killed);
    }

    fn end(&mut self, how: Stop) {
        let Backing::Disk { committer, thread } = &mut self.0 else { return };
        let Some(thread) = thread.take() else { return };
        committer.stop(how);
        // A panic of the thread has ended the journal, and all waiters know.
        let _ = thread.join();
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.end(Stop::Orderly);
    }
}
