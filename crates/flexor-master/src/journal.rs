//! The journal of one job: what its master has decided, kept so that the next master knows it.
//!
//! A folder holds segments, one per *generation* of the master: a header, a snapshot of the state, and the facts decided
//! since. Payloads are the owner's; the journal only promises that what it acknowledged is there for the next
//! generation, and that what is read is a prefix of what was written. It decides nothing and knows no job but by uid.
//!
//! # Two masters
//!
//! The newer one wins. It first makes its segment durable and only then reads the older one's; the older one writes,
//! syncs, and only then looks for a newer segment before it acknowledges. So either the older one's look came first,
//! and then its facts were there when the newer one read; or it sees the newer segment and acknowledges nothing ever
//! again ([`JournalError::Superseded`]). No lock is held that a dead machine could leave behind. A newer master removes
//! older segments only when its own snapshot is durable, so the highest segment is always visible to everybody.

mod committer;
mod compaction;
mod error;
mod folder;
mod health;
mod record;
mod recovery;
mod remembered;
mod segment;
mod segment_file;
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
pub use recovery::{Cut, Recovered, Recovery};
pub use remembered::Memory;
use remembered::Remembered;
pub use segment::{BadTail, Header, Segment, Unreadable};

/// The number of a fact within one generation: the first has 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

/// A journal that takes facts. One owner appends; anybody may wait.
///
/// A fact goes through three hands: [`append`](Self::append) puts it into memory, [`flush`](Self::flush) gives it to
/// the system, which keeps it when this process is killed, and [`durable`](Self::durable) waits until it survives the
/// machine. Dropping the journal makes everything durable that the disk takes.
#[derive(Debug)]
pub struct Journal(Backing);

#[derive(Debug)]
enum Backing {
    Disk { committer: Arc<Committer>, thread: Option<JoinHandle<()>> },
    Memory { last: AtomicU64, health: watch::Sender<Health> },
    Remembered(Remembered),
}

/// What somebody waits for who waits for the journal.
enum Waited<R> {
    Disk(watch::Receiver<committer::Progress>),
    Nothing,
    Remembered(R),
}

impl Journal {
    /// Takes over the state folder of `job`, which is made if there is none. The journal itself begins with
    /// [`Recovery::begin`]. Blocks for about two fsyncs and the reading of one segment.
    pub fn open(folder: &Path, job: &JobUid, faults: &Faults, clock: &Clock) -> Result<Recovery, JournalError> {
        Recovery::open(folder, job, faults, clock)
    }

    /// A journal that forgets, for a master without a state folder. It says yes to everything.
    #[must_use]
    pub fn in_memory() -> Self {
        Self(Backing::Memory { last: AtomicU64::new(0), health: watch::Sender::new(Health::Writable) })
    }

    /// A journal on a disk of memory, and what it held.
    #[must_use]
    pub fn remembered(memory: &Memory) -> (Self, Recovered) {
        let (remembered, recovered) = Remembered::take_over(memory);
        (Self(Backing::Remembered(remembered)), recovered)
    }

    fn on_disk(committer: Arc<Committer>, thread: JoinHandle<()>) -> Self {
        Self(Backing::Disk { committer, thread: Some(thread) })
    }

    /// Whether the next master will find anything.
    #[must_use]
    pub fn is_durable(&self) -> bool {
        matches!(self.0, Backing::Disk { .. } | Backing::Remembered(_))
    }

    /// The life of the journal that this process is; the first, always, without a state folder.
    #[must_use]
    pub fn generation(&self) -> Generation {
        match &self.0 {
            Backing::Disk { committer, .. } => committer.generation(),
            Backing::Memory { .. } => Generation(1),
            Backing::Remembered(remembered) => remembered.generation(),
        }
    }

    /// Adds a fact. Touches no disk; the fact becomes durable within a moment even if nobody waits for it.
    ///
    /// An error means that the fact was not taken: the journal has ended, or too much waits for a full disk.
    pub fn append(&self, fact: &[u8]) -> Result<Lsn, JournalError> {
        match &self.0 {
            Backing::Disk { committer, .. } => committer.append(fact),
            Backing::Memory { last, .. } => Ok(Lsn(last.fetch_add(1, Ordering::Relaxed) + 1)),
            Backing::Remembered(remembered) => remembered.append(fact),
        }
    }

    /// The last fact that was appended.
    #[must_use]
    pub fn last(&self) -> Lsn {
        match &self.0 {
            Backing::Disk { committer, .. } => committer.last(),
            Backing::Memory { last, .. } => Lsn(last.load(Ordering::Relaxed)),
            Backing::Remembered(remembered) => remembered.last(),
        }
    }

    /// Gives the system everything appended so far: after this a killed process has lost nothing, and no newer master
    /// had read the journal before. Takes microseconds.
    ///
    /// An error means that nothing may be answered yet. The facts stay, and [`Journal::durable`] tells when they are
    /// safe after all.
    pub fn flush(&self) -> Result<(), JournalError> {
        match &self.0 {
            Backing::Disk { committer, .. } => committer.flush(),
            Backing::Memory { .. } | Backing::Remembered(_) => Ok(()),
        }
    }

