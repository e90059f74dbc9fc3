//! Finds the Python of this machine and checks its version and its venv module.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::Command,
};

use super::PythonError;

/// The oldest Python that the pinned packages are made for, as (major, minor).
const OLDEST: (u32, u32) = (3, 11);

/// Debian ships `venv` without `ensurepip` until python3-venv is installed.
const ASK: &str = "import sys, venv, ensurepip; print('%d.%d.%d' % sys.version_info[:3])";

/// A Python that can make environments.
#[derive(Debug, Clone)]
pub(super) struct Interpreter {
    program: PathBuf,
    version: String,
}

impl Interpreter {
    /// Finds `python3` in `search_path` (the form of `$PATH`) and asks it.
    pub(super) fn find(search_path: &OsStr) -> Result<Self, PythonError> {
        let missing = |found: String| PythonError::PythonMissing { found };
        let program = std::env::split_paths(search_path)
            .map(|folder| folder.join("python3"))
            .find(|candidate| candidate.is_file())
            .ok_or_else(|| missing("no `python3` in PATH".into()))?;
        let answer = Command::new(&program)
            .args(["-c", ASK])
            .env_remove("PYTHONHOME")
            .output()
            .map_err(|error| missing(format!("{} does not run: {error}", program.display())))?;
        if !answer.status.success() {
            let printed = String::from_utf8_lossy(&answer.stderr);
            let last = printed.trim().lines().last().unwrap_or("it failed without a word").to_owned();
            return Err(missing(format!("{} says `{last}`", program.display())));
        }
        let version = String::from_utf8_lossy(&answer.stdout).trim().to_owned();
        match parse_version(&version) {
            Some(found) if found >= OLDEST => Ok(Self { program, version }),
            _ => Err(missing(format!("{} is version {version}", program.display()))),
        }
    }

    /// Its program.
    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    /// Its version, for instance `3.11.7`.
    pub(super) fn version(&self) -> &str {
        &self.version
    }
}

fn parse_version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;

    fn made_up(script: &str) -> Result<Interpreter, PythonError> {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("python3");
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        Interpreter::find(folder.path().as_os_str())
    }

    #[test]
    fn a_young_python_is_taken_and_an_old_one_is_not() {
        assert_eq!(made_up("echo 3.14.0").unwrap().version(), "3.14.0");
        let error = made_up("echo 3.9.2").unwrap_err().to_string();
        assert!(error.contains("is version 3.9.2"), "{error}");
    }

    #[test]
    fn a_python_without_venv_is_refused_with_the_missing_module() {
        let error = made_up("echo \"No module named 'ensurepip'\" >&2; exit 1").unwrap_err().to_string();
        assert!(error.contains("No module named 'ensurepip'"), "{error}");
        assert!(error.contains("python3-venv"), "{error}");
    }
}
