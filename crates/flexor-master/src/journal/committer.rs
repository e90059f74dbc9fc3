//! Group commit: one thread writes and syncs for all waiters.
//!
//! Each commit makes everything durable that was appended by then, so a thousand waiters cost one fsync. The order is
//! write, sync, check that no newer generation exists, acknowledge; [`super`] explains why that is safe. A failing disk
//! changes [`Health`] and is retried. A newer generation ends the journal.

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

/// Facts without a waiter are durable after this at the latest.
const MAX_COMMIT_DELAY: Duration = Duration::from_millis(100);
/// The delay before a failing disk is tried again.
const RETRY_DELAY: Duration = Duration::from_millis(500);

/// State that the journal's owner and its thread share.
#[derive(Debug)]
pub(super) struct Committer {
    folder: StateFolder,
    header: Header,
    disk: Disk,
    clock: Clock,
    queue: Mutex<WorkQueue>,
    /// Notified when the queue has work for the thread.
    wakeup: Condvar,
    progress: watch::Sender<Progress>,
    health: watch::Sender<Health>,
}

/// The work of the thread.
#[derive(Debug)]
struct WorkQueue {
    tail: Tail,
    /// Callers wait for facts up to this one.
    wanted: Lsn,
    compaction: Option<Compaction>,
    /// Compaction pays from this segment length on.
    compact_at: u64,
    /// A segment was renamed and the folder is not synced yet; nothing is durable before that.
    folder_in_doubt: bool,
    refusal: Option<JournalError>,
    /// The final error, after which nothing is accepted.
    ended: Option<JournalError>,
    stop: Option<Stop>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// After one more commit.
    Orderly,
    /// At once, like a killed process.
    #[cfg(test)]
    Killed,
}

