//! The files of an image's only layer, in memory or on disk, under their paths in the container.
//!
//! Owners are always root: a program that is not root can then not change its own image. Parents of an entry are made
//! with mode 0755 where they are not given.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use crate::{ImageError, program};

/// A sorted tree of directories, files and symbolic links.
#[derive(Debug, Clone, Default)]
pub struct RootFiles {
    /// By path below the root, without a leading `/`.
    entries: BTreeMap<PathBuf, RootEntry>,
}

#[derive(Debug, Clone)]
pub(crate) enum RootEntry {
    Directory { mode: u32 },
    File { content: Content, mode: u32 },
    Symlink { target: PathBuf },
}

/// Where the bytes of a file are until the layer is written.
#[derive(Debug, Clone)]
pub(crate) enum Content {
    Memory(Vec<u8>),
    Disk(PathBuf),
}

const DIRECTORY_MODE: u32 = 0o755;
const PERMISSIONS: u32 = 0o7777;

impl RootFiles {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn directory(&mut self, path: impl AsRef<Path>, mode: u32) -> Result<(), ImageError> {
        self.insert(path.as_ref(), RootEntry::Directory { mode })
    }

    pub fn file(&mut self, path: impl AsRef<Path>, bytes: impl Into<Vec<u8>>, mode: u32) -> Result<(), ImageError> {
        self.insert(path.as_ref(), RootEntry::File { content: Content::Memory(bytes.into()), mode })
    }

    pub fn symlink(&mut self, path: impl AsRef<Path>, target: impl Into<PathBuf>) -> Result<(), ImageError> {
        self.insert(path.as_ref(), RootEntry::Symlink { target: target.into() })
    }

    /// A file of this machine, read when the layer is written.
    pub fn copy(&mut self, source: &Path, path: impl AsRef<Path>, mode: u32) -> Result<(), ImageError> {
        let metadata = fs::metadata(source).map_err(ImageError::io("read", source))?;
        if !metadata.is_file() {
            let source_error = std::io::Error::other("not a file");
            return Err(ImageError::Io { action: "read", path: source.to_owned(), source: source_error });
        }
        self.insert(path.as_ref(), RootEntry::File { content: Content::Disk(source.to_owned()), mode })
    }

    /// A folder of this machine with everything below it, with its modes. Devices, pipes and sockets are left out.
    pub fn tree(&mut self, source: &Path, path: impl AsRef<Path>) -> Result<(), ImageError> {
        let path = path.as_ref();
        if path != Path::new("/") {
            let metadata = fs::metadata(source).map_err(ImageError::io("read", source))?;
            self.directory(path, metadata.permissions().mode() & PERMISSIONS)?;
        }
        for entry in fs::read_dir(source).map_err(ImageError::io("read", source))? {
            let entry = entry.map_err(ImageError::io("read", source))?;
            let (from, to) = (entry.path(), path.join(entry.file_name()));
            let metadata = entry.metadata().map_err(ImageError::io("read", &from))?;
            if metadata.is_dir() {
                self.tree(&from, &to)?;
            } else if metadata.is_symlink() {
                self.symlink(&to, fs::read_link(&from).map_err(ImageError::io("read", &from))?)?;
            } else if metadata.is_file() {
                self.copy(&from, &to, metadata.permissions().mode() & PERMISSIONS)?;
            }
        }
        Ok(())
    }

    /// A program of this machine without its symbols and, where it is linked dynamically, the shared libraries that it
    /// names, under their paths on this machine.
    pub fn program(&mut self, source: &Path, path: impl AsRef<Path>) -> Result<(), ImageError> {
        let bytes = program::stripped(source)?;
        for library in program::shared_libraries(source)? {
            self.copy(&library, &library, 0o755)?;
        }
        self.file(path, bytes, 0o755)
    }

    /// Sorted, so that a directory comes before what is in it.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&Path, &RootEntry)> {
        self.entries.iter().map(|(path, entry)| (path.as_path(), entry))
    }

    fn insert(&mut self, path: &Path, entry: RootEntry) -> Result<(), ImageError> {
        let relative = relative(path)?;
        let parents = relative.ancestors().skip(1).filter(|parent| !parent.as_os_str().is_empty());
        for parent in parents {
            let held = self.entries.entry(parent.to_owned()).or_insert(RootEntry::Directory { mode: DIRECTORY_MODE });
            if !matches!(held, RootEntry::Directory { .. }) {
                return Err(ImageError::NotADirectory { path: path.to_owned(), parent: Path::new("/").join(parent) });
            }
        }
        self.entries.insert(relative, entry);
        Ok(())
    }
}

/// `/a/b` as `a/b`.
fn relative(path: &Path) -> Result<PathBuf, ImageError> {
    let bad = || ImageError::BadPath { path: path.to_owned() };
    let relative = path.strip_prefix("/").map_err(|_| bad())?;
    let is_plain = relative.components().all(|part| matches!(part, Component::Normal(_)));
    if relative.as_os_str().is_empty() || !is_plain { Err(bad()) } else { Ok(relative.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(files: &RootFiles) -> Vec<String> {
        files.entries().map(|(path, _)| path.display().to_string()).collect()
    }

    #[test]
    fn parents_come_before_their_entries() {
        let mut files = RootFiles::new();
        files.file("/usr/local/bin/flexor", "x", 0o755).unwrap();
        files.directory("/tmp", 0o1777).unwrap();
        assert_eq!(paths(&files), ["tmp", "usr", "usr/local", "usr/local/bin", "usr/local/bin/flexor"]);
    }

    #[test]
    fn a_path_that_leaves_the_image_is_refused() {
        for bad in ["", "/", "relative", "/../etc", "/a/../b"] {
            let refused = RootFiles::new().file(bad, "x", 0o644).unwrap_err().to_string();
            assert!(refused.starts_with(&format!("`{bad}` is not a path in an image")), "{refused}");
        }
    }

    #[test]
    fn nothing_is_below_a_file_or_a_link() {
        let mut files = RootFiles::new();
        files.symlink("/lib", "usr/lib").unwrap();
        let refused = files.file("/lib/libc.so.6", "x", 0o755).unwrap_err().to_string();
        assert_eq!(refused, "`/lib/libc.so.6` cannot be in the image: `/lib` is not a directory there");
    }

    #[test]
    fn a_missing_file_is_named() {
        let refused = RootFiles::new().copy(Path::new("/no/such/file"), "/a", 0o644).unwrap_err().to_string();
        assert_eq!(refused, "cannot read /no/such/file: No such file or directory (os error 2)");
        assert!(
            RootFiles::new().copy(Path::new("/proc"), "/a", 0o644).unwrap_err().to_string().ends_with("not a file")
        );
    }

    #[test]
    fn a_folder_keeps_its_modes_and_links() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("bin")).unwrap();
        fs::write(folder.path().join("bin/sh"), "#").unwrap();
        fs::set_permissions(folder.path().join("bin/sh"), fs::Permissions::from_mode(0o750)).unwrap();
        std::os::unix::fs::symlink("bin/sh", folder.path().join("init")).unwrap();
        let mut files = RootFiles::new();
        files.tree(folder.path(), "/").unwrap();
        assert_eq!(paths(&files), ["bin", "bin/sh", "init"]);
        let modes: Vec<u32> = files
            .entries()
            .filter_map(|(_, entry)| match entry {
                RootEntry::File { mode, .. } => Some(*mode),
                RootEntry::Directory { .. } | RootEntry::Symlink { .. } => None,
            })
            .collect();
        assert_eq!(modes, [0o750]);
    }
}
