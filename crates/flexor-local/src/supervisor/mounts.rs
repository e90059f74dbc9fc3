//! Creates the folders and files behind a container's mounts, before the container starts.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flexor_agent::processes::{Mount, StartError};

use crate::pods::folder::PodFolder;
use crate::pods::plan::{FilePlan, HostPathType, MountPlan, VolumePlan};

/// Creates the missing volumes of a container, and returns its mounts.
pub(super) fn prepare(mounts: &[MountPlan], folder: &PodFolder) -> Result<Vec<Mount>, StartError> {
    let mut prepared = Vec::new();
    for plan in mounts {
        let from = source(plan, folder).map_err(|why| {
            StartError::Mount(format!("the volume at '{}' cannot be mounted: {why}", plan.at.display()))
        })?;
        // A path that is mounted onto itself needs no mount.
        if from != plan.at || plan.read_only {
            prepared.push(Mount { at: plan.at.clone(), from, read_only: plan.read_only });
        }
    }
    Ok(prepared)
}

fn source(plan: &MountPlan, folder: &PodFolder) -> Result<PathBuf, String> {
    let refused = |path: &Path| {
        let path = path.display().to_string();
        move |error: io::Error| format!("{path}: {error}")
    };
    let whole = match &plan.volume {
        VolumePlan::Empty(name) => {
            let path = folder.volume(name);
            fs::create_dir_all(&path).map_err(refused(&path))?;
            path
        }
        VolumePlan::Claim(path) => {
            DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(refused(path))?;
            path.clone()
        }
        VolumePlan::Files { volume, files } => {
            let path = folder.volume(volume);
            if !path.exists() {
                write_all(&path, files).map_err(refused(&path))?;
            }
            path
        }
        VolumePlan::Host { path, is } => {
            check(path, *is)?;
            path.clone()
        }
    };
    let Some(sub_path) = &plan.sub_path else { return Ok(whole) };
    let part = whole.join(sub_path);
    if !part.exists() {
        if let VolumePlan::Files { volume, .. } = &plan.volume {
            return Err(format!("volume {volume} has no {}", sub_path.display()));
        }
        fs::create_dir_all(&part).map_err(refused(&part))?;
    }
    Ok(part)
}

/// Writes the files of a volume, all or none.
fn write_all(folder: &Path, files: &[FilePlan]) -> io::Result<()> {
    let half = folder.with_extension("half");
    fs::create_dir_all(&half)?;
    for file in files {
        let path = half.join(&file.path);
        if let Some(above) = path.parent() {
            fs::create_dir_all(above)?;
        }
        let bytes = BASE64_STANDARD.decode(&file.content).map_err(io::Error::other)?;
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path)?.write_all(&bytes)?;
        fs::set_permissions(&path, Permissions::from_mode(file.mode))?;
    }
    fs::rename(half, folder)
}

/// Checks a host path against its type, and creates it where the type says so.
fn check(path: &Path, is: HostPathType) -> Result<(), String> {
    let shown = path.display();
    let found = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        found => Some(found.map_err(|error| format!("{shown}: {error}"))?.file_type()),
    };
    let (fits, what) = match (is, found) {
        (HostPathType::DirectoryOrCreate, None) => {
            return fs::create_dir_all(path).map_err(|error| format!("{shown}: {error}"));
        }
        (HostPathType::FileOrCreate, None) => {
            return File::create_new(path).map(drop).map_err(|error| format!("{shown}: {error}"));
        }
        (HostPathType::Any | HostPathType::Directory, None) => {
            return Err(format!("there is no {shown}; make it, or write type: DirectoryOrCreate"));
        }
        (HostPathType::File, None) => {
            return Err(format!("there is no file {shown}; make it, or write type: FileOrCreate"));
        }
        (HostPathType::Socket | HostPathType::CharDevice | HostPathType::BlockDevice, None) => {
            return Err(format!("there is no {shown}"));
        }
        (HostPathType::Any, Some(_)) => (true, "anything"),
        (HostPathType::Directory | HostPathType::DirectoryOrCreate, Some(found)) => (found.is_dir(), "a folder"),
        (HostPathType::File | HostPathType::FileOrCreate, Some(found)) => (found.is_file(), "a file"),
        (HostPathType::Socket, Some(found)) => (found.is_socket(), "a socket"),
        (HostPathType::CharDevice, Some(found)) => (found.is_char_device(), "a device of bytes"),
        (HostPathType::BlockDevice, Some(found)) => (found.is_block_device(), "a device of blocks"),
    };
    if fits { Ok(()) } else { Err(format!("{shown} is not {what}, as hostPath.type wants it")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(volume: VolumePlan, sub_path: Option<&str>) -> MountPlan {
        MountPlan { at: "/at".into(), volume, sub_path: sub_path.map(PathBuf::from), read_only: false }
    }

    fn host(path: &Path, is: HostPathType) -> VolumePlan {
        VolumePlan::Host { path: path.to_owned(), is }
    }

    #[test]
    fn a_host_path_is_checked_and_created_where_its_type_says_so() {
        let state_dir = tempfile::tempdir().unwrap();
        let folder = PodFolder::new(state_dir.path(), state_dir.path(), "u");
        let made =
            |is: HostPathType, name: &str| prepare(&[plan(host(&state_dir.path().join(name), is), None)], &folder);
        let error = |is, name| made(is, name).unwrap_err().to_string();
        assert!(error(HostPathType::Any, "none").contains("write type: DirectoryOrCreate"));
        assert!(error(HostPathType::File, "none").contains("write type: FileOrCreate"));
        made(HostPathType::DirectoryOrCreate, "d/e").unwrap();
        made(HostPathType::FileOrCreate, "f").unwrap();
        assert!(state_dir.path().join("d/e").is_dir() && state_dir.path().join("f").is_file());
        assert!(error(HostPathType::Directory, "f").contains("is not a folder"));
        assert!(error(HostPathType::Socket, "f").contains("is not a socket"));
        let itself = MountPlan {
            at: state_dir.path().join("f"),
            ..plan(host(&state_dir.path().join("f"), HostPathType::File), None)
        };
        assert_eq!(prepare(std::slice::from_ref(&itself), &folder).unwrap(), []);
        assert_eq!(prepare(&[MountPlan { read_only: true, ..itself }], &folder).unwrap().len(), 1);
    }

    #[test]
    fn files_are_written_once_with_their_modes() {
        let state_dir = tempfile::tempdir().unwrap();
        let folder = PodFolder::new(state_dir.path(), state_dir.path(), "u");
        let file = FilePlan { path: "a/b".into(), mode: 0o400, content: BASE64_STANDARD.encode("secret") };
        let volume = VolumePlan::Files { volume: "v".to_owned(), files: vec![file] };
        for _ in 0..2 {
            let mounts = prepare(&[plan(volume.clone(), Some("a/b"))], &folder).unwrap();
            assert_eq!(fs::read_to_string(&mounts[0].from).unwrap(), "secret");
            assert_eq!(fs::metadata(&mounts[0].from).unwrap().permissions().mode() & 0o777, 0o400);
        }
        let missing = prepare(&[plan(volume, Some("c"))], &folder).unwrap_err().to_string();
        assert!(missing.contains("volume v has no c"), "{missing}");
        let empty = prepare(&[plan(VolumePlan::Empty("e".to_owned()), Some("x/y"))], &folder).unwrap();
        assert!(empty[0].from.is_dir());
    }
}
