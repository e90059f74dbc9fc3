//! Periodic checkpoints of an ElasticDL server.
//!
//! Each server writes its own model into `version-V/ps-I-of-N/` of a shared directory. V is the same on all servers,
//! because every server gets every push. The server captures its partitions when it reaches the version, and writes
//! beside training.

use std::fs;
use std::io;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::parameters::Parameters;
use crate::checkpoint::{self, CheckpointCut, CheckpointError, CheckpointId, DirectoryStorage};

/// Directory, interval and retention of a server's checkpoints.
#[derive(Debug)]
pub struct Checkpoints {
    directory: PathBuf,
    server: u32,
    servers: NonZeroU32,
    every: NonZeroU32,
    /// How many checkpoints to keep; 0 keeps all.
    keep: usize,
    writer: Mutex<Option<JoinHandle<()>>>,
}

/// Metadata in the ledger field of the manifest, where native checkpoints have the data ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PartMetadata {
    /// The server's version at the captured moment.
    pub(super) version: i32,
    pub(super) server: u32,
    pub(super) servers: u32,
}

impl Checkpoints {
    /// Checkpoints of server `server` of `servers`, one per `every` versions. The latest `keep` complete ones are kept;
    /// 0 keeps all.
    pub fn new(
        directory: impl Into<PathBuf>,
        server: u32,
        servers: NonZeroU32,
        every: NonZeroU32,
        keep: usize,
    ) -> Self {
        Self { directory: directory.into(), server, servers, every, keep, writer: Mutex::default() }
    }

    /// Whether this version gets a checkpoint.
    pub fn is_due(&self, version: i32) -> bool {
        version > 0 && version.cast_unsigned().is_multiple_of(self.every.get())
    }

    /// Captures the partitions and writes them on a separate thread. If the last checkpoint is still being written,
    /// this one is skipped with a warning.
    pub fn begin(self: &Arc<Self>, parameters: &Arc<Parameters>, version: i32) {
        let mut writer = self.writer.lock();
        if writer.as_ref().is_some_and(|writer| !writer.is_finished()) {
            tracing::warn!(
                version,
                "skipped a checkpoint: the last one is still being written; increase the checkpoint interval"
            );
            return;
        }
        let (cut, at) = {
            let _guard = parameters.lock_updates();
            // Training can change at most the whole model until it is written, so the budget is unlimited.
            (
                CheckpointCut::take(parameters.hosted(), &parameters.hosted().partition_ids(), usize::MAX),
                parameters.version(),
            )
        };
        let (checkpoints, parameters) = (Arc::clone(self), Arc::clone(parameters));
        let write = move || match checkpoints.write(&parameters, cut, version, at) {
            Ok(()) => tracing::info!(version, "wrote a checkpoint"),
            Err(error) => tracing::error!(version, %error, "could not write a checkpoint"),
        };
        match thread::Builder::new().name("checkpoint".to_owned()).spawn(write) {
            Ok(started) => *writer = Some(started),
            Err(error) => tracing::error!(version, %error, "could not start the thread that writes a checkpoint"),
        }
    }

    /// Waits for the checkpoint in progress.
    pub fn finish(&self) {
        if let Some(writer) = self.writer.lock().take() {
            // The thread has logged its error.
            let _ = writer.join();
        }
    }

    fn write(&self, parameters: &Parameters, cut: CheckpointCut, version: i32, at: i32) -> Result<(), CheckpointError> {
        let storage = DirectoryStorage::new(self.part(version));
        let id = CheckpointId(version.unsigned_abs().into());
        let model = parameters.hosted().layout().spec().clone();
        let name = format!("{}-of-{}", self.server, self.servers);
        let part = checkpoint::put_part(&storage, id, &name, parameters.hosted(), cut)?;
        let metadata = PartMetadata { version: at, server: self.server, servers: self.servers.get() };
        let metadata = serde_json::to_vec(&metadata).unwrap_or_default();
        checkpoint::put_manifest(&storage, id, &model, vec![part], metadata)?;
        if let Err(error) = self.delete_old() {
            tracing::warn!(directory = %self.directory.display(), %error, "could not delete old checkpoints");
        }
        Ok(())
    }

    fn part(&self, version: i32) -> PathBuf {
        self.directory.join(format!("version-{version}")).join(format!("ps-{}-of-{}", self.server, self.servers))
    }

    /// Deletes this server's part of old checkpoints. The server that deletes the last part also removes the directory.
    fn delete_old(&self) -> io::Result<()> {
        if self.keep == 0 {
            return Ok(());
        }
        let mut written: Vec<i32> = versions(&self.directory)?;
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

/// The versions with a subdirectory, ascending.
pub(super) fn versions(directory: &Path) -> io::Result<Vec<i32>> {
    let entries = match fs::read_dir(directory) {
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
