//! What has happened, in memory and in a file, so that the next process that runs the cluster remembers it too.
//!
//! Events belong to the jobs of a cluster: one that is opened without any begins anew. They are for people; nothing is
//! decided by them, so a disk that refuses costs the memory of them and nothing else.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::ClusterEvent;

/// How many events are remembered.
const MOST: usize = 5000;
/// A file that is larger is put aside, in the place of the one that was before.
const LARGEST_FILE: u64 = 1 << 20;

/// What has happened, oldest first.
#[derive(Default)]
pub(super) struct Events {
    remembered: VecDeque<ClusterEvent>,
    page: Option<Page>,
}

/// The file that is written.
struct Page {
    path: PathBuf,
    file: File,
    bytes: u64,
    /// What could not be written was told.
    is_broken: bool,
}

impl Events {
    /// The events of the files at `path`; none, and no files, where the cluster begins anew.
    pub(super) fn open(path: &Path, is_new: bool) -> io::Result<Self> {
        let mut remembered = VecDeque::new();
        for path in [aside(path), path.to_owned()] {
            match fs::read(&path) {
                Ok(_) if is_new => fs::remove_file(&path)?,
                // The last line of a process that was killed may be half of one.
                Ok(bytes) => remembered
                    .extend(bytes.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok())),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        remembered.drain(..remembered.len().saturating_sub(MOST));
        Ok(Self { remembered, page: Some(Page::open(path)?) })
    }

    /// All that are remembered.
    pub(super) fn all(&self) -> &VecDeque<ClusterEvent> {
        &self.remembered
    }

    /// The number of the next.
    pub(super) fn next(&self) -> u64 {
        self.remembered.back().map_or(1, |last| last.number + 1)
    }

    /// One more.
    pub(super) fn add(&mut self, event: ClusterEvent) {
        if let Some(page) = &mut self.page {
            page.write(&event);
        }
        if self.remembered.len() == MOST {
            self.remembered.pop_front();
        }
        self.remembered.push_back(event);
    }
}

impl Page {
    fn open(path: &Path) -> io::Result<Self> {
        let mut file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
        let mut bytes = file.metadata()?.len();
        if bytes > 0 {
            // After half a line a new one begins.
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
            tracing::warn!(path = %self.path.display(), %error, "events cannot be written down and will be forgotten");
        }
        self.is_broken = written.is_err();
    }

    fn try_write(&mut self, event: &ClusterEvent) -> io::Result<()> {
        if self.bytes >= LARGEST_FILE {
            fs::rename(&self.path, aside(&self.path))?;
            *self = Self::open(&self.path)?;
        }
        let mut line = serde_json::to_vec(event).map_err(io::Error::other)?;
        line.push(b'\n');
        self.file.write_all(&line)?;
        self.bytes += line.len() as u64;
        Ok(())
    }
}

/// Where a file is put when it is full.
fn aside(path: &Path) -> PathBuf {
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
        let number = events.next();
        events.add(ClusterEvent { number, at: UnixTime::from_secs(1), job, pod: None, cause });
    }

    #[test]
    fn another_process_remembers_what_happened_and_counts_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let mut events = Events::open(&path, true).unwrap();
        add(&mut events, "one");
        add(&mut events, "two");
        drop(events);
        // Killed while it wrote.
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"number\":3,\"at\"").unwrap();
        let mut events = Events::open(&path, false).unwrap();
        add(&mut events, "three");
        let again = Events::open(&path, false).unwrap();
        let told: Vec<(u64, &str)> =
            again.all().iter().map(|event| (event.number, event.cause.message.as_str())).collect();
        assert_eq!(told, [(1, "one"), (2, "two"), (3, "three")]);
        assert!(Events::open(&path, true).unwrap().all().is_empty());
    }

    #[test]
    fn only_the_last_are_kept_in_memory_and_on_disk() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let mut events = Events::open(&path, true).unwrap();
        let long = "x".repeat(1000);
        (0..5000).for_each(|_| add(&mut events, &long));
        assert_eq!((events.all().len(), events.next()), (MOST, 5001));
        drop(events);
        let sizes = [aside(&path), path.clone()].map(|path| fs::metadata(path).unwrap().len());
        assert!(sizes.iter().sum::<u64>() < 3 * LARGEST_FILE, "{sizes:?}");
        let again = Events::open(&path, false).unwrap();
        assert!(again.all().len() > 500 && again.next() == 5001);
    }

    #[test]
    fn a_disk_that_refuses_costs_nothing_but_the_memory_of_it() {
        let mut events = Events::default();
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        events.page = Some(Page { path: "/dev/full".into(), file: full, bytes: 0, is_broken: false });
        add(&mut events, "one");
        assert_eq!(events.all().len(), 1);
    }
}
