//! A path to a Unix socket that the system accepts, however deep its folder is.
//!
//! The address of a Unix socket has room for 107 bytes. An open folder has a short name below `/proc/self/fd`, which this
//! process can use in its place.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open};

/// The longest path of a socket, in bytes.
const LONGEST: usize = 107;

/// A path by which a socket can be bound or dialled while this value lives.
#[derive(Debug)]
pub(super) struct SocketPath {
    path: PathBuf,
    _folder: Option<OwnedFd>,
}

impl SocketPath {
    /// The path to use for `socket`, whose folder exists.
    pub(super) fn of(socket: &Path) -> io::Result<Self> {
        let fits = socket.as_os_str().len() <= LONGEST && socket.to_str().is_some();
        let (false, Some(folder), Some(name)) = (fits, socket.parent(), socket.file_name()) else {
            return Ok(Self { path: socket.to_owned(), _folder: None });
        };
        let folder = open(folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let path = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name);
        Ok(Self { path, _folder: Some(folder) })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    #[test]
    fn a_socket_deep_down_can_be_bound_and_dialled() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path().join("deep".repeat(20)).join("deeper".repeat(20));
        std::fs::create_dir_all(&folder).unwrap();
        let socket = folder.join("socket");
        assert!(UnixListener::bind(&socket).is_err(), "the path is too long by itself");
        let _listener = UnixListener::bind(SocketPath::of(&socket).unwrap().path()).unwrap();
        assert!(socket.exists());
        UnixStream::connect(SocketPath::of(&socket).unwrap().path()).unwrap();
    }

    #[test]
    fn a_short_path_is_used_as_it_is() {
        assert_eq!(SocketPath::of(Path::new("/a/socket")).unwrap().path(), Path::new("/a/socket"));
    }
}
