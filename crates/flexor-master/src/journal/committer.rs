//! Group commit: one thread writes and syncs for everybody who waits.
//!
//! Each turn makes durable whatever was appended by then, so a thousand waiters cost one fsync. The order of a turn is
//! write, sync, check that no newer generation exists, acknowledge; [`super`] says why that is safe. A disk that
//! refuses changes [`Health`] and is tried again; a newer generation ends the journal.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use flexor_model::Generation;
use tokio::sync::watch;

use super::compaction::{self, Compaction};
use super::folder::StateFolder;
use super::segment::Header;
use super::segment_file::Disk;
use super::tail::Tail;
use super::{Health, JournalError, Lsn};
use crate::clock::Clock;

/// What nobody waits for is durable after this at the latest.
const LAZY: Duration = Duration::from_millis(100);
/// How long a disk that refused is left alone.
const RETRY: Duration = Duration::from_millis(500);

/// What the owner of the journal and its thread share.
#[derive(Debug)]
pub(super) struct Committer {
    folder: StateFolder,
    header: Header,
    disk: Disk,
    clock: Clock,
    desk: Mutex<Desk>,
    /// Rung when the desk has something for the thread.
    bell: Condvar,
    progress: watch::Sender<Progress>,
    health: watch::Sender<Health>,
}

/// What waits to be done.
#[derive(Debug)]
struct Desk {
    tail: Tail,
    /// Somebody waits for facts up to here.
    wanted: Lsn,
    compaction: Option<Compaction>,
    /// The length of the segment from which on compaction pays.
    compact_at: u64,
    /// A segment was renamed and the folder was not synced since; nothing is durable before it is.
    folder_in_doubt: bool,
    refusal: Option<JournalError>,
    /// Why nothing more is taken.
    ended: Option<JournalError>,
    stop: Option<Stop>,
}

/// How the thread is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// After one more commit.
    Orderly,
    /// At once, as if the process had been killed.
    #[cfg(test)]
    Killed,
}

/// How far the journal is durable, for those who wait.
#[derive(Debug, Clone, Default)]
pub(super) struct Progress {
    pub(super) durable: Lsn,
    pub(super) ended: Option<JournalError>,
}

enum Work {
    Commit,
    Compact(Compaction),
    Stop(Stop),
}

impl Committer {
    /// Of a journal whose segment is `tail`'s and begins with `header`.
    pub(super) fn new(folder: StateFolder, header: Header, disk: Disk, clock: Clock, tail: Tail) -> Self {
        let desk = Desk {
            wanted: Lsn(0),
            compaction: None,
            compact_at: compaction::pays_at(tail.file_length()),
            folder_in_doubt: false,
            refusal: None,
            ended: None,
            stop: None,
            tail,
        };
        Self {
            folder,
            header,
            disk,
            clock,
            desk: Mutex::new(desk),
            bell: Condvar::new(),
            progress: watch::Sender::new(Progress::default()),
            health: watch::Sender::new(Health::Writable),
        }
    }

    /// The thread: works until it is stopped or the journal has ended.
    pub(super) fn run(&self) {
        loop {
            match self.next() {
                Work::Commit => self.commit(),
                Work::Compact(compaction) => self.compact(compaction),
                Work::Stop(Stop::Orderly) => return self.commit(),
                #[cfg(test)]
                Work::Stop(Stop::Killed) => return,
            }
            if self.desk().ended.is_some() {
                return;
            }
        }
    }

    pub(super) fn append(&self, payload: &[u8]) -> Result<Lsn, JournalError> {
        let mut desk = self.desk();
        if let Some(error) = &desk.ended {
            return Err(error.clone());
        }
        let nothing_waited = desk.tail.last() == self.durable();
        let lsn = desk.tail.append(payload)?;
        if nothing_waited {
            self.bell.notify_one();
        }
        Ok(lsn)
    }

    pub(super) fn last(&self) -> Lsn {
        self.desk().tail.last()
    }

    pub(super) fn flush(&self) -> Result<(), JournalError> {
        let mut desk = self.desk();
        if let Some(error) = desk.ended.as_ref().or(desk.refusal.as_ref()) {
            return Err(error.clone());
        }
        if desk.tail.last() == self.durable() {
            return Ok(());
        }
        let written = desk.tail.write().map_err(JournalError::full(&self.folder.segment(self.generation())));
        let outcome = written.and_then(|()| self.folder.fence(self.generation()));
        outcome.inspect_err(|error| self.note(&mut desk, error))
    }

    /// Makes the thread hurry with everything up to `lsn`; the receiver tells when that is done.
    pub(super) fn want(&self, lsn: Lsn) -> watch::Receiver<Progress> {
        let receiver = self.progress.subscribe();
        let mut desk = self.desk();
        if lsn > desk.wanted {
            desk.wanted = lsn;
            self.bell.notify_one();
        }
        receiver
    }

    pub(super) fn durable(&self) -> Lsn {
        self.progress.borrow().durable
    }

    pub(super) fn should_compact(&self) -> bool {
        let desk = self.desk();
        desk.ended.is_none() && desk.compaction.is_none() && desk.tail.file_length() >= desk.compact_at
    }

    /// Has the thread begin a segment with `snapshot`, which holds everything appended so far.
    pub(super) fn request_compaction(&self, snapshot: Vec<u8>) {
        let mut desk = self.desk();
        desk.compaction = Some(Compaction { snapshot, position: desk.tail.end() });
        desk.compact_at = u64::MAX;
        self.bell.notify_one();
    }

    pub(super) fn has_room(&self) -> bool {
        self.desk().tail.has_room()
    }

