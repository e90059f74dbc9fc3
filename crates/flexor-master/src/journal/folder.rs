//! The state folder of one job: its segments, its owner, and the cleanup.
//!
//! A segment is `journal-<generation>.log`; the highest generation owns the folder. A segment that compaction is
//! writing ends in `.new` and does not count; neither does one that was not read to its end and is kept as `.damaged`.
//! The file `journal-begun` names the last generation that has begun, so that a journal which is missing or empty is
//! told from one that never was.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use flexor_model::Generation;

use super::JournalError;

/// How often a claim is retried while other masters take the numbers.
const ATTEMPTS: usize = 1000;
/// Names the last generation that has begun.
const BEGUN: &str = "journal-begun";

#[derive(Debug, Clone)]
pub(super) struct StateFolder(PathBuf);

impl StateFolder {
    /// Opens the folder at `path`, and creates it if needed.
    pub(super) fn at(path: &Path) -> Result<Self, JournalError> {
        let missing: Vec<&Path> = path.ancestors().take_while(|folder| !folder.exists()).collect();
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(JournalError::unusable("make the folder", path))?;
        // The parent is synced too: a power cut must not lose the folder.
        for parent in missing.into_iter().filter_map(Path::parent) {
            sync(if parent.as_os_str().is_empty() { Path::new(".") } else { parent })?;
        }
        Ok(Self(path.to_owned()))
    }

    /// The folder at `path`, if there is one.
    pub(super) fn existing(path: &Path) -> Option<Self> {
        path.is_dir().then(|| Self(path.to_owned()))
    }

    /// The path of a generation's segment.
    pub(super) fn segment(&self, generation: Generation) -> PathBuf {
        self.0.join(format!("journal-{:010}.log", generation.0))
    }

    /// The path where compaction writes a generation's next segment.
    pub(super) fn unfinished_segment(&self, generation: Generation) -> PathBuf {
        let mut path = self.segment(generation).into_os_string();
        path.push(".new");
        path.into()
    }

    /// The path under which a segment is kept that was not read to its end.
    pub(super) fn damaged_segment(segment: &Path) -> PathBuf {
        let mut path = segment.to_owned().into_os_string();
        path.push(".damaged");
        path.into()
    }

    /// The last generation that has begun in this folder, with a complete snapshot. A file that cannot be read still
    /// says that there was one.
    pub(super) fn begun(&self) -> Result<Option<Generation>, JournalError> {
        let path = self.0.join(BEGUN);
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(read_begun(&bytes).unwrap_or(Generation(1)))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(JournalError::unusable("read", &path)(error)),
        }
    }

    /// Notes that a generation has begun. A failure costs only the check for a missing journal.
    pub(super) fn note_begun(&self, generation: Generation) {
        let (path, fresh) = (self.0.join(BEGUN), self.0.join(format!("{BEGUN}.new")));
        let write = || -> io::Result<()> {
            let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
            file.write_all(begun_text(generation).as_bytes())?;
            file.sync_data()?;
            fs::rename(&fresh, &path)
        };
        if let Err(error) = write() {
            tracing::warn!(file = %path.display(), %error, "cannot note that this master has begun its journal");
        }
    }

    /// The generations that have a segment, lowest first.
    pub(super) fn generations(&self) -> Result<Vec<Generation>, JournalError> {
        let list = || -> io::Result<Vec<Generation>> {
            let mut found = Vec::new();
            for entry in fs::read_dir(&self.0)? {
                found.extend(entry?.file_name().to_str().and_then(generation_of));
            }
            found.sort_unstable();
            Ok(found)
        };
        list().map_err(JournalError::unusable("list", &self.0))
    }

    /// Claims the folder: creates the empty segment of the next generation.
    pub(super) fn claim(&self) -> Result<(Generation, File), JournalError> {
        for _ in 0..ATTEMPTS {
            let begun = self.begun()?.map_or(0, |generation| generation.0);
            let highest = self.generations()?.last().map_or(0, |generation| generation.0).max(begun);
            let next = Generation(highest.saturating_add(1));
            let path = self.segment(next);
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
                Ok(file) => return Ok((next, file)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(JournalError::unusable("make", &path)(error)),
            }
        }
        let busy = io::Error::other("other masters keep taking over");
        Err(JournalError::unusable("take over", &self.0)(busy))
    }

    /// Fails unless `mine` still owns the folder.
    pub(super) fn fence(&self, mine: Generation) -> Result<(), JournalError> {
        let removed = || JournalError::Removed { path: self.segment(mine) };
        let generations = match self.generations() {
            Ok(generations) => generations,
            Err(JournalError::Unusable { error, .. }) if error.kind() == io::ErrorKind::NotFound => {
                return Err(removed());
            }
            Err(error) => return Err(error),
        };
        match generations.last() {
            Some(&highest) if highest > mine => Err(JournalError::Superseded { by: highest }),
            Some(&highest) if highest == mine => Ok(()),
            Some(_) | None => Err(removed()),
        }
    }

    /// Removes files that the owner of `mine` does not need. Failures are left for the next cleanup.
    pub(super) fn remove_older_than(&self, mine: Generation) {
        let generations = self.generations().unwrap_or_default();
        for generation in generations.into_iter().filter(|&generation| generation < mine) {
            for path in [self.unfinished_segment(generation), self.segment(generation)] {
                remove(&path);
            }
        }
    }

    /// Makes created, renamed and removed files durable.
    pub(super) fn sync(&self) -> Result<(), JournalError> {
        sync(&self.0)
    }
}

