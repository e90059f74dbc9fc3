//! Python environments with pinned packages, installed once and kept in the cache.
//!
//! [`Recipe::ensure`] turns a recipe (a checked-in list of packages, a finishing step, a check) into a finished
//! environment at `CACHE/NAME-VERSION-KEY`. A folder of that name is only ever created by renaming a finished one, so
//! its presence means that it is complete. A lock prevents two processes from installing at once.
//!
//! [`crate::Torch`], [`crate::Torchft`] and [`crate::Dlrover`] name the packages. Packages come only through pip, as
//! the user has configured it.

mod install;
mod interpreter;
mod relocate;

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
    time::SystemTime,
};

use sha2::{Digest as _, Sha256};

pub(crate) use self::install::step;
use self::interpreter::Interpreter;
use crate::tools::{ToolsError, cache_dir};

/// How many environments of one name stay in the cache: the one in use and the one before it (another branch).
const KEPT: usize = 2;

/// Why an environment could not be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PythonError {
    /// There is no Python that could make an environment.
    #[error("needs Python 3.11 or newer with venv ({found}); install it, on Debian the package python3-venv")]
    PythonMissing { found: String },
    /// A program of the installation failed.
    #[error("{step} failed; {hint}\n{output}")]
    Step {
        step: String,
        hint: &'static str,
        /// The end of the program's output.
        output: String,
    },
    /// The cache folder is not known.
    #[error(transparent)]
    Cache(#[from] ToolsError),
    /// The cache folder did not do as asked.
    #[error("cannot {doing}; set FLEXOR_CACHE to a folder that can be written")]
    Io {
        /// The step that failed and its path.
        doing: String,
        source: std::io::Error,
    },
}

/// A finished environment.
#[derive(Debug, Clone)]
pub struct PythonEnv {
    folder: PathBuf,
}

impl PythonEnv {
    /// The folder of the environment.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder with its programs.
    pub fn bin(&self) -> PathBuf {
        self.folder.join("bin")
    }

    /// Its Python.
    pub fn python(&self) -> PathBuf {
        self.bin().join("python")
    }

    /// The folder of its packages, if they are for this version of Python, such as `3.11`.
    pub fn site_packages(&self, python: &str) -> Option<PathBuf> {
        Some(self.folder.join(format!("lib/python{python}/site-packages"))).filter(|folder| folder.is_dir())
    }

    /// A command that runs its Python as if the environment had been activated: with its programs first in `PATH`, and
    /// without the Python variables of the caller's shell.
    pub fn command(&self) -> Command {
        let others = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(self.bin()).chain(std::env::split_paths(&others));
        let mut command = Command::new(self.python());
        // Joining fails only for a folder with a colon in its name, and such a folder could not be in a PATH.
        command.env("PATH", std::env::join_paths(folders).unwrap_or_else(|_| OsString::from(self.bin())));
        command.env_remove("PYTHONPATH").env_remove("PYTHONHOME").env("PYTHONUNBUFFERED", "1");
        command
    }
}

/// How one environment is made.
pub(crate) struct Recipe {
    /// The first part of its name in the cache.
    pub(crate) name: &'static str,
    /// The version of the package that it is made for.
    pub(crate) version: &'static str,
    /// The complete list of packages: pip adds no dependency.
    pub(crate) requirements: &'static str,
    /// The step after pip; it gets the folder of the packages.
    pub(crate) finish: fn(site_packages: &Path, search_path: &OsStr) -> Result<(), PythonError>,
    /// Texts that the finishing step depends on: when one changes, the environment is made again.
    pub(crate) finish_texts: &'static [&'static str],
    /// Python code that must run without an error before the environment is used.
    pub(crate) check: &'static str,
    /// How long and how much, for the progress line.
    pub(crate) first_time: &'static str,
}

impl Recipe {
    /// The environment, made first where it is missing.
    pub(crate) fn ensure(&self) -> Result<PythonEnv, PythonError> {
        ensure(&cache_dir()?, &std::env::var_os("PATH").unwrap_or_default(), self)
    }

    /// The environment's name in the cache: it changes with every input.
    fn key(&self, python_version: &str) -> String {
        let mut hash = Sha256::new();
        let parts = [python_version, self.requirements, self.check];
        for part in parts.iter().chain(self.finish_texts) {
            hash.update(part.len().to_le_bytes());
            hash.update(part);
        }
        let digits: String = hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        format!("{}-{}-{digits}", self.name, self.version)
    }
}

/// The environment from `cache`, made first where it is missing, with the Python found in `search_path` (the form of
/// `$PATH`).
fn ensure(cache: &Path, search_path: &OsStr, recipe: &Recipe) -> Result<PythonEnv, PythonError> {
    let python = Interpreter::find(search_path)?;
    let env = PythonEnv { folder: cache.join(recipe.key(python.version())) };
    if env.folder.is_dir() {
        return Ok(env);
    }
    fs::create_dir_all(cache).map_err(io("create", cache))?;
    let lock_path = cache.join(format!("{}.lock", recipe.name));
    let lock = File::create(&lock_path).map_err(io("create", &lock_path))?;
    if lock.try_lock().is_err() {
        eprintln!("waiting for another process that installs {} …", recipe.name);
        lock.lock().map_err(io("lock", &lock_path))?;
    }
    if env.folder.is_dir() {
        return Ok(env);
    }
    install::run(cache, &env, recipe, &python, search_path)?;
    prune(cache, recipe.name, &env.folder);
    Ok(env)
}

/// Removes environments beyond the newest few, and folders of killed installations. Only the holder of the lock calls
/// it, so no unfinished folder of this name is in use.
fn prune(cache: &Path, name: &str, in_use: &Path) {
    let Ok(entries) = fs::read_dir(cache) else { return };
    let mut finished: Vec<(SystemTime, PathBuf)> = Vec::new();
    for entry in entries.flatten().filter(|entry| entry.path().is_dir()) {
        let (path, file_name) = (entry.path(), entry.file_name());
        let file_name = file_name.to_string_lossy();
        if file_name.starts_with(&install::unfinished_prefix(name)) {
            let _ = fs::remove_dir_all(path);
        } else if file_name.starts_with(&format!("{name}-")) && path.join("pyvenv.cfg").is_file() && path != in_use {
            let made = entry.metadata().and_then(|meta| meta.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
            finished.push((made, path));
        }
    }
    finished.sort();
    for (_, path) in finished.iter().rev().skip(KEPT - 1) {
        let _ = fs::remove_dir_all(path);
    }
}

pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> PythonError {
    let path = path.to_owned();
    move |source| PythonError::Io { doing: format!("{doing} {}", path.display()), source }
}

#[cfg(test)]
mod tests;
