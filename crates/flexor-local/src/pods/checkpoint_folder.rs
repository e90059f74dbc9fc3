//! Checks before a job starts that its checkpoint folder can be written on this machine.
//!
//! Nothing is created: where the folder does not exist, the nearest existing ancestor must be writable. A folder inside a
//! volume of the parameter servers is not checked.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use flexor_model::{Job, Role, RoleKind};
use rustix::fs::{Access, access};
use serde_json::Value;
use thiserror::Error;

/// Why the checkpoint folder cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("spec.flexor.checkpoints.folder: {} {why}; name a folder that can be written", path.display())]
pub struct CheckpointFolderError {
    path: PathBuf,
    why: String,
}

/// Checks that a job's parameter servers can write checkpoints. `working_dir` is the folder of programs that name none.
pub(super) fn check(job: &Job, working_dir: &Path) -> Result<(), CheckpointFolderError> {
    let Some(checkpoints) = &job.checkpoints else { return Ok(()) };
    let servers = job.roles.iter().filter(|role| role.kind == RoleKind::ParameterServer);
    servers
        .filter_map(|role| path_of(role, Path::new(&checkpoints.folder), working_dir))
        .try_for_each(|path| check_path(&path))
}

/// The path that the servers of a role write to; nothing where it lies in a volume of theirs.
fn path_of(role: &Role, folder: &Path, working_dir: &Path) -> Option<PathBuf> {
    let containers = role.template.json()["spec"]["containers"].as_array()?;
    let main = &containers.get(role.template.main_index())?;
    let path = main["workingDir"].as_str().map_or(working_dir, Path::new).join(folder);
    let mounts = main["volumeMounts"].as_array().into_iter().flatten();
    let is_in = |mount: &Value| mount["mountPath"].as_str().is_some_and(|mounted| path.starts_with(mounted));
    (!mounts.into_iter().any(is_in)).then_some(path)
}

fn check_path(path: &Path) -> Result<(), CheckpointFolderError> {
    let refused = |why: String| Err(CheckpointFolderError { path: path.to_owned(), why });
    for above in path.ancestors() {
        let existing = if above.as_os_str().is_empty() { Path::new(".") } else { above };
        match fs::metadata(existing) {
            Ok(found) if !found.is_dir() && above == path => return refused("is a file".to_owned()),
            Ok(found) if !found.is_dir() => return refused(format!("cannot be made: {} is a file", above.display())),
            Ok(_) => match access(existing, Access::WRITE_OK | Access::EXEC_OK) {
                Ok(()) => return Ok(()),
                Err(error) if above == path => return refused(format!("cannot be written: {error}")),
                Err(error) => return refused(format!("cannot be made in {}: {error}", existing.display())),
            },
            // A dangling link exists, so no folder can be created in its stead.
            Err(error) if error.kind() == ErrorKind::NotFound && fs::symlink_metadata(existing).is_ok() => {
                return refused(format!("cannot be made: {} leads nowhere", above.display()));
            }
            // A path below a file is reported once the loop reaches that file.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
            Err(error) => return refused(format!("cannot be looked at: {error}")),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_of(path: &Path) -> String {
        check_path(path).map_err(|why| why.to_string()).err().unwrap_or_default()
    }

    #[test]
    fn a_folder_that_exists_or_can_be_created_is_accepted_and_not_created() {
        let state_dir = tempfile::tempdir().unwrap();
        assert_eq!(error_of(state_dir.path()), "");
        assert_eq!(error_of(&state_dir.path().join("a/b/c")), "");
        assert_eq!(fs::read_dir(state_dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_file_in_the_way_is_named() {
        let state_dir = tempfile::tempdir().unwrap();
        let file = state_dir.path().join("kept");
        fs::write(&file, "in the way").unwrap();
        let shown = file.display();
        assert_eq!(
            error_of(&file),
            format!("spec.flexor.checkpoints.folder: {shown} is a file; name a folder that can be written")
        );
        let below = error_of(&file.join("a/b"));
        assert!(below.contains(&format!("{shown}/a/b cannot be made: {shown} is a file; name")), "{below}");
    }

    #[test]
    fn a_link_to_nothing_is_no_folder() {
        let state_dir = tempfile::tempdir().unwrap();
        let link = state_dir.path().join("kept");
        std::os::unix::fs::symlink(state_dir.path().join("gone"), &link).unwrap();
        assert!(error_of(&link).contains("leads nowhere"), "{}", error_of(&link));
    }
}
