//! Whether the folder for a job's checkpoints can be had on this machine, looked at before anything is started.
//!
//! Nothing is made: where the folder is not there yet, the nearest one above it has to be one that can be written. A
//! folder in a volume of the parameter servers is somewhere else, and not looked at.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use flexor_model::{Job, Role, RoleKind};
use rustix::fs::{Access, access};
use serde_json::Value;
use thiserror::Error;

/// Why checkpoints cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("spec.flexor.checkpoints.folder: {} {why}; name a folder that can be written", path.display())]
pub struct NoFolder {
    path: PathBuf,
    why: String,
}

/// Looks whether a job's parameter servers could write checkpoints; `here` is where programs run that name no folder.
pub(super) fn look(job: &Job, here: &Path) -> Result<(), NoFolder> {
    let Some(checkpoints) = &job.checkpoints else { return Ok(()) };
    let servers = job.roles.iter().filter(|role| role.kind == RoleKind::ParameterServer);
    servers.filter_map(|role| place(role, Path::new(&checkpoints.folder), here)).try_for_each(|path| can_be_had(&path))
}

/// Where the servers of a role write; nothing where that is in a volume of theirs.
fn place(role: &Role, folder: &Path, here: &Path) -> Option<PathBuf> {
    let containers = role.template.json()["spec"]["containers"].as_array()?;
    let main = &containers.get(role.template.main_index())?;
    let path = main["workingDir"].as_str().map_or(here, Path::new).join(folder);
    let mounts = main["volumeMounts"].as_array().into_iter().flatten();
    let is_in = |mount: &Value| mount["mountPath"].as_str().is_some_and(|mounted| path.starts_with(mounted));
    (!mounts.into_iter().any(is_in)).then_some(path)
}

fn can_be_had(path: &Path) -> Result<(), NoFolder> {
    let refused = |why: String| Err(NoFolder { path: path.to_owned(), why });
    for above in path.ancestors() {
        let place = if above.as_os_str().is_empty() { Path::new(".") } else { above };
        match fs::metadata(place) {
            Ok(found) if !found.is_dir() && above == path => return refused("is a file".to_owned()),
            Ok(found) if !found.is_dir() => return refused(format!("cannot be made: {} is a file", above.display())),
            Ok(_) => match access(place, Access::WRITE_OK | Access::EXEC_OK) {
                Ok(()) => return Ok(()),
                Err(error) if above == path => return refused(format!("cannot be written: {error}")),
                Err(error) => return refused(format!("cannot be made in {}: {error}", place.display())),
            },
            // A link to nothing is there and cannot be made.
            Err(error) if error.kind() == ErrorKind::NotFound && fs::symlink_metadata(place).is_ok() => {
                return refused(format!("cannot be made: {} leads nowhere", above.display()));
            }
            // What is below a file says so when that file is come to.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
            Err(error) => return refused(format!("cannot be looked at: {error}")),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(path: &Path) -> String {
        can_be_had(path).map_err(|why| why.to_string()).err().unwrap_or_default()
    }

    #[test]
    fn a_folder_that_is_there_or_can_be_made_will_do_and_nothing_is_made_of_it() {
        let state_dir = tempfile::tempdir().unwrap();
        assert_eq!(told(state_dir.path()), "");
        assert_eq!(told(&state_dir.path().join("a/b/c")), "");
        assert_eq!(fs::read_dir(state_dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_file_in_the_way_is_named() {
        let state_dir = tempfile::tempdir().unwrap();
        let file = state_dir.path().join("kept");
        fs::write(&file, "in the way").unwrap();
        let shown = file.display();
        assert_eq!(
            told(&file),
            format!("spec.flexor.checkpoints.folder: {shown} is a file; name a folder that can be written")
        );
        let below = told(&file.join("a/b"));
        assert!(below.contains(&format!("{shown}/a/b cannot be made: {shown} is a file; name")), "{below}");
    }

    #[test]
    fn a_link_to_nothing_is_no_folder() {
        let state_dir = tempfile::tempdir().unwrap();
        let link = state_dir.path().join("kept");
        std::os::unix::fs::symlink(state_dir.path().join("gone"), &link).unwrap();
        assert!(told(&link).contains("leads nowhere"), "{}", told(&link));
    }
}
