//! The folder of one run, and whether it is kept.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use tempfile::{Builder, TempDir};

use super::{LogError, create_folder};

/// The value of `--log-dir`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum LogFolder {
    /// No value: a folder among the system's temporary files.
    #[default]
    Unnamed,
    /// Below this folder, which is created if it is missing.
    Below(PathBuf),
    /// `/dev/null`: no logs.
    Null,
}

impl From<Option<OsString>> for LogFolder {
    fn from(option: Option<OsString>) -> Self {
        match option {
            None => Self::Unnamed,
            Some(path) if path.is_empty() => Self::Unnamed,
            Some(path) if path == "/dev/null" => Self::Null,
            Some(path) => Self::Below(path.into()),
        }
    }
}

/// `<log dir>/<run id>_<random>`. Error files need it even without logs.
#[derive(Debug)]
pub(super) struct RunFolder {
    folder: TempDir,
    takes_logs: bool,
}

impl RunFolder {
    /// Creates the folder. `has_logs` tells whether log files will be in it.
    pub(super) fn create(below: &LogFolder, run_id: &str, has_logs: bool) -> Result<Self, LogError> {
        let (parent, kept, takes_logs) = match below {
            LogFolder::Unnamed => (env::temp_dir(), has_logs, true),
            LogFolder::Below(path) => (path.clone(), true, true),
            LogFolder::Null => (env::temp_dir(), false, false),
        };
        create_folder(&parent)?;
        let prefix = match below {
            LogFolder::Below(_) => format!("{}_", file_name(run_id)),
            LogFolder::Unnamed | LogFolder::Null => format!("flexor_{}_", file_name(run_id)),
        };
        let created = Builder::new().prefix(&prefix).disable_cleanup(kept).tempdir_in(&parent);
        let folder = created.map_err(|cause| LogError::Folder { path: parent.join(format!("{prefix}*")), cause })?;
        Ok(Self { folder, takes_logs })
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn takes_logs(&self) -> bool {
        self.takes_logs
    }

    pub(super) fn keep(&mut self) {
        self.folder.disable_cleanup(true);
    }
}

/// A run id is any text; the result is one component of a path.
fn file_name(run_id: &str) -> String {
    const MAX_NAME: usize = 100;
    let is_safe = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    run_id.chars().take(MAX_NAME).map(|letter| if is_safe(letter) { letter } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_folder_is_created_and_kept() {
        let parent = tempfile::tempdir().unwrap();
        let below = LogFolder::from(Some(parent.path().join("a/b").into_os_string()));
        let path = RunFolder::create(&below, "../my run", false).unwrap().path().to_owned();
        assert!(path.is_dir());
        assert_eq!(path.parent(), Some(parent.path().join("a/b").as_path()));
        assert!(path.file_name().unwrap().to_str().unwrap().starts_with(".._my_run_"));
    }

    #[test]
    fn an_unnamed_folder_is_removed_unless_it_is_kept() {
        for below in [LogFolder::from(None), LogFolder::from(Some("/dev/null".into()))] {
            let folder = RunFolder::create(&below, "none", false).unwrap();
            let path = folder.path().to_owned();
            drop(folder);
            assert!(!path.exists());
            let mut folder = RunFolder::create(&below, "none", false).unwrap();
            folder.keep();
            let path = folder.path().to_owned();
            drop(folder);
            std::fs::remove_dir(path).unwrap();
        }
    }

    #[test]
    fn a_file_in_the_way_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let below = LogFolder::Below(file.path().to_owned());
        let error = RunFolder::create(&below, "none", true).unwrap_err();
        assert!(std::error::Error::source(&error).is_none(), "its text has the cause already");
        let error = error.to_string();
        assert!(error.starts_with(&format!("cannot make the log folder '{}'", file.path().display())), "{error}");
        assert!(error.ends_with("choose another with --log-dir"), "{error}");
    }
}
