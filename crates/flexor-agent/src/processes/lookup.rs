//! Which file a command names, found before anything is started.
//!
//! The rules are those of `execvp`: a name with a slash is a path, any other is looked for in the folders of `PATH`.
//! Looking first means that a misspelt command is one clear error, not a failure of every process.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, eaccess};
use thiserror::Error;

/// Where the C library looks when `PATH` is not set.
const PATH_OF_THE_SYSTEM: &str = "/bin:/usr/bin";

/// Why a command cannot be started.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ProgramError {
    /// No name at all.
    #[error("the command is empty; name the program to start")]
    Empty,
    /// No folder of `PATH` has it.
    #[error("no command '{}': no folder of PATH has it; check the spelling, install it, or give its path", name.display())]
    NotInPath {
        /// The name as it was given.
        name: OsString,
    },
    /// No folder of `PATH` has it, but the current one, where nobody looks.
    #[error(
        "no command '{name}': no folder of PATH has it, but the current folder does; write './{name}' or 'python3 {name}'",
        name = name.display()
    )]
    OnlyHere {
        /// The name as it was given.
        name: OsString,
    },
    /// The path leads nowhere.
    #[error("no program '{}': there is no such file; check the path, it is relative to '{}'", path.display(), here.display())]
    NoSuchFile {
        /// The path as it was given.
        path: PathBuf,
        /// The folder that it would run in.
        here: PathBuf,
    },
    /// The path is that of a folder.
    #[error("'{}' is a folder, not a program; name a file in it", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
    },
    /// The file exists and may not be executed.
    #[error(
        "'{path}' may not be executed; make it executable (chmod +x '{path}') or start it with its interpreter (python3 '{path}')",
        path = path.display()
    )]
    NotExecutable {
        /// The file.
        path: PathBuf,
    },
}

/// Finds the file that `program` names, where `path` is the value of `PATH` and `folder` where it would run, if not here.
/// A relative path is relative to that folder, and so is what is found by it.
///
/// # Errors
///
/// There is none that could be executed.
pub fn find_program(program: &OsStr, path: Option<&OsStr>, folder: Option<&Path>) -> Result<PathBuf, ProgramError> {
    let look = |path: &Path| look(&folder.map_or_else(|| path.to_owned(), |folder| folder.join(path)));
    if program.is_empty() {
        return Err(ProgramError::Empty);
    }
    if program.as_bytes().contains(&b'/') {
        let path = PathBuf::from(program);
        return match look(&path) {
            Found::Program => Ok(path),
            Found::Nothing => {
                let here = folder.map_or_else(|| env::current_dir().unwrap_or_default(), Path::to_owned);
                Err(ProgramError::NoSuchFile { path, here })
            }
            Found::Folder => Err(ProgramError::Folder { path }),
            Found::NotExecutable => Err(ProgramError::NotExecutable { path }),
        };
    }
    let mut not_executable = None;
    for folder in env::split_paths(path.unwrap_or(OsStr::new(PATH_OF_THE_SYSTEM))) {
        // An empty entry of PATH is the current folder.
        let file = if folder.as_os_str().is_empty() { Path::new(".").join(program) } else { folder.join(program) };
        match look(&file) {
            Found::Program => return Ok(file),
            Found::NotExecutable => _ = not_executable.get_or_insert(file),
            Found::Nothing | Found::Folder => {}
        }
    }
    let name = program.to_owned();
    match (not_executable, look(Path::new(program))) {
        (Some(path), _) => Err(ProgramError::NotExecutable { path }),
        (None, Found::Program | Found::NotExecutable) => Err(ProgramError::OnlyHere { name }),
        (None, Found::Nothing | Found::Folder) => Err(ProgramError::NotInPath { name }),
    }
}

enum Found {
    Program,
    Nothing,
    Folder,
    NotExecutable,
}

fn look(path: &Path) -> Found {
    match fs::metadata(path) {
        Err(_) => Found::Nothing,
        Ok(metadata) if metadata.is_dir() => Found::Folder,
        Ok(_) if eaccess(path, AccessFlags::X_OK).is_err() => Found::NotExecutable,
        Ok(_) => Found::Program,
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
    fn a_name_is_looked_for_in_the_folders_of_path() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = env::join_paths([first.path(), second.path()]).unwrap();
        fs::create_dir(first.path().join("train")).unwrap();
        let program = file(second.path(), "train", 0o755);
        assert_eq!(
            find_program(OsStr::new("train"), Some(&path), None),
            Ok(program),
            "a folder of that name is passed over"
        );
        let earlier = file(first.path(), "eval", 0o755);
        file(second.path(), "eval", 0o755);
        assert_eq!(find_program(OsStr::new("eval"), Some(&path), None), Ok(earlier));
        assert!(find_program(OsStr::new("sh"), None, None).is_ok(), "without PATH the system's folders count");
    }

    #[test]
    fn a_relative_path_starts_where_the_program_runs() {
        let folder = tempfile::tempdir().unwrap();
        file(folder.path(), "train", 0o755);
        let there = find_program(OsStr::new("./train"), None, Some(folder.path()));
        assert_eq!(there, Ok(PathBuf::from("./train")));
        let here = find_program(OsStr::new("./train"), None, None);
        assert!(matches!(here, Err(ProgramError::NoSuchFile { .. })), "{here:?}");
    }

    #[test]
    fn each_way_to_fail_says_what_to_try() {
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
        // Whoever may execute nothing may not execute this; the superuser is held to it too.
        let expected = format!(
            "'{path}' may not be executed; make it executable (chmod +x '{path}') or start it with its interpreter \
             (python3 '{path}')",
            path = script.display()
        );
        assert_eq!(fails(script.as_os_str()), expected);
        assert_eq!(fails(OsStr::new("train.py")), expected, "found in PATH");
    }
}
