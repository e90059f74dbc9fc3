//! Looks up the file that a command names, before anything is started.
//!
//! The rules are those of `execvp`: a name with a slash is a path, any other is looked up in the folders of `PATH`.
//! Thanks to the early lookup a misspelt command is one clear error, not a failure of every process.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, eaccess};
use thiserror::Error;

/// The `PATH` of the C library where the variable is not set.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// Why a command cannot be started.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ProgramError {
    #[error("the command is empty; name the program to start")]
    Empty,
    #[error("no command '{}': no folder of PATH has it; check the spelling, install it, or give its path", name.display())]
    NotInPath { name: OsString },
    /// Only the current folder has it, which is not in `PATH`.
    #[error(
        "no command '{name}': no folder of PATH has it, but the current folder does; write './{name}' or 'python3 {name}'",
        name = name.display()
    )]
    OnlyHere { name: OsString },
    #[error("no program '{}': there is no such file; check the path, it is relative to '{}'", path.display(), here.display())]
    NoSuchFile {
        path: PathBuf,
        /// The working folder of the program.
        here: PathBuf,
    },
    #[error("'{}' is a folder, not a program; name a file in it", path.display())]
    Folder { path: PathBuf },
    #[error(
        "'{path}' may not be executed; make it executable (chmod +x '{path}') or start it with its interpreter (python3 '{path}')",
        path = path.display()
    )]
    NotExecutable { path: PathBuf },
}

impl ProgramError {
    /// The exit code that a shell has for it: 126 for a file that cannot be executed, 127 for one that is not there.
    pub fn exit_code(&self) -> u8 {
        match self {
            ProgramError::NotExecutable { .. } | ProgramError::Folder { .. } => 126,
            ProgramError::Empty
            | ProgramError::NotInPath { .. }
            | ProgramError::OnlyHere { .. }
            | ProgramError::NoSuchFile { .. } => 127,
        }
    }
}

/// Finds the file that `program` names. `path` is the value of `PATH`; `folder` is the program's working folder, if it is
/// not ours. A relative path starts at that folder, and so does the result.
///
/// # Errors
///
/// There is no file that can be executed.
pub fn find_program(program: &OsStr, path: Option<&OsStr>, folder: Option<&Path>) -> Result<PathBuf, ProgramError> {
    let kind_of = |path: &Path| kind_of(&folder.map_or_else(|| path.to_owned(), |folder| folder.join(path)));
    if program.is_empty() {
        return Err(ProgramError::Empty);
    }
    if program.as_bytes().contains(&b'/') {
        let path = PathBuf::from(program);
        return match kind_of(&path) {
            PathKind::Program => Ok(path),
            PathKind::Missing => {
                let here = folder.map_or_else(|| env::current_dir().unwrap_or_default(), Path::to_owned);
                Err(ProgramError::NoSuchFile { path, here })
            }
            PathKind::Folder => Err(ProgramError::Folder { path }),
            PathKind::NotExecutable => Err(ProgramError::NotExecutable { path }),
        };
    }
    let mut not_executable = None;
    for folder in env::split_paths(path.unwrap_or(OsStr::new(DEFAULT_PATH))) {
        // An empty entry of PATH is the current folder.
        let file = if folder.as_os_str().is_empty() { Path::new(".").join(program) } else { folder.join(program) };
        match kind_of(&file) {
            PathKind::Program => return Ok(file),
            PathKind::NotExecutable => _ = not_executable.get_or_insert(file),
            PathKind::Missing | PathKind::Folder => {}
        }
    }
    let name = program.to_owned();
    match (not_executable, kind_of(Path::new(program))) {
        (Some(path), _) => Err(ProgramError::NotExecutable { path }),
        (None, PathKind::Program | PathKind::NotExecutable) => Err(ProgramError::OnlyHere { name }),
        (None, PathKind::Missing | PathKind::Folder) => Err(ProgramError::NotInPath { name }),
    }
}

enum PathKind {
    Program,
    Missing,
    Folder,
    NotExecutable,
}

fn kind_of(path: &Path) -> PathKind {
    match fs::metadata(path) {
        Err(_) => PathKind::Missing,
        Ok(metadata) if metadata.is_dir() => PathKind::Folder,
        Ok(_) if eaccess(path, AccessFlags::X_OK).is_err() => PathKind::NotExecutable,
        Ok(_) => PathKind::Program,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn file(folder: &Path, name: &str, mode: u32) -> PathBuf {
        let path = folder.join(name);
        fs::write(&path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn a_name_is_looked_up_in_the_folders_of_path() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = env::join_paths([first.path(), second.path()]).unwrap();
        fs::create_dir(first.path().join("train")).unwrap();
        let program = file(second.path(), "train", 0o755);
        assert_eq!(
            find_program(OsStr::new("train"), Some(&path), None),
            Ok(program),
            "a folder of that name is skipped"
        );
        let earlier = file(first.path(), "eval", 0o755);
        file(second.path(), "eval", 0o755);
        assert_eq!(find_program(OsStr::new("eval"), Some(&path), None), Ok(earlier));
        assert!(find_program(OsStr::new("sh"), None, None).is_ok(), "without PATH the default folders are searched");
    }

    #[test]
    fn a_relative_path_starts_at_the_working_folder() {
        let folder = tempfile::tempdir().unwrap();
        file(folder.path(), "train", 0o755);
        let there = find_program(OsStr::new("./train"), None, Some(folder.path()));
        assert_eq!(there, Ok(PathBuf::from("./train")));
        let here = find_program(OsStr::new("./train"), None, None);
        assert!(matches!(here, Err(ProgramError::NoSuchFile { .. })), "{here:?}");
    }

    #[test]
    fn each_error_says_what_to_try() {
        let folder = tempfile::tempdir().unwrap();
        let script = file(folder.path(), "train.py", 0o644);
        let fails =
            |program: &OsStr| find_program(program, Some(folder.path().as_os_str()), None).unwrap_err().to_string();
        assert_eq!(fails(OsStr::new("")), "the command is empty; name the program to start");
        assert_eq!(
            fails(OsStr::new("no-such-command")),
            "no command 'no-such-command': no folder of PATH has it; check the spelling, install it, or give its path"
        );
        // Tests run in the folder of the crate.
        assert_eq!(
            fails(OsStr::new("Cargo.toml")),
            "no command 'Cargo.toml': no folder of PATH has it, but the current folder does; write './Cargo.toml' or \
             'python3 Cargo.toml'"
        );
        let missing = fails(folder.path().join("missing").as_os_str());
        assert!(missing.contains("there is no such file; check the path"), "{missing}");
        assert!(fails(folder.path().as_os_str()).contains("is a folder, not a program"));
        let inside = fails(script.join("below").as_os_str());
        assert!(inside.contains("there is no such file"), "{inside}");
        // Not even the superuser may execute a file without an execute bit.
        let expected = format!(
            "'{path}' may not be executed; make it executable (chmod +x '{path}') or start it with its interpreter \
             (python3 '{path}')",
            path = script.display()
        );
        assert_eq!(fails(script.as_os_str()), expected);
        assert_eq!(fails(OsStr::new("train.py")), expected, "found in PATH");
    }
}
