//! Builds one Go module into the cache, once, however many processes ask at the same time.
//!
//! A folder named by the key is only ever created by renaming a finished one, so its presence means that it is
//! complete. A lock makes the second caller wait instead of building again; the kernel releases it when its holder
//! dies.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    time::SystemTime,
};

use super::{
    ToolsError,
    modules::{GoModule, Program},
};

/// How many builds of one module stay in the cache: the one in use and the one before it (another branch).
const KEPT: usize = 2;

/// Builds one program of a module (folder with the module's files) into a file.
pub(super) type BuildProgram<'a> = dyn FnMut(&Path, &Program, &Path) -> Result<(), ToolsError> + 'a;

/// The folder with the module's programs, built first if it is not there.
pub(super) fn ensure(
    cache: &Path,
    module: &GoModule,
    build_program: &mut BuildProgram<'_>,
) -> Result<PathBuf, ToolsError> {
    let shelf = cache.join("tools").join(module.name);
    let destination = shelf.join(module.key());
    if destination.is_dir() {
        return Ok(destination);
    }
    fs::create_dir_all(&shelf).map_err(io("create", &shelf))?;
    let lock_path = shelf.join("lock");
    let lock = File::create(&lock_path).map_err(io("create", &lock_path))?;
    lock.lock().map_err(io("lock", &lock_path))?;
    if destination.is_dir() {
        return Ok(destination);
    }
    build_into(&shelf, &destination, module, build_program)?;
    prune(&shelf, &destination);
    Ok(destination)
}

fn build_into(
    shelf: &Path,
    destination: &Path,
    module: &GoModule,
    build_program: &mut BuildProgram<'_>,
) -> Result<(), ToolsError> {
    let unfinished = tempfile::Builder::new().prefix("unfinished-").tempdir_in(shelf).map_err(io("write to", shelf))?;
    let sources = unfinished.path().join("module");
    let programs = unfinished.path().join("bin");
    for folder in [&sources, &programs] {
        fs::create_dir(folder).map_err(io("create", folder))?;
    }
    for (name, text) in module.files {
        let file = sources.join(name);
        fs::write(&file, text).map_err(io("write", &file))?;
    }
    for program in module.programs {
        build_program(&sources, program, &programs.join(program.name))?;
    }
    fs::rename(&programs, destination).map_err(io("move into place", destination))
}

/// Removes builds beyond the newest few, and folders of killed builds. Only the holder of the lock calls it, so no
/// unfinished folder here is in use.
fn prune(shelf: &Path, in_use: &Path) {
    let Ok(entries) = fs::read_dir(shelf) else { return };
    let mut finished: Vec<(SystemTime, PathBuf)> = Vec::new();
    for entry in entries.flatten().filter(|entry| entry.path().is_dir()) {
        let path = entry.path();
        if entry.file_name().to_string_lossy().starts_with("unfinished-") {
            let _ = fs::remove_dir_all(path);
        } else if path != in_use {
            let made = entry.metadata().and_then(|meta| meta.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
            finished.push((made, path));
        }
    }
    finished.sort();
    for (_, path) in finished.iter().rev().skip(KEPT - 1) {
        let _ = fs::remove_dir_all(path);
    }
}

fn io(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> ToolsError {
    let path = path.to_owned();
    move |source| ToolsError::Io { doing: format!("{doing} {}", path.display()), source }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Barrier,
        atomic::{AtomicUsize, Ordering},
    };

    use super::*;

    const MODULE: GoModule = GoModule {
        name: "tiny",
        files: &[("go.mod", "module tiny\n")],
        programs: &[
            Program { name: "one", package: "tiny/one", ldflags: "" },
            Program { name: "two", package: "tiny/two", ldflags: "" },
        ],
        first_build: "a moment",
    };

    fn write_program(_: &Path, program: &Program, output: &Path) -> Result<(), ToolsError> {
        fs::write(output, program.name).map_err(io("write", output))
    }

    #[test]
    fn two_concurrent_callers_build_once_and_both_get_complete_tools() {
        let cache = tempfile::tempdir().unwrap();
        let (built, start) = (AtomicUsize::new(0), Barrier::new(2));
        let ensure_one = || {
            start.wait();
            ensure(cache.path(), &MODULE, &mut |sources, program, output| {
                assert!(sources.join("go.mod").is_file());
                built.fetch_add(1, Ordering::SeqCst);
                write_program(sources, program, output)
            })
            .unwrap()
        };
        let (left, right) = std::thread::scope(|scope| {
            let left = scope.spawn(ensure_one);
            let right = scope.spawn(ensure_one);
            (left.join().unwrap(), right.join().unwrap())
        });
        assert_eq!(left, right);
        assert_eq!(built.into_inner(), MODULE.programs.len());
        assert_eq!(fs::read_to_string(left.join("two")).unwrap(), "two");
    }

    #[test]
    fn a_failed_build_leaves_no_tools_and_the_next_one_starts_over() {
        let cache = tempfile::tempdir().unwrap();
        let failed = ensure(cache.path(), &MODULE, &mut |_, program, output| {
            fs::write(output, "half").map_err(io("write", output))?;
            match program.name {
                "one" => Ok(()),
                name => Err(ToolsError::Build { program: name, output: "no space left".into() }),
            }
        });
        assert!(failed.unwrap_err().to_string().contains("no space left"));
        let destination = ensure(cache.path(), &MODULE, &mut write_program).unwrap();
        assert_eq!(fs::read_to_string(destination.join("one")).unwrap(), "one");
        let left: Vec<_> =
            fs::read_dir(destination.parent().unwrap()).unwrap().flatten().map(|e| e.file_name()).collect();
        assert_eq!(left.len(), 2, "only the lock and the finished build may stay: {left:?}");
    }

    #[test]
    fn only_the_newest_builds_stay() {
        let cache = tempfile::tempdir().unwrap();
        let shelf = cache.path().join("tools/tiny");
        for (age, key) in ["old", "older", "oldest"].iter().enumerate() {
            let folder = shelf.join(key);
            fs::create_dir_all(&folder).unwrap();
            let made = SystemTime::now() - std::time::Duration::from_secs(3600 * (age as u64 + 1));
            File::open(&folder).unwrap().set_modified(made).unwrap();
        }
        fs::create_dir(shelf.join("unfinished-killed")).unwrap();
        ensure(cache.path(), &MODULE, &mut write_program).unwrap();
        let mut left: Vec<_> = fs::read_dir(&shelf).unwrap().flatten().map(|entry| entry.file_name()).collect();
        left.sort();
        let mut wanted = vec![MODULE.key().into(), "lock".into(), std::ffi::OsString::from("old")];
        wanted.sort();
        assert_eq!(left, wanted);
    }
}
