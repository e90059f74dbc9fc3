//! A program's view of the files: mounts appear at their paths, and everything else where it is on this machine.
//!
//! The shim enters the view just before it executes the program. The view is a mount namespace, in a user namespace where
//! we are not root. Nothing of it is visible outside, and it disappears with its last process. Paths that this machine
//! does not have are created in the view alone ([`cover`]).
//!
//! It is *not* a container: processes, users and the network are those of the machine, and nothing is hidden.

mod cover;

use std::env;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::{getegid, geteuid};
use rustix::fs::CWD;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};
use thiserror::Error;

/// A file or folder of this machine that a program sees at another path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The path for the program.
    pub at: PathBuf,
    /// The path on this machine.
    pub from: PathBuf,
    pub read_only: bool,
}

/// Why a view cannot be made.
#[derive(Debug, Error)]
pub(super) enum ViewError {
    /// The system does not allow mounts.
    #[error(
        "this system forbids mounts ({0}), and volumes at other paths than their own need them; allow user namespaces \
         (sysctl kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns), or use hostPath volumes \
         whose mountPath is their path"
    )]
    Forbidden(io::Error),
    /// The source of a mount cannot be used.
    #[error("what is to be mounted at '{}' cannot be used: {}: {error}", at.display(), from.display())]
    Source { at: PathBuf, from: PathBuf, error: io::Error },
    /// A folder cannot be mounted over a file, nor a file over a folder.
    #[error(
        "'{}' is a {} on this machine, and what is to be mounted there a {}; choose another mountPath",
        at.display(),
        word(!*is_folder),
        word(*is_folder)
    )]
    OtherType {
        at: PathBuf,
        /// Whether the source is a folder.
        is_folder: bool,
    },
    /// The path is in the working folder, which is never covered.
    #[error("'{}' is not there; make it first: mkdir -p '{}'", at.display(), at.display())]
    MakeFirst { at: PathBuf },
    #[error("nothing can be mounted at '{}': {error}", at.display())]
    MountPoint { at: PathBuf, error: io::Error },
    /// The view does not have the working folder.
    #[error(
        "no folder '{}' for the program to run in: {error}; make it, mount a volume there, or choose another",
        path.display()
    )]
    Folder { path: PathBuf, error: io::Error },
}

/// Gives this process, which must have no other threads, a view with these mounts, and enters `folder`.
pub(super) fn enter(mounts: &[Mount], folder: &Path) -> Result<(), ViewError> {
    unshare_mounts().map_err(ViewError::Forbidden)?;
    let mut mounts: Vec<&Mount> = mounts.iter().collect();
    // A mount inside another one comes after it.
    mounts.sort_by_key(|mount| mount.at.components().count());
    // All sources are opened before a mount can hide one of them.
    let sources = mounts.iter().map(|mount| MountSource::of(mount)).collect::<Result<Vec<_>, _>>()?;
    let mut view = View { covers: Vec::new(), placed: Vec::new(), folder: fs::canonicalize(folder).ok() };
    if let Some(mount) = mounts.iter().find(|mount| nearest_existing(&mount.at) == Path::new("/") && !mount.at.exists())
    {
        let device = cover::root().map_err(|error| ViewError::MountPoint { at: mount.at.clone(), error })?;
        view.covers.push(device);
    }
    for (mount, source) in mounts.iter().zip(sources) {
        view.mount(mount, source)?;
    }
    env::set_current_dir(folder).map_err(|error| ViewError::Folder { path: folder.to_owned(), error })
}

/// From here on our mounts are visible to this process alone.
fn unshare_mounts() -> io::Result<()> {
    if unshare(CloneFlags::CLONE_NEWNS).is_err() {
        let (uid, gid) = (geteuid(), getegid());
        unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS)?;
        // The kernel refuses a gid map without this.
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
        fs::write("/proc/self/gid_map", format!("{gid} {gid} 1"))?;
    }
    Ok(mount(NOTHING, "/", NOTHING, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NOTHING)?)
}

struct View {
    /// Devices of the covers of this view.
    covers: Vec<u64>,
    /// Paths of the mounts.
    placed: Vec<PathBuf>,
    /// The working folder.
    folder: Option<PathBuf>,
}

