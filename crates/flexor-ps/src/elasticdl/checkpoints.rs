//! Checkpoints that a server writes by itself, every so many versions.
//!
//! Each server writes a checkpoint of its own, of the model that it keeps, into
//! `version-V/ps-I-of-N/` of the folder that all share; V is the same for all of them, because every server gets every
//! push. The moment is held when the version is made; writing goes on beside training.

use std::fs;
use std::io;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::parameters::Parameters;
use crate::checkpoint::{self, CheckpointError, CheckpointId, Folder, Moment};

/// Where, when and how many checkpoints are written.
#[derive(Debug)]
pub struct Checkpoints {
    folder: PathBuf,
    server: u32,
    servers: NonZeroU32,
    every: NonZeroU32,
    /// 0 keeps all.
    keep: usize,
    writer: Mutex<Option<JoinHandle<()>>>,
}

/// What the manifest tells beside the model; native ones have the data ledger in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PartOf {
    /// The server's version at that moment.
    pub(super) version: i32,
    pub(super) server: u32,
    pub(super) servers: u32,
}

impl Checkpoints {
    /// Checkpoints of server number `server` of `servers`, every `every` versions. Of those that are whole the latest
    /// `keep` stay; with 0 all do.
    pub fn new(folder: impl Into<PathBuf>, server: u32, servers: NonZeroU32, every: NonZeroU32, keep: usize) -> Self {
        Self { folder: folder.into(), server, servers, every, keep, writer: Mutex::default() }
    }

    /// Whether one is to be written of this version.
    pub fn is_due(&self, version: i32) -> bool {
        version > 0 && version.cast_unsigned().is_multiple_of(self.every.get())
    }

    /// Holds the moment, and writes it from a thread of its own. If the last one is still being written this one is
    /// left out, with a warning.
    pub fn begin(self: &Arc<Self>, parameters: &Arc<Parameters>, version: i32) {
        let mut writer = self.writer.lock();
        if writer.as_ref().is_some_and(|writer| !writer.is_finished()) {
            tracing::warn!(version, "no checkpoint: the last one is still being written; write fewer of them");
            return;
        }
        let (moment, at) = {
            let _still = parameters.hold_still();
            // What training changes until it is written is at most all of it.
            (Moment::hold(parameters.hosted(), &parameters.hosted().owned(), usize::MAX), parameters.version())
        };
        let (checkpoints, parameters) = (Arc::clone(self), Arc::clone(parameters));
        let write = move || match checkpoints.write(&parameters, moment, version, at) {
            Ok(()) => tracing::info!(version, "has written a checkpoint"),
            Err(error) => tracing::error!(version, %error, "has written no checkpoint"),
        };
        match thread::Builder::new().name("checkpoint".to_owned()).spawn(write) {
            Ok(started) => *writer = Some(started),
            Err(error) => tracing::error!(version, %error, "cannot write a checkpoint"),
        }
    }

    /// Waits for the one that is being written.
    pub fn finish(&self) {
        if let Some(writer) = self.writer.lock().take() {
            // What went wrong was logged.
            let _ = writer.join();
        }
    }

    fn write(&self, parameters: &Parameters, moment: Moment, version: i32, at: i32) -> Result<(), CheckpointError> {
        let storage = Folder::new(self.part(version));
        let id = CheckpointId(version.unsigned_abs().into());
        let model = parameters.hosted().layout().spec().clone();
        let name = format!("{}-of-{}", self.server, self.servers);
        let part = checkpoint::put_part(&storage, id, &name, parameters.hosted(), moment)?;
        let about = PartOf { version: at, server: self.server, servers: self.servers.get() };
        let about = serde_json::to_vec(&about).unwrap_or_default();
        checkpoint::put_manifest(&storage, id, &model, vec![part], about)?;
        if let Err(error) = self.delete_old() {
            tracing::warn!(folder = %self.folder.display(), %error, "old checkpoints are left");
        }
        Ok(())
    }

    fn part(&self, version: i32) -> PathBuf {
        self.folder.join(format!("version-{version}")).join(format!("ps-{}-of-{}", self.server, self.servers))
    }

    /// Deletes this server's part of all but the latest ones; a folder goes with the last part in it.
    fn delete_old(&self) -> io::Result<()> {
        if self.keep == 0 {
            return Ok(());
        }
        let mut written: Vec<i32> = versions(&self.folder)?;
        written.retain(|version| self.part(*version).is_dir());
        let surplus = written.len().saturating_sub(self.keep);
        for version in written.into_iter().take(surplus) {
            let part = self.part(version);
            fs::remove_dir_all(&part)?;
            match part.parent().map(fs::remove_dir) {
                Some(Err(error)) if error.kind() != io::ErrorKind::DirectoryNotEmpty => return Err(error),
                Some(_) | None => {}
            }
        }
        Ok(())
    }
}

/// The versions that a folder has anything of, in order.
pub(super) fn versions(folder: &Path) -> io::Result<Vec<i32>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut versions = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        versions.extend(name.to_str().and_then(|name| name.strip_prefix("version-")?.parse::<i32>().ok()));
    }
    versions.sort_unstable();
    Ok(versions)
}
