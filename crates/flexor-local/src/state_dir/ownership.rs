//! Whether a state directory is its user's alone.
//!
//! The files of a state directory say which programs run. A directory that another user owns, or can write to, would let
//! that user run programs as this one. A link is checked with its target. The files of claims, volumes and logs are the
//! business of the programs and are not checked.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;

use super::{FOLDERS, StateDir, StateDirError};

/// The bits with which users other than the owner may write.
const WRITABLE_BY_OTHERS: u32 = 0o022;

impl StateDir {
    /// Checks the directory and the way to its cluster: the lock and the socket.
    ///
    /// # Errors
    ///
    /// One of them belongs to another user, or others can write to it.
    pub fn check_owner(&self) -> Result<(), StateDirError> {
        [self.0.clone(), self.lock_file(), self.socket()].iter().try_for_each(|path| check(path))
    }

    /// Checks every file that says what runs.
    pub(super) fn check_parts(&self) -> Result<(), StateDirError> {
        for part in entries(&self.0)? {
            check(&part)?;
        }
        for folder in FOLDERS {
            for part in entries(&self.0.join(folder))? {
                check(&part)?;
                // The plan and the record of a pod.
                ["pod.json", "meta.json"].iter().try_for_each(|file| check(&part.join(file)))?;
            }
        }
        for journal in entries(&self.0.join("masters"))? {
            entries(&journal)?.iter().try_for_each(|path| check(path))?;
        }
        Ok(())
    }
}

/// The entries of a folder; none if it is missing or no folder.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, StateDirError> {
    let listed = match fs::read_dir(folder) {
        Err(error) if is_absent(&error) => return Ok(Vec::new()),
        listed => listed.and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect()),
    };
    listed.map_err(|source| StateDirError::Io { path: folder.to_owned(), source })
}

fn check(path: &Path) -> Result<(), StateDirError> {
    let unusable = |source| StateDirError::Io { path: path.to_owned(), source };
    let present = |metadata: io::Result<Metadata>| match metadata {
        Err(error) if is_absent(&error) => Ok(None),
        metadata => metadata.map(Some).map_err(unusable),
    };
    let Some(own) = present(fs::symlink_metadata(path))? else { return Ok(()) };
    check_user(path, &own)?;
    if !own.is_symlink() {
        return check_mode(path, &own);
    }
    let Some(target) = present(fs::metadata(path))? else { return Ok(()) };
    check_user(path, &target)?;
    check_mode(path, &target)
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn check_user(path: &Path, metadata: &Metadata) -> Result<(), StateDirError> {
    let (user, owner) = (geteuid().as_raw(), metadata.uid());
    match owner == user {
        true => Ok(()),
        false => Err(StateDirError::OfOther { path: path.to_owned(), owner, user }),
    }
}

fn check_mode(path: &Path, metadata: &Metadata) -> Result<(), StateDirError> {
    match metadata.mode() & WRITABLE_BY_OTHERS {
        0 => Ok(()),
        _ => Err(StateDirError::WritableByOthers(path.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    /// The parts of a state directory that say what runs.
    const PARTS: [&str; 13] = [
        "",
        "lock",
        "events.jsonl",
        "limits.json",
        "jobs",
        "jobs/default.a.json",
        "objects/ConfigMap.default.a.json",
        "pods/u",
        "pods/u/pod.json",
        "pods/u/meta.json",
        "status/u.json",
        "masters/u/journal-0000000001.log",
        "tokens/default.a",
    ];

    fn state_dir() -> (tempfile::TempDir, StateDir) {
        let folder = tempfile::tempdir().unwrap();
        let state_dir = StateDir::at(folder.path().join("state"));
        drop(state_dir.lock().unwrap());
        for part in PARTS.iter().filter(|part| part.contains('.') || part.ends_with("/u")) {
            let path = state_dir.path().join(part);
            match part.ends_with("/u") {
                true => fs::create_dir_all(path).unwrap(),
                false => {
                    fs::create_dir_all(path.parent().unwrap()).unwrap();
                    fs::write(path, "").unwrap();
                }
            }
        }
        (folder, state_dir)
    }

    #[test]
    fn a_directory_of_ones_own_is_used() {
        let (_folder, state_dir) = state_dir();
        let mode = |part: &str| fs::metadata(state_dir.path().join(part)).unwrap().mode() & 0o777;
        assert_eq!((mode(""), mode("lock")), (0o700, 0o600));
        FOLDERS.iter().for_each(|folder| assert_eq!(mode(folder), 0o700, "{folder}"));
        drop(state_dir.lock().unwrap());
    }

    #[test]
    fn a_part_that_others_can_write_to_is_refused() {
        for part in PARTS {
            for others in [0o020, 0o002] {
                let (_folder, state_dir) = state_dir();
                let path = state_dir.path().join(part);
                let mode = fs::metadata(&path).unwrap().mode() & 0o777;
                fs::set_permissions(&path, Permissions::from_mode(mode | others)).unwrap();
                let refused = state_dir.lock().unwrap_err();
                assert!(matches!(refused, StateDirError::WritableByOthers(_)), "{part}: {refused}");
                let named = path.display().to_string();
                assert!(refused.to_string().contains(named.trim_end_matches('/')), "{part}: {refused}");
            }
        }
    }

    #[test]
    fn a_part_of_another_user_is_refused() {
        if !geteuid().is_root() {
            eprintln!("skipped: only root can give a file to another user");
            return;
        }
        for part in PARTS {
            let (_folder, state_dir) = state_dir();
            let path = state_dir.path().join(part);
            chown(&path, Some(65534), None).unwrap();
            let refused = state_dir.lock().unwrap_err();
            assert!(matches!(refused, StateDirError::OfOther { owner: 65534, user: 0, .. }), "{part}: {refused}");
        }
    }

    #[test]
    fn a_link_is_checked_with_its_target() {
        let (folder, state_dir) = state_dir();
        let elsewhere = folder.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        symlink(&elsewhere, state_dir.path().join("claims")).unwrap();
        fs::set_permissions(&elsewhere, Permissions::from_mode(0o700)).unwrap();
        drop(state_dir.lock().unwrap());
        fs::set_permissions(&elsewhere, Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(state_dir.lock().unwrap_err(), StateDirError::WritableByOthers(_)));
    }

    #[test]
    fn the_lock_follows_no_link_and_keeps_what_it_finds() {
        let (folder, state_dir) = state_dir();
        fs::write(state_dir.lock_file(), "kept").unwrap();
        drop(state_dir.lock().unwrap());
        assert_eq!(fs::read_to_string(state_dir.lock_file()).unwrap(), "kept");
        let precious = folder.path().join("precious");
        fs::write(&precious, "data").unwrap();
        fs::set_permissions(&precious, Permissions::from_mode(0o600)).unwrap();
        fs::remove_file(state_dir.lock_file()).unwrap();
        symlink(&precious, state_dir.lock_file()).unwrap();
        let refused = state_dir.lock().unwrap_err().to_string();
        assert!(refused.contains("lock"), "{refused}");
        assert_eq!(fs::read_to_string(&precious).unwrap(), "data");
    }
}