    pub(super) fn look_for_successor(&self) {
        let fenced = self.folder.fence(self.generation()).err().filter(JournalError::is_final);
        let mut desk = self.desk();
        if let (Some(error), None) = (fenced, &desk.ended) {
            self.note(&mut desk, &error);
        }
    }

    pub(super) fn health(&self) -> watch::Receiver<Health> {
        self.health.subscribe()
    }

    pub(super) fn generation(&self) -> Generation {
        self.header.generation
    }

    pub(super) fn fsyncs(&self) -> u64 {
        self.disk.fsyncs()
    }

    pub(super) fn stop(&self, how: Stop) {
        self.desk().stop = Some(how);
        self.bell.notify_one();
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        // Nothing on the desk is left half done by a panic: every change of the tail is complete when it returns.
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for something to do.
    fn next(&self) -> Work {
        let mut work = None;
        let something = self.bell.wait_while(self.desk(), |desk| {
            work = self.due(desk);
            work.is_none() && desk.refusal.is_none() && desk.tail.last() == self.durable()
        });
        let desk = something.unwrap_or_else(PoisonError::into_inner);
        if let Some(work) = work {
            return work;
        }
        // Facts that nobody waits for, or a disk that refused: there is time, unless something becomes due.
        let patience = if desk.refusal.is_some() { RETRY } else { LAZY };
        let waited = self.bell.wait_timeout_while(desk, patience, |desk| {
            work = self.due(desk);
            work.is_none()
        });
        drop(waited);
        work.unwrap_or(Work::Commit)
    }

    /// What cannot wait.
    fn due(&self, desk: &mut Desk) -> Option<Work> {
        if let Some(stop) = desk.stop {
            return Some(Work::Stop(stop));
        }
        if desk.refusal.is_some() {
            return None;
        }
        let durable = self.durable();
        let somebody_waits = desk.wanted > durable && desk.tail.last() > durable;
        let compaction = desk.compaction.take().map(Work::Compact);
        compaction.or_else(|| somebody_waits.then_some(Work::Commit))
    }

    fn commit(&self) {
        match self.try_commit() {
            Ok(lsn) => {
                let mut desk = self.desk();
                if desk.refusal.take().is_some() {
                    tracing::info!("the disk takes the journal again");
                    self.health.send_replace(Health::Writable);
                }
                drop(desk);
                self.progress.send_if_modified(|progress| std::mem::replace(&mut progress.durable, lsn) != lsn);
            }
            Err(error) => {
                // A master that was superseded while its disk was full learns it here.
                let fenced = self.folder.fence(self.generation()).err().filter(JournalError::is_final);
                self.note(&mut self.desk(), &fenced.unwrap_or(error));
            }
        }
    }

    fn try_commit(&self) -> Result<Lsn, JournalError> {
        let segment = self.folder.segment(self.generation());
        let (mark, folder_in_doubt) = {
            let mut desk = self.desk();
            desk.tail.write().map_err(JournalError::full(&segment))?;
            (desk.tail.mark(), desk.folder_in_doubt)
        };
        if folder_in_doubt {
            self.folder.sync()?;
            self.desk().folder_in_doubt = false;
        }
        if let Err(error) = mark.file.sync() {
            self.desk().tail.sync_failed();
            return Err(JournalError::full(&segment)(error));
        }
        self.folder.fence(self.generation())?;
        self.desk().tail.synced(&mark);
        Ok(mark.lsn)
    }

    fn compact(&self, Compaction { snapshot, position }: Compaction) {
        let fresh = compaction::Fresh::write(&self.folder, &self.header, &self.disk, &snapshot);
        let mut desk = self.desk();
        let moved = fresh.and_then(|fresh| {
            // Commits that came first have taken away what stands between the snapshot and the tail.
            if !desk.tail.reaches_back_to(position) {
                return Ok(desk.tail.file_length());
            }
            desk.tail.copy_after(position, &fresh.file, fresh.end).map_err(JournalError::full(&fresh.path))?;
            fresh.replace_segment(&self.folder, self.generation())?;
            desk.folder_in_doubt = true;
            desk.tail.move_to(fresh.file.clone(), fresh.end, position);
            Ok(compaction::pays_at(fresh.end))
        });
        desk.compact_at = moved.unwrap_or_else(|error| {
            tracing::warn!(%error, "the journal could not be compacted; it goes on in the old segment");
            desk.tail.file_length() + compaction::AT_LEAST
        });
        drop(desk);
        self.commit();
    }

    /// Remembers an error and tells whoever watches.
    fn note(&self, desk: &mut Desk, error: &JournalError) {
        if error.is_final() {
            tracing::error!(%error, "the journal has ended");
            desk.ended = Some(error.clone());
            self.health.send_replace(Health::Ended(error.clone()));
            self.progress.send_modify(|progress| progress.ended = Some(error.clone()));
            self.bell.notify_one();
        } else if desk.refusal.is_none() {
            tracing::warn!(%error, "the journal cannot be written");
            desk.refusal = Some(error.clone());
            self.health.send_replace(Health::Full { since: self.clock.wall(), error: error.clone() });
            self.bell.notify_one();
        }
    }
}

/// Starts the thread of a journal.
pub(super) fn spawn(committer: &Arc<Committer>) -> std::io::Result<std::thread::JoinHandle<()>> {
    let committer = Arc::clone(committer);
    std::thread::Builder::new().name("journal".to_owned()).spawn(move || {
        // Without this a bug in here would let everybody wait for ever.
        if catch_unwind(AssertUnwindSafe(|| committer.run())).is_err() {
            committer.note(&mut committer.desk(), &JournalError::Closed);
        }
    })
}
