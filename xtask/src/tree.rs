//! The files of a checkout: what git tracks or would track, relative to the root and in a fixed order.
//!
//! Every check of `tidy` and every page of `gen` reads the project through a [`Tree`], so that its tests can use a
//! small test folder. Build outputs are not included: files that git ignores do not exist here.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::packages::cargo;

/// The project's files under one root.
pub(crate) struct Tree {
    root: PathBuf,
    /// Relative to `root`; each is a plain file that exists.
    files: BTreeSet<PathBuf>,
}

impl Tree {
    /// The checkout that the command was given in.
    pub(crate) fn of_project() -> Result<Tree> {
        Tree::read(&project_root()?)
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

/// The root of the checkout that the command was given in.
///
/// Asked at run time: checkouts that share a target folder share this program too, whichever of them it was built from.
pub(crate) fn project_root() -> Result<PathBuf> {
    // `cargo xtask` and `cargo test` both set the path of this package; a program started by hand asks cargo.
    match std::env::var_os("CARGO_MANIFEST_DIR") {
        Some(package) => root_above(Path::new(&package)),
        None => located_root(),
    }
}

fn root_above(package: &Path) -> Result<PathBuf> {
    let root = package.ancestors().find(|folder| folder.join("xtask/Cargo.toml").is_file());
    let root = root.with_context(|| {
        format!("CARGO_MANIFEST_DIR={} is in no checkout of this project; use `cargo xtask`", package.display())
    })?;
    Ok(root.to_owned())
}

fn located_root() -> Result<PathBuf> {
    let answer = cargo()
        .args(["locate-project", "--workspace", "--message-format=plain"])
        .output()
        .context("cannot start cargo locate-project")?;
    let complaint = String::from_utf8_lossy(&answer.stderr);
    ensure!(answer.status.success(), "not in a checkout of this project: {}", complaint.trim());
    let manifest = PathBuf::from(OsStr::from_bytes(answer.stdout.trim_ascii_end()));
    root_above(manifest.parent().context("a manifest lies in a folder")?)
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
pub(crate) mod test_folder {
    //! Small folders for the tests of checks and pages.

    use super::Tree;

    /// A folder with the given files; it is removed when the value is dropped.
    pub(crate) struct TestFolder {
        folder: tempfile::TempDir,
    }

    impl TestFolder {
        pub(crate) fn with(files: &[(&str, &str)]) -> TestFolder {
            let test_folder = TestFolder { folder: tempfile::tempdir().unwrap() };
            for (path, text) in files {
                test_folder.write(path, text);
            }
            test_folder
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
    use super::test_folder::TestFolder;
    use super::*;

    #[test]
    fn the_root_is_found_from_any_package_of_the_checkout() {
        let folder = TestFolder::with(&[("xtask/Cargo.toml", ""), ("crates/a/Cargo.toml", "")]);
        let root = folder.tree().root().to_owned();
        assert_eq!(root_above(&root.join("xtask")).unwrap(), root);
        assert_eq!(root_above(&root.join("crates/a")).unwrap(), root);
    }

    #[test]
    fn a_folder_of_another_project_is_refused_by_name() {
        let folder = TestFolder::with(&[("Cargo.toml", "")]);
        let error = root_above(folder.tree().root()).unwrap_err().to_string();
        assert!(error.contains(&folder.tree().root().display().to_string()), "{error}");
        assert!(error.contains("cargo xtask"), "{error}");
    }

    #[test]
    fn without_cargo_variables_the_root_is_found_from_the_working_directory() {
        assert_eq!(located_root().unwrap(), project_root().unwrap());
    }

    #[test]
    fn build_outputs_are_not_part_of_the_project() {
        let folder = TestFolder::with(&[("src/lib.rs", ""), ("target/debug/junk.rs", ""), (".git/config", "")]);
        std::fs::remove_file(folder.tree().root().join(".git/config")).unwrap();
        assert_eq!(folder.tree().files().collect::<Vec<_>>(), [Path::new("src/lib.rs")]);
    }

    #[test]
    fn in_a_repository_git_decides_which_files_belong() {
        let folder = TestFolder::with(&[(".gitignore", "/out\n"), ("out/x.rs", ""), ("kept.rs", ""), ("gone.rs", "")]);
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
