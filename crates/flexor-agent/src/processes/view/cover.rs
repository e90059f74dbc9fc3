//! Covers: folders that get an additional entry in a view alone. A folder in memory covers the original, and all entries
//! of the original are mounted in it.
//!
//! New entries of the cover itself are in memory; everything deeper is the machine's.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::unistd::{chdir, chroot, pivot_root};

use super::MountTree;

/// Covers a folder other than the root. Returns the device of the cover.
pub(super) fn folder(path: &Path) -> io::Result<u64> {
    let below = File::open(path)?;
    let names = names(path)?;
    in_memory(path)?;
    for name in names {
        let from = PathBuf::from(format!("/proc/self/fd/{}", below.as_raw_fd())).join(&name);
        CoveredEntry::of(&from)?.attach(&path.join(&name))?;
    }
    copy_owner_and_mode(&below.metadata()?, path)?;
    Ok(fs::metadata(path)?.dev())
}

/// Covers the root: makes a new root and moves this process into it. Returns the device of the new root.
pub(super) fn root() -> io::Result<u64> {
    let old = Path::new("/");
    let names = names(old)?;
    // The new root needs a mount point while it is made: any folder but /proc, whose descriptor paths are in use.
    let is_usable =
        |name: &&OsString| *name != "proc" && fs::symlink_metadata(old.join(name)).is_ok_and(|it| it.is_dir());
    let mount_point =
        names.iter().find(is_usable).ok_or_else(|| io::Error::other("the root of this machine is empty"))?;
    let (new, like) = (old.join(mount_point), fs::metadata(old)?);
    let hidden = CoveredEntry::of(&new)?;
    in_memory(&new)?;
    for name in names.iter().filter(|name| *name != mount_point) {
        CoveredEntry::of(&old.join(name))?.attach(&new.join(name))?;
    }
    hidden.attach(&new.join(mount_point))?;
    copy_owner_and_mode(&like, &new)?;
    chdir(&new)?;
    // The old root is unmounted. Where it is no mount, or this process has a root of its own, chroot must do.
    match pivot_root(".", ".") {
        Ok(()) => umount2(".", MntFlags::MNT_DETACH)?,
        Err(_) => chroot(".")?,
    }
    chdir("/")?;
    Ok(fs::metadata("/")?.dev())
}

fn in_memory(at: &Path) -> io::Result<()> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    Ok(mount(Some(Path::new("tmpfs")), at, Some(Path::new("tmpfs")), flags, Some(Path::new("mode=755")))?)
}

/// An entry of a covered folder.
enum CoveredEntry {
    Folder(MountTree),
    File(MountTree),
    Link(PathBuf),
    /// It was removed meanwhile.
    Gone,
}

impl CoveredEntry {
    fn of(path: &Path) -> io::Result<Self> {
        let found = match fs::symlink_metadata(path) {
            Ok(found) if found.is_symlink() => fs::read_link(path).map(Self::Link),
            Ok(found) if found.is_dir() => MountTree::of(path).map(Self::Folder),
            Ok(_) => MountTree::of(path).map(Self::File),
            Err(error) => Err(error),
        };
        match found {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::Gone),
            found => found,
        }
    }

    /// Adds the entry to a cover.
    fn attach(self, at: &Path) -> io::Result<()> {
        match self {
            Self::Folder(tree) => {
                fs::create_dir(at)?;
                tree.attach(at)
            }
            Self::File(tree) => {
                File::create_new(at)?;
                tree.attach(at)
            }
            Self::Link(to) => symlink(to, at),
            Self::Gone => Ok(()),
        }
    }
}

/// Gives a cover the owner and mode of the covered folder, as far as we may.
fn copy_owner_and_mode(covered: &Metadata, cover: &Path) -> io::Result<()> {
    _ = chown(cover, Some(covered.uid()), Some(covered.gid()));
    fs::set_permissions(cover, Permissions::from_mode(covered.mode()))
}

fn names(folder: &Path) -> io::Result<Vec<OsString>> {
    fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name())).collect()
}
