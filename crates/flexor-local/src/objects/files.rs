//! Stored objects on disk: one file each, readable only for the cluster's owner.

use std::fs;
use std::io;
use std::path::PathBuf;

use flexor_model::UnixTime;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Object, ObjectKey, Objects, StoredObject};
use crate::atomic_file;
use crate::state_dir::StateDir;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stored {
    uid: String,
    created_at: UnixTime,
    manifest: Value,
}

impl StoredObject {
    /// Writes the file, whole or not at all.
    pub(crate) fn save(&self, state_dir: &StateDir) -> io::Result<()> {
        let stored =
            Stored { uid: self.uid.clone(), created_at: self.created_at, manifest: self.object.manifest.clone() };
        atomic_file::write(&file(state_dir, &self.object.key), &stored)
    }

    /// Removes the file.
    pub(crate) fn erase(&self, state_dir: &StateDir) -> io::Result<()> {
        match fs::remove_file(file(state_dir, &self.object.key)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

impl Objects {
    /// Reads all stored objects.
    pub(crate) fn read_all(state_dir: &StateDir) -> io::Result<Self> {
        let mut objects = Self::default();
        for entry in fs::read_dir(state_dir.objects())? {
            let path = entry?.path();
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            let stored: Stored = match atomic_file::read(&path) {
                Ok(stored) => stored,
                Err(error) => {
                    tracing::error!(%error, "an object cannot be read; apply it again");
                    continue;
                }
            };
            let Some(Ok(object)) = Object::read(&stored.manifest) else {
                tracing::error!("{} holds no object; apply it again", path.display());
                continue;
            };
            objects.insert(StoredObject { object, uid: stored.uid, created_at: stored.created_at });
        }
        Ok(objects)
    }
}

/// Kinds and namespaces have no dots, so names are unique.
fn file(state_dir: &StateDir, key: &ObjectKey) -> PathBuf {
    let namespace = key.namespace.as_ref().map_or("", |namespace| namespace.as_str());
    state_dir.objects().join(format!("{}.{namespace}.{}.json", key.kind.as_str(), key.name))
}
