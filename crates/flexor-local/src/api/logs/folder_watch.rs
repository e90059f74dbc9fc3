//! An inotify watch over a folder: files that are written, created or renamed.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;

use crate::readiness::readable;

/// Bytes; room for some dozen events.
const BUFFER: usize = 4 << 10;

pub(super) struct FolderWatch(AsyncFd<OwnedFd>);

impl FolderWatch {
    pub(super) fn over(folder: &Path) -> io::Result<Self> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let what = WatchFlags::MODIFY | WatchFlags::CREATE | WatchFlags::MOVE | WatchFlags::DELETE_SELF;
        inotify::add_watch(&inotify, folder, what)?;
        Ok(Self(readable(inotify)?))
    }

    /// Waits for a change since the last call; many changes count as one.
    pub(super) async fn changed(&mut self) -> io::Result<()> {
        loop {
            let mut ready = self.0.readable().await?;
            if drain(ready.get_inner())? {
                return Ok(());
            }
            ready.clear_ready();
        }
    }
}

/// Removes all queued events. Returns whether there were any.
fn drain(inotify: &OwnedFd) -> io::Result<bool> {
    let mut buffer = [MaybeUninit::uninit(); BUFFER];
    let mut reader = Reader::new(inotify, &mut buffer);
    let mut any = false;
    loop {
        match reader.next() {
            Ok(_) => any = true,
            Err(Errno::AGAIN) => return Ok(any),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