/// The durable part of the journal, for waiters.
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
    /// For a journal whose segment is `tail`'s and begins with `header`.
    pub(super) fn new(folder: StateFolder, header: Header, disk: Disk, clock: Clock, tail: Tail) -> Self {
        let queue = WorkQueue {
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
            queue: Mutex::new(queue),
            wakeup: Condvar::new(),
            progress: watch::Sender::new(Progress::default()),
            health: watch::Sender::new(Health::Writable),
        }
    }

    /// The thread's loop: runs until it is stopped or the journal has ended.
    pub(super) fn run(&self) {
        loop {
            match self.next() {
                Work::Commit => self.commit(),
                Work::Compact(compaction) => self.compact(compaction),
                Work::Stop(Stop::Orderly) => return self.commit(),
                #[cfg(test)]
                Work::Stop(Stop::Killed) => return,
            }
            if self.queue().ended.is_some() {
                return;
            }
        }
    }

    pub(super) fn append(&self, payload: &[u8]) -> Result<Lsn, JournalError> {
        let mut queue = self.queue();
        if let Some(error) = &queue.ended {
            return Err(error.clone());
        }
        let was_idle = queue.tail.last() == self.durable();
        let lsn = queue.tail.append(payload)?;
        if was_idle {
            self.wakeup.notify_one();
        }
        Ok(lsn)
    }

    pub(super) fn last(&self) -> Lsn {
        self.queue().tail.last()
    }

    pub(super) fn flush(&self) -> Result<(), JournalError> {
        let mut queue = self.queue();
        if let Some(error) = queue.ended.as_ref().or(queue.refusal.as_ref()) {
            return Err(error.clone());
        }
        if queue.tail.last() == self.durable() {
            return Ok(());
        }
        let written = queue.tail.write().map_err(JournalError::full(&self.folder.segment(self.generation())));
        let outcome = written.and_then(|()| self.folder.fence(self.generation()));
        outcome.inspect_err(|error| self.record_error(&mut queue, error))
    }

    /// Makes the thread commit everything up to `lsn` soon; the receiver reports it.
    pub(super) fn request_durable(&self, lsn: Lsn) -> watch::Receiver<Progress> {
        let receiver = self.progress.subscribe();
        let mut queue = self.queue();
        if lsn > queue.wanted {
            queue.wanted = lsn;
            self.wakeup.notify_one();
        }
        receiver
    }

    pub(super) fn durable(&self) -> Lsn {
        self.progress.borrow().durable
    }

    pub(super) fn should_compact(&self) -> bool {
        let queue = self.queue();
        queue.ended.is_none() && queue.compaction.is_none() && queue.tail.file_length() >= queue.compact_at
    }

    /// Makes the thread start a segment with `snapshot`, which contains everything appended so far.
    pub(super) fn request_compaction(&self, snapshot: Vec<u8>) {
        let mut queue = self.queue();
        queue.compaction = Some(Compaction { snapshot, position: queue.tail.end() });
        queue.compact_at = u64::MAX;
        self.wakeup.notify_one();
    }

    pub(super) fn has_room(&self) -> bool {
        self.queue().tail.has_room()
    }

    pub(super) fn check_superseded(&self) {
        let fenced = self.folder.fence(self.generation()).err().filter(JournalError::is_final);
        let mut queue = self.queue();
        if let (Some(error), None) = (fenced, &queue.ended) {
            self.record_error(&mut queue, &error);
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
        self.queue().stop = Some(how);
        self.wakeup.notify_one();
    }

    fn queue(&self) -> MutexGuard<'_, WorkQueue> {
        // A panic leaves nothing half done in the queue: every change of the tail is complete when it returns.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for work.
    fn next(&self) -> Work {
        let mut work = None;
        let something = self.wakeup.wait_while(self.queue(), |queue| {
            work = self.due(queue);
            work.is_none() && queue.refusal.is_none() && queue.tail.last() == self.durable()
        });
        let queue = something.unwrap_or_else(PoisonError::into_inner);
        if let Some(work) = work {
            return work;
        }
        // Facts without a waiter, or a failing disk: wait, unless urgent work arrives.
        let delay = if queue.refusal.is_some() { RETRY_DELAY } else { MAX_COMMIT_DELAY };
        let waited = self.wakeup.wait_timeout_while(queue, delay, |queue| {
            work = self.due(queue);
            work.is_none()
        });
        drop(waited);
        work.unwrap_or(Work::Commit)
    }

    /// Work that must start now.
    fn due(&self, queue: &mut WorkQueue) -> Option<Work> {
        if let Some(stop) = queue.stop {
            return Some(Work::Stop(stop));
        }
        if queue.refusal.is_some() {
            return None;
        }
        let durable = self.durable();
        let has_waiters = queue.wanted > durable && queue.tail.last() > durable;
        let compaction = queue.compaction.take().map(Work::Compact);
        compaction.or_else(|| has_waiters.then_some(Work::Commit))
    }

    fn commit(&self) {
        match self.try_commit() {
            Ok(lsn) => {
                let mut queue = self.queue();
                if queue.refusal.take().is_some() {
                    tracing::info!("the journal can be written again");
                    self.health.send_replace(Health::Writable);
                }
                drop(queue);
                self.progress.send_if_modified(|progress| std::mem::replace(&mut progress.durable, lsn) != lsn);
            }
            Err(error) => {
                // A master that was superseded while its disk was full detects it here.
                let fenced = self.folder.fence(self.generation()).err().filter(JournalError::is_final);
                self.record_error(&mut self.queue(), &fenced.unwrap_or(error));
            }
        }
    }

    fn try_commit(&self) -> Result<Lsn, JournalError> {
        let segment = self.folder.segment(self.generation());
        let (mark, folder_in_doubt) = {
            let mut queue = self.queue();
            queue.tail.write().map_err(JournalError::full(&segment))?;
            (queue.tail.mark(), queue.folder_in_doubt)
        };
        if folder_in_doubt {
            self.folder.sync()?;
            self.queue().folder_in_doubt = false;
        }
        if let Err(error) = mark.file.sync() {
            self.queue().tail.sync_failed();
            return Err(JournalError::full(&segment)(error));
        }
        self.folder.fence(self.generation())?;
        self.queue().tail.synced(&mark);
        Ok(mark.lsn)
    }

    fn compact(&self, Compaction { snapshot, position }: Compaction) {
        let fresh = compaction::FreshSegment::write(&self.folder, &self.header, &self.disk, &snapshot);
        let mut queue = self.queue();
        let moved = fresh.and_then(|fresh| {
            // Earlier commits have dropped facts between the snapshot and the tail.
            if !queue.tail.reaches_back_to(position) {
                return Ok(queue.tail.file_length());
            }
            queue.tail.copy_after(position, &fresh.file, fresh.end).map_err(JournalError::full(&fresh.path))?;
            fresh.replace_segment(&self.folder, self.generation())?;
            queue.folder_in_doubt = true;
            queue.tail.move_to(fresh.file.clone(), fresh.end, position);
            Ok(compaction::pays_at(fresh.end))
        });
        queue.compact_at = moved.unwrap_or_else(|error| {
            tracing::warn!(%error, "compacting the journal failed; the old segment continues");
            queue.tail.file_length() + compaction::MIN_GROWTH
        });
        drop(queue);
        self.commit();
    }

    /// Stores an error and informs the waiters.
    fn record_error(&self, queue: &mut WorkQueue, error: &JournalError) {
        if error.is_final() {
            tracing::error!(%error, "the journal has ended");
            queue.ended = Some(error.clone());
            self.health.send_replace(Health::Ended(error.clone()));
            self.progress.send_modify(|progress| progress.ended = Some(error.clone()));
            self.wakeup.notify_one();
        } else if queue.refusal.is_none() {
            tracing::warn!(%error, "the journal cannot be written");
            queue.refusal = Some(error.clone());
            self.health.send_replace(Health::Full { since: self.clock.wall(), error: error.clone() });
            self.wakeup.notify_one();
        }
    }
}

pub(super) fn spawn(committer: &Arc<Committer>) -> std::io::Result<std::thread::JoinHandle<()>> {
    let committer = Arc::clone(committer);
    std::thread::Builder::new().name("journal".to_owned()).spawn(move || {
        // Without this a panic would leave all waiters waiting for ever.
        if catch_unwind(AssertUnwindSafe(|| committer.run())).is_err() {
            committer.record_error(&mut committer.queue(), &JournalError::Closed);
        }
    })
}
