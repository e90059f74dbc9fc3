//! A view of this machine's files for one program: what is mounted stands at its path, everything else where it was.
//!
//! The shim enters it just before it becomes the program. It is a mount namespace, made in a user namespace where we are
//! not root, so nothing of it is seen outside, and all of it is gone with the last process that is in it. Paths that this
//! machine does not have are made in the view alone ([`cover`]).
//!
//! It is *not* a container: processes, users and the network are those of the machine, and nothing is kept from anybody.

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

/// A file or folder of this machine that a program finds at another path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Where the program finds it.
    pub at: PathBuf,
    /// Where it is.
    pub from: PathBuf,
    /// It cannot be written there.
    pub read_only: bool,
}

/// Why a program cannot have its view.
#[derive(Debug, Error)]
pub(super) enum ViewError {
    /// The system does not let us.
    #[error(
        "this system forbids mounts ({0}), and volumes at other paths than their own need them; allow user namespaces \
         (sysctl kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns), or use hostPath volumes \
         whose mountPath is their path"
    )]
    Forbidden(io::Error),
    /// What is to be mounted is not there.
    #[error("what is to be mounted at '{}' cannot be used: {}: {error}", at.display(), from.display())]
    Source {
        /// Where it was to be.
        at: PathBuf,
        /// Where it should be.
        from: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// A folder cannot take the place of a file, nor the other way round.
    #[error(
        "'{}' is a {} on this machine, and what is to be mounted there a {}; choose another mountPath",
        at.display(),
        word(!*is_folder),
        word(*is_folder)
    )]
    OtherType {
        /// Where it was to be.
        at: PathBuf,
        /// Whether it is a folder that is to be mounted.
        is_folder: bool,
    },
    /// The folder that a program runs in stays what it is.
    #[error("'{}' is not there; make it first: mkdir -p '{}'", at.display(), at.display())]
    MakeFirst {
        /// Where it was to be.
        at: PathBuf,
    },
    /// Anything else.
    #[error("nothing can be mounted at '{}': {error}", at.display())]
    Place {
        /// Where it was to be.
        at: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// The folder to run in is not in the view.
    #[error(
        "no folder '{}' for the program to run in: {error}; make it, mount a volume there, or choose another",
        path.display()
    )]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
}

/// Gives this process, which has no other threads, a view with these mounts, and has it run in `folder`.
pub(super) fn enter(mounts: &[Mount], folder: &Path) -> Result<(), ViewError> {
    separate().map_err(ViewError::Forbidden)?;
    let mut mounts: Vec<&Mount> = mounts.iter().collect();
    // What lies in another comes after it.
    mounts.sort_by_key(|mount| mount.at.components().count());
    // Copied before any of them can hide another.
    let sources = mounts.iter().map(|mount| Source::of(mount)).collect::<Result<Vec<_>, _>>()?;
    let mut view = View { covers: Vec::new(), placed: Vec::new(), folder: fs::canonicalize(folder).ok() };
    if let Some(mount) = mounts.iter().find(|mount| nearest(&mount.at) == Path::new("/") && !mount.at.exists()) {
        let device = cover::root().map_err(|error| ViewError::Place { at: mount.at.clone(), error })?;
        view.covers.push(device);
    }
    for (mount, source) in mounts.iter().zip(sources) {
        view.place(mount, source)?;
    }
    env::set_current_dir(folder).map_err(|error| ViewError::Folder { path: folder.to_owned(), error })
}

/// From here on what we mount is seen by us alone.
fn separate() -> io::Result<()> {
    if unshare(CloneFlags::CLONE_NEWNS).is_err() {
        let (uid, gid) = (geteuid(), getegid());
        unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS)?;
        // Without this nobody may say which groups there are.
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
        fs::write("/proc/self/gid_map", format!("{gid} {gid} 1"))?;
    }
    Ok(mount(NOTHING, "/", NOTHING, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NOTHING)?)
}

struct View {
    /// The devices of what was made in this view alone.
    covers: Vec<u64>,
    /// Where something was mounted.
    placed: Vec<PathBuf>,
    /// Where the program will run.
    folder: Option<PathBuf>,
}

/// What is to be mounted.
struct Source {
    tree: Tree,
    is_folder: bool,
    /// Which file of this machine it is.
    identity: (u64, u64),
}

impl Source {
    fn of(mount: &Mount) -> Result<Self, ViewError> {
        let copied = Tree::of(&mount.from).and_then(|tree| Ok((fs::metadata(&mount.from)?, tree)));
        let (known, tree) =
            copied.map_err(|error| ViewError::Source { at: mount.at.clone(), from: mount.from.clone(), error })?;
        Ok(Self { tree, is_folder: known.is_dir(), identity: (known.dev(), known.ino()) })
    }
}

/// A file or folder with all that is mounted in it, copied, and mounted nowhere yet.
struct Tree(OwnedFd);

impl Tree {
    fn of(path: &Path) -> io::Result<Self> {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
        Ok(Self(open_tree(CWD, path, flags)?))
    }

    fn put(self, at: &Path) -> io::Result<()> {
        Ok(move_mount(self.0, c"", CWD, at, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
    }
}

impl View {
    fn place(&mut self, wanted: &Mount, source: Source) -> Result<(), ViewError> {
        let refused = |error: io::Error| ViewError::Place { at: wanted.at.clone(), error };
        if !wanted.at.exists() {
            self.make_way(wanted, source.is_folder)?;
        }
        let at = fs::canonicalize(&wanted.at).map_err(refused)?;
        let there = fs::metadata(&at).map_err(refused)?;
        if there.is_dir() != source.is_folder {
            return Err(ViewError::OtherType { at, is_folder: source.is_folder });
        }
        if (there.dev(), there.ino()) != source.identity || wanted.read_only {
            source.tree.put(&at).map_err(refused)?;
        }
        if wanted.read_only {
            make_read_only(&at).map_err(refused)?;
        }
        self.placed.push(at);
        Ok(())
    }

    /// Makes a path that this machine does not have: in what is mounted above it, else in a cover of this view.
    fn make_way(&mut self, wanted: &Mount, is_folder: bool) -> Result<(), ViewError> {
        let at = &wanted.at;
        let refused = |error: io::Error| ViewError::Place { at: at.clone(), error };
        let above = fs::canonicalize(nearest(at)).map_err(refused)?;
        let device = fs::metadata(&above).map_err(refused)?.dev();
        let in_a_mount = self.placed.iter().any(|placed| above.starts_with(placed));
        if !in_a_mount && !self.covers.contains(&device) {
            // What the program makes there would be lost with the view.
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

/// The nearest folder above a path that is there.
fn nearest(at: &Path) -> &Path {
    at.ancestors().skip(1).find(|above| above.exists()).unwrap_or(Path::new("/"))
}

/// What else the mount forbids stays forbidden: in a user namespace nothing of it may be given up.
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
