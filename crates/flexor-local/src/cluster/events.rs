//! The events of a cluster, in memory and in a file, from which the next process of the cluster reads them.
//!
//! A cluster that is opened without jobs begins without events. Events are for people and nothing is decided by them, so
//! a disk that refuses to store them does no other harm.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::ClusterEvent;

/// The most events that are kept in memory.
const MOST: usize = 5000;
/// A file of this many bytes is rotated; one rotated file is kept.
const LARGEST_FILE: u64 = 1 << 20;

/// Oldest first.
#[derive(Default)]
pub(super) struct Events {
    kept: VecDeque<ClusterEvent>,
    file: Option<EventFile>,
}

struct EventFile {
    path: PathBuf,
    file: File,
    bytes: u64,
    /// The last write failed, which was logged.
    is_broken: bool,
}

impl Events {
    /// Opens the events of the files at `path`. The files of a cluster that `is_new` are removed first.
    pub(super) fn open(path: &Path, is_new: bool) -> io::Result<Self> {
        let mut kept = VecDeque::new();
        for path in [rotated(path), path.to_owned()] {
            match fs::read(&path) {
                Ok(_) if is_new => fs::remove_file(&path)?,
                // The last line of a killed process may be incomplete.
                Ok(bytes) => {
                    kept.extend(
                        bytes.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()),
                    );
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        kept.drain(..kept.len().saturating_sub(MOST));
        Ok(Self { kept, file: Some(EventFile::open(path)?) })
    }

    pub(super) fn all(&self) -> &VecDeque<ClusterEvent> {
        &self.kept
    }

    pub(super) fn next_number(&self) -> u64 {
        self.kept.back().map_or(1, |last| last.number + 1)
    }

    pub(super) fn add(&mut self, event: ClusterEvent) {
        if let Some(file) = &mut self.file {
            file.write(&event);
        }
        if self.kept.len() == MOST {
            self.kept.pop_front();
        }
        self.kept.push_back(event);
    }
}

impl EventFile {
    fn open(path: &Path) -> io::Result<Self> {
        let mut file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
        let mut bytes = file.metadata()?.len();
        if bytes > 0 {
            // The last line may be incomplete.
            file.write_all(b"\n")?;
            bytes += 1;
        }
        Ok(Self { path: path.to_owned(), file, bytes, is_broken: false })
    }

    fn write(&mut self, event: &ClusterEvent) {
        let written = self.try_write(event);
        if let Err(error) = &written
            && !self.is_broken
        {
            tracing::warn!(path = %self.path.display(), %error, "events cannot be saved and are lost when the cluster ends");
        }
        self.is_broken = written.is_err();
    }

    fn try_write(&mut self, event: &ClusterEvent) -> io::Result<()> {
        if self.bytes >= LARGEST_FILE {
            fs::rename(&self.path, rotated(&self.path))?;
            *self = Self::open(&self.path)?;
        }
        let mut line = serde_json::to_vec(event).map_err(io::Error::other)?;
        line.push(b'\n');
        self.file.write_all(&line)?;
        self.bytes += line.len() as u64;
        Ok(())
    }
}

/// The path of a rotated file.
fn rotated(path: &Path) -> PathBuf {
    path.with_extension("jsonl.1")
}

#[cfg(test)]
mod tests {
    use flexor_engine::Cause;
    use flexor_model::{Reason, UnixTime};

    use super::super::JobKey;
    use super::*;

    fn add(events: &mut Events, detail: &str) {
        let job = JobKey { namespace: "default".parse().unwrap(), name: "mnist".parse().unwrap() };
        let cause = Cause::new(Reason::JobCreated, detail);
        let number = events.next_number();
        events.add(ClusterEvent { number, at: UnixTime::from_secs(1), job, pod: None, cause });
    }

    #[test]
    fn another_process_reads_the_events_and_continues_their_numbers() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let mut events = Events::open(&path, true).unwrap();
        add(&mut events, "one");
        add(&mut events, "two");
        drop(events);
        // The process is killed while it writes.
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"number\":3,\"at\"").unwrap();
        let mut events = Events::open(&path, false).unwrap();
        add(&mut events, "three");
        let again = Events::open(&path, false).unwrap();
        let read: Vec<(u64, &str)> =
            again.all().iter().map(|event| (event.number, event.cause.message.as_str())).collect();
        assert_eq!(read, [(1, "one"), (2, "two"), (3, "three")]);
        assert!(Events::open(&path, true).unwrap().all().is_empty());
    }

    #[test]
    fn only_the_last_are_kept_in_memory_and_on_disk() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let mut events = Events::open(&path, true).unwrap();
        let long = "x".repeat(1000);
        (0..5000).for_each(|_| add(&mut events, &long));
        assert_eq!((events.all().len(), events.next_number()), (MOST, 5001));
        drop(events);
        let sizes = [rotated(&path), path.clone()].map(|path| fs::metadata(path).unwrap().len());
        assert!(sizes.iter().sum::<u64>() < 3 * LARGEST_FILE, "{sizes:?}");
        let again = Events::open(&path, false).unwrap();
        assert!(again.all().len() > 500 && again.next_number() == 5001);
    }

    #[test]
    fn a_disk_that_refuses_events_does_no_other_harm() {
        let mut events = Events::default();
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        events.file = Some(EventFile { path: "/dev/full".into(), file: full, bytes: 0, is_broken: false });
        add(&mut events, "one");
        assert_eq!(events.all().len(), 1);
    }
}