fn sync(folder: &Path) -> Result<(), JournalError> {
    File::open(folder).and_then(|opened| opened.sync_all()).map_err(JournalError::unusable("sync", folder))
}

/// Removes a file, which may be missing.
pub(super) fn remove(path: &Path) {
    match fs::remove_file(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => tracing::warn!(file = %path.display(), %error, "cannot remove an old file of the journal"),
    }
}

/// The generation and its checksum.
fn begun_text(generation: Generation) -> String {
    let number = generation.0.to_string();
    format!("{number} {:08x}\n", crc32fast::hash(number.as_bytes()))
}

fn read_begun(bytes: &[u8]) -> Option<Generation> {
    let (number, _) = std::str::from_utf8(bytes).ok()?.split_once(' ')?;
    let generation = Generation(number.parse().ok()?);
    (begun_text(generation).as_bytes() == bytes).then_some(generation)
}

fn generation_of(name: &str) -> Option<Generation> {
    let digits = name.strip_prefix("journal-")?.strip_suffix(".log")?;
    let plain = digits.len() >= 10 && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| digits.parse().ok().map(Generation))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_segments_have_a_generation() {
        assert_eq!(generation_of("journal-0000000012.log"), Some(Generation(12)));
        assert_eq!(generation_of("journal-99999999999.log"), Some(Generation(99_999_999_999)));
        for other in [
            "journal-12.log",
            "journal-0000000012.log.new",
            "journal-+000000012.log",
            "journal-0000000012.log.damaged",
            BEGUN,
        ] {
            assert_eq!(generation_of(other), None, "{other}");
        }
    }

    #[test]
    fn a_generation_that_has_begun_is_never_claimed_again() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateFolder::at(folder.path()).unwrap();
        assert_eq!(state.begun().unwrap(), None);
        state.note_begun(Generation(7));
        assert_eq!(state.begun().unwrap(), Some(Generation(7)));
        assert_eq!(state.claim().unwrap().0, Generation(8));
        let good = fs::read(folder.path().join(BEGUN)).unwrap();
        for at in 0..good.len() {
            let mut changed = good.clone();
            changed[at] ^= 1;
            fs::write(folder.path().join(BEGUN), changed).unwrap();
            assert_eq!(state.begun().unwrap(), Some(Generation(1)), "byte {at}");
        }
    }

    #[test]
    fn the_highest_generation_owns_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateFolder::at(&folder.path().join("a/b")).unwrap();
        let (first, _) = state.claim().unwrap();
        state.fence(first).unwrap();
        let (second, _) = state.claim().unwrap();
        assert!(matches!(state.fence(first), Err(JournalError::Superseded { by }) if by == second));
        state.fence(second).unwrap();
        state.remove_older_than(second);
        assert_eq!(state.generations().unwrap(), [second]);
        fs::remove_file(state.segment(second)).unwrap();
        assert!(matches!(state.fence(second), Err(JournalError::Removed { .. })));
        fs::remove_dir_all(folder.path().join("a")).unwrap();
        assert!(matches!(state.fence(second), Err(JournalError::Removed { .. })));
    }
}
