//! Folders that get an entry more, in a view alone: an empty folder in memory covers them, in which everything that they
//! have is mounted again.
//!
//! What is made directly in such a folder is made in memory; whatever lies deeper is the machine's.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::unistd::{chdir, chroot, pivot_root};

use super::Tree;

/// Covers a folder other than the root. The device of the cover.
pub(super) fn folder(path: &Path) -> io::Result<u64> {
    let below = File::open(path)?;
    let names = names(path)?;
    in_memory(path)?;
    for name in names {
        let from = PathBuf::from(format!("/proc/self/fd/{}", below.as_raw_fd())).join(&name);
        Entry::of(&from)?.show(&path.join(&name))?;
    }
    look_alike(&below.metadata()?, path)?;
    Ok(fs::metadata(path)?.dev())
}

/// Covers the root: a new one is made and this process moved into it. The device of the new one.
pub(super) fn root() -> io::Result<u64> {
    let old = Path::new("/");
    let names = names(old)?;
    // It needs some folder to stand in while it is made. The paths of descriptors stay where they are.
    let can_stand =
        |name: &&OsString| *name != "proc" && fs::symlink_metadata(old.join(name)).is_ok_and(|it| it.is_dir());
    let stand = names.iter().find(can_stand).ok_or_else(|| io::Error::other("the root of this machine is empty"))?;
    let (new, like) = (old.join(stand), fs::metadata(old)?);
    let hidden = Entry::of(&new)?;
    in_memory(&new)?;
    for name in names.iter().filter(|name| *name != stand) {
        Entry::of(&old.join(name))?.show(&new.join(name))?;
    }
    hidden.show(&new.join(stand))?;
    look_alike(&like, &new)?;
    chdir(&new)?;
    // The old root goes; where it is no mount, or this process has a root of its own, it can only be left.
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

/// What a covered folder has.
enum Entry {
    Folder(Tree),
    File(Tree),
    Link(PathBuf),
    /// It is gone meanwhile.
    Gone,
}

impl Entry {
    fn of(path: &Path) -> io::Result<Self> {
        let found = match fs::symlink_metadata(path) {
            Ok(found) if found.is_symlink() => fs::read_link(path).map(Self::Link),
            Ok(found) if found.is_dir() => Tree::of(path).map(Self::Folder),
            Ok(_) => Tree::of(path).map(Self::File),
            Err(error) => Err(error),
        };
        match found {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::Gone),
            found => found,
        }
    }

    /// Has it stand in a cover.
    fn show(self, at: &Path) -> io::Result<()> {
        match self {
            Self::Folder(tree) => {
                fs::create_dir(at)?;
                tree.put(at)
            }
            Self::File(tree) => {
                File::create_new(at)?;
                tree.put(at)
            }
            Self::Link(to) => symlink(to, at),
            Self::Gone => Ok(()),
        }
    }
}

/// Gives a cover the owner and mode of what it covers, as far as we may.
fn look_alike(covered: &Metadata, cover: &Path) -> io::Result<()> {
    _ = chown(cover, Some(covered.uid()), Some(covered.gid()));
    fs::set_permissions(cover, Permissions::from_mode(covered.mode()))
}

fn names(folder: &Path) -> io::Result<Vec<OsString>> {
    fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name())).collect()
}
