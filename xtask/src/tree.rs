//! The files of a checkout: what git tracks or would track, relative to the root and in a fixed order.
//!
//! Every check of `tidy` and every page of `gen` reads the project through a [`Tree`], so that its tests can hand it a
//! small made-up folder. It is not for build outputs: what git ignores does not exist here.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

/// The project's files under one root.
pub(crate) struct Tree {
    root: PathBuf,
    /// Relative to `root`; each is a plain file that exists.
    files: BTreeSet<PathBuf>,
}

impl Tree {
    /// The checkout that this program was built from.
    pub(crate) fn of_project() -> Result<Tree> {
        Tree::read(project_root())
    }

    /// Lists the files under `root`: by git where there is a repository, else by walking.
    pub(crate) fn read(root: &Path) -> Result<Tree> {
        let listed = if root.join(".git").exists() { list_by_git(root) } else { None };
        let files = match listed {
            Some(files) => files,
            None => {
                let mut files = BTreeSet::new();
                walk(root, Path::new(""), &mut files)?;
                files
            }
        };
        Ok(Tree { root: root.to_owned(), files })
    }

    /// The folder that all paths are relative to.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Every file, sorted.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(PathBuf::as_path)
    }

    /// The files whose name ends in `.extension`, sorted.
    pub(crate) fn with_extension<'a>(&'a self, extension: &'a str) -> impl Iterator<Item = &'a Path> {
        self.files().filter(move |path| path.extension() == Some(OsStr::new(extension)))
    }

    /// Whether the project has this file.
    pub(crate) fn contains(&self, path: impl AsRef<Path>) -> bool {
        self.files.contains(path.as_ref())
    }

    /// The text of a file, or `None` for one that is not UTF-8 (a picture, a recorded file).
    pub(crate) fn text(&self, path: impl AsRef<Path>) -> Result<Option<String>> {
        let path = path.as_ref();
        let bytes = std::fs::read(self.root.join(path)).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(String::from_utf8(bytes).ok())
    }
}

/// The root of the checkout that this program was built from.
pub(crate) fn project_root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies directly below the root")
}

/// `None` when git is not installed or refuses the folder; walking is then good enough.
fn list_by_git(root: &Path) -> Option<BTreeSet<PathBuf>> {
    let listing = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .ok()?;
    if !listing.status.success() {
        return None;
    }
    let names = listing.stdout.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let files = names.map(|name| PathBuf::from(OsStr::from_bytes(name)));
    // A file deleted but not yet staged is still in git's list.
    Some(files.filter(|path| root.join(path).is_file()).collect())
}

fn walk(root: &Path, folder: &Path, files: &mut BTreeSet<PathBuf>) -> Result<()> {
    let absolute = root.join(folder);
    for entry in absolute.read_dir().with_context(|| format!("cannot list {}", absolute.display()))? {
        let entry = entry?;
        let (name, path) = (entry.file_name(), folder.join(entry.file_name()));
        // A link to a file is a file of the project, as it is to git; a link to a folder is not walked.
        if entry.file_type()?.is_dir() {
            if name != ".git" && name != "target" {
                walk(root, &path, files)?;
            }
        } else if entry.path().is_file() {
            files.insert(path);
        }
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod made_up {
    //! Small folders for the tests of checks and pages.

    use super::Tree;

    /// A folder with the given files; it is removed when the value is dropped.
    pub(crate) struct MadeUp {
        folder: tempfile::TempDir,
    }

    impl MadeUp {
        pub(crate) fn with(files: &[(&str, &str)]) -> MadeUp {
            let made_up = MadeUp { folder: tempfile::tempdir().unwrap() };
            for (path, text) in files {
                made_up.write(path, text);
            }
            made_up
        }

        pub(crate) fn write(&self, path: &str, text: &str) {
            let path = self.folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }

        pub(crate) fn tree(&self) -> Tree {
            Tree::read(self.folder.path()).unwrap()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::made_up::MadeUp;
    use super::*;

    #[test]
    fn build_outputs_are_not_part_of_the_project() {
        let folder = MadeUp::with(&[("src/lib.rs", ""), ("target/debug/junk.rs", ""), (".git/config", "")]);
        std::fs::remove_file(folder.tree().root().join(".git/config")).unwrap();
        assert_eq!(folder.tree().files().collect::<Vec<_>>(), [Path::new("src/lib.rs")]);
    }

    #[test]
    fn git_decides_what_belongs_where_there_is_a_repository() {
        let folder = MadeUp::with(&[(".gitignore", "/out\n"), ("out/x.rs", ""), ("kept.rs", ""), ("gone.rs", "")]);
        let root = folder.tree().root().to_owned();
        let git = |arguments: &[&str]| {
            let status = Command::new("git").args(arguments).current_dir(&root).output().unwrap().status;
            assert!(status.success(), "git {arguments:?}");
        };
        git(&["init", "--quiet"]);
        git(&["add", "gone.rs"]);
        std::fs::remove_file(root.join("gone.rs")).unwrap();
        let tree = folder.tree();
        assert_eq!(tree.files().collect::<Vec<_>>(), [Path::new(".gitignore"), Path::new("kept.rs")]);
    }
}