/// The source of a mount.
struct MountSource {
    tree: MountTree,
    is_folder: bool,
    /// Device and inode.
    identity: (u64, u64),
}

impl MountSource {
    fn of(mount: &Mount) -> Result<Self, ViewError> {
        let copied = MountTree::of(&mount.from).and_then(|tree| Ok((fs::metadata(&mount.from)?, tree)));
        let (known, tree) =
            copied.map_err(|error| ViewError::Source { at: mount.at.clone(), from: mount.from.clone(), error })?;
        Ok(Self { tree, is_folder: known.is_dir(), identity: (known.dev(), known.ino()) })
    }
}

/// A detached copy of a mount tree: a file or folder with all mounts in it.
struct MountTree(OwnedFd);

impl MountTree {
    fn of(path: &Path) -> io::Result<Self> {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
        Ok(Self(open_tree(CWD, path, flags)?))
    }

    fn attach(self, at: &Path) -> io::Result<()> {
        Ok(move_mount(self.0, c"", CWD, at, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
    }
}

impl View {
    fn mount(&mut self, requested: &Mount, source: MountSource) -> Result<(), ViewError> {
        let refused = |error: io::Error| ViewError::MountPoint { at: requested.at.clone(), error };
        if !requested.at.exists() {
            self.create_path(requested, source.is_folder)?;
        }
        let at = fs::canonicalize(&requested.at).map_err(refused)?;
        let target = fs::metadata(&at).map_err(refused)?;
        if target.is_dir() != source.is_folder {
            return Err(ViewError::OtherType { at, is_folder: source.is_folder });
        }
        if (target.dev(), target.ino()) != source.identity || requested.read_only {
            source.tree.attach(&at).map_err(refused)?;
        }
        if requested.read_only {
            make_read_only(&at).map_err(refused)?;
        }
        self.placed.push(at);
        Ok(())
    }

    /// Creates a path that this machine does not have: in the mount above it, else in a cover of this view.
    fn create_path(&mut self, requested: &Mount, is_folder: bool) -> Result<(), ViewError> {
        let at = &requested.at;
        let refused = |error: io::Error| ViewError::MountPoint { at: at.clone(), error };
        let above = fs::canonicalize(nearest_existing(at)).map_err(refused)?;
        let device = fs::metadata(&above).map_err(refused)?.dev();
        let in_a_mount = self.placed.iter().any(|placed| above.starts_with(placed));
        if !in_a_mount && !self.covers.contains(&device) {
            // Files that the program creates there would be lost with the view.
            if self.folder.as_ref() == Some(&above) {
                return Err(ViewError::MakeFirst { at: at.clone() });
            }
            self.covers.push(cover::folder(&above).map_err(refused)?);
        }
        let folder = if is_folder { at } else { at.parent().unwrap_or(at) };
        fs::create_dir_all(folder).map_err(refused)?;
        if !is_folder {
            File::create_new(at).map_err(refused)?;
        }
        Ok(())
    }
}

/// The nearest existing folder above a path.
fn nearest_existing(at: &Path) -> &Path {
    at.ancestors().skip(1).find(|above| above.exists()).unwrap_or(Path::new("/"))
}

/// Keeps the other restrictions of the mount: a user namespace may not lift any of them.
fn make_read_only(at: &Path) -> io::Result<()> {
    let known = statvfs(at)?.flags();
    let kept = [
        (FsFlags::ST_NOSUID, MsFlags::MS_NOSUID),
        (FsFlags::ST_NODEV, MsFlags::MS_NODEV),
        (FsFlags::ST_NOEXEC, MsFlags::MS_NOEXEC),
        (FsFlags::ST_NOATIME, MsFlags::MS_NOATIME),
        (FsFlags::ST_NODIRATIME, MsFlags::MS_NODIRATIME),
        (FsFlags::ST_RELATIME, MsFlags::MS_RELATIME),
    ];
    let mut flags = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY;
    flags.extend(kept.into_iter().filter(|(has, _)| known.contains(*has)).map(|(_, keep)| keep));
    Ok(mount(NOTHING, at, NOTHING, flags, NOTHING)?)
}

const NOTHING: Option<&Path> = None;

fn word(is_folder: bool) -> &'static str {
    if is_folder { "folder" } else { "file" }
}
