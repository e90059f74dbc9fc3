//! Builds one Go module into the cache, onto a [`shelf`] of its own.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{
    ToolsError,
    modules::{GoModule, Program},
    shelf::{self, io},
};

/// Builds one program of a module (folder with the module's files) into a file.
pub(super) type BuildProgram<'a> = dyn FnMut(&Path, &Program, &Path) -> Result<(), ToolsError> + 'a;

/// The folder with the module's programs, built first if it is not there.
pub(super) fn ensure(
    cache: &Path,
    module: &GoModule,
    build_program: &mut BuildProgram<'_>,
) -> Result<PathBuf, ToolsError> {
    let shelf = cache.join("tools").join(module.name);
    shelf::ensure(&shelf, &module.key(), |folder| build_into(folder, module, build_program))
}

/// Builds all programs into a folder below `unfinished`.
fn build_into(
    unfinished: &Path,
    module: &GoModule,
    build_program: &mut BuildProgram<'_>,
) -> Result<PathBuf, ToolsError> {
    let sources = unfinished.join("module");
    let programs = unfinished.join("bin");
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
    Ok(programs)
}

#[cfg(test)]
mod tests {
    use std::{
        fs::File,
        sync::{
            Barrier,
            atomic::{AtomicUsize, Ordering},
        },
        time::SystemTime,
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