    /// Waits until the fact `lsn` and all before it are durable. Many waiters share one fsync. A full disk makes this
    /// wait until there is room; an error is final.
    pub fn durable(&self, lsn: Lsn) -> impl Future<Output = Result<(), JournalError>> + Send + use<> {
        let progress = match &self.0 {
            Backing::Disk { committer, .. } => Waited::Disk(committer.want(lsn)),
            Backing::Memory { .. } => Waited::Nothing,
            Backing::Remembered(remembered) => Waited::Remembered(remembered.durable(lsn)),
        };
        async move {
            let mut progress = match progress {
                Waited::Disk(progress) => progress,
                Waited::Nothing => return Ok(()),
                Waited::Remembered(durable) => return durable.await,
            };
            let reached = progress.wait_for(|progress| progress.durable >= lsn || progress.ended.is_some()).await;
            let reached = reached.map_err(|_| JournalError::Closed)?;
            match &reached.ended {
                Some(error) if reached.durable < lsn => Err(error.clone()),
                Some(_) | None => Ok(()),
            }
        }
    }

    /// Waits until more than `lsn` is durable, hurrying nobody, and tells up to where. Never, for a journal in memory.
    pub fn durable_beyond(&self, lsn: Lsn) -> impl Future<Output = Result<Lsn, JournalError>> + Send + use<> {
        let progress = match &self.0 {
            Backing::Disk { committer, .. } => Waited::Disk(committer.want(Lsn(0))),
            Backing::Memory { .. } => Waited::Nothing,
            Backing::Remembered(remembered) => Waited::Remembered(remembered.durable_beyond(lsn)),
        };
        async move {
            let mut progress = match progress {
                Waited::Disk(progress) => progress,
                Waited::Nothing => return std::future::pending().await,
                Waited::Remembered(durable) => return durable.await,
            };
            let reached = progress.wait_for(|progress| progress.durable > lsn || progress.ended.is_some()).await;
            let reached = reached.map_err(|_| JournalError::Closed)?;
            match &reached.ended {
                Some(error) if reached.durable <= lsn => Err(error.clone()),
                Some(_) | None => Ok(reached.durable),
            }
        }
    }

    /// The last fact that is durable; of a journal in memory, the last one.
    #[must_use]
    pub fn durable_lsn(&self) -> Lsn {
        match &self.0 {
            Backing::Disk { committer, .. } => committer.durable(),
            Backing::Memory { last, .. } => Lsn(last.load(Ordering::Relaxed)),
            Backing::Remembered(remembered) => remembered.durable_lsn(),
        }
    }

    /// Looks whether another master has taken over, and ends the journal if so. Whoever writes finds that out by itself;
    /// a master that only watches a world stand has to look.
    pub fn look_for_successor(&self) {
        if let Backing::Disk { committer, .. } = &self.0 {
            committer.look_for_successor();
        }
    }

    /// Whether much more can be appended before [`JournalError::Backlog`].
    #[must_use]
    pub fn has_room(&self) -> bool {
        match &self.0 {
            Backing::Disk { committer, .. } => committer.has_room(),
            Backing::Memory { .. } | Backing::Remembered(_) => true,
        }
    }

    /// Whether the segment has grown so long that [`Journal::compact`] pays.
    #[must_use]
    pub fn should_compact(&self) -> bool {
        match &self.0 {
            Backing::Disk { committer, .. } => committer.should_compact(),
            Backing::Memory { .. } | Backing::Remembered(_) => false,
        }
    }

    /// Replaces everything appended so far by `snapshot`, the state that holds all of it. Returns at once; where it
    /// fails, the old segment goes on and [`Journal::should_compact`] asks again later.
    pub fn compact(&self, snapshot: Vec<u8>) -> Result<(), JournalError> {
        if snapshot.len() > record::MAX_PAYLOAD {
            return Err(JournalError::TooLarge { bytes: snapshot.len() });
        }
        if let Backing::Disk { committer, .. } = &self.0 {
            committer.request_compaction(snapshot);
        }
        Ok(())
    }

    /// Whether facts are taken, as it changes.
    #[must_use]
    pub fn health(&self) -> watch::Receiver<Health> {
        match &self.0 {
            Backing::Disk { committer, .. } => committer.health(),
            Backing::Memory { health, .. } => health.subscribe(),
            Backing::Remembered(remembered) => remembered.health(),
        }
    }

    /// How often a file was synced since the journal was opened.
    #[must_use]
    pub fn fsyncs(&self) -> u64 {
        match &self.0 {
            Backing::Disk { committer, .. } => committer.fsyncs(),
            Backing::Memory { .. } | Backing::Remembered(_) => 0,
        }
    }

    /// Ends as a killed process would: nothing more is written.
    #[cfg(test)]
    fn kill(mut self) {
        self.end(Stop::Killed);
    }

    fn end(&mut self, how: Stop) {
        let Backing::Disk { committer, thread } = &mut self.0 else { return };
        let Some(thread) = thread.take() else { return };
        committer.stop(how);
        // A panic in there has ended the journal, and everybody was told.
        let _ = thread.join();
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.end(Stop::Orderly);
    }
}
