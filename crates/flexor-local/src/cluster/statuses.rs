//! Hears of what parents write down: one watch over the folder of all statuses.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;

use crate::readiness::readable;

/// Room for some hundred names.
const BUFFER: usize = 32 << 10;

/// The watch.
pub(super) struct Statuses {
    inotify: AsyncFd<OwnedFd>,
}

/// Whose status has changed.
pub(super) enum Changed {
    These(Vec<String>),
    All,
}

impl Statuses {
    pub(super) fn watch(folder: &Path) -> io::Result<Self> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        inotify::add_watch(&inotify, folder, WatchFlags::MOVED_TO)?;
        Ok(Self { inotify: readable(inotify)? })
    }

    /// The pods whose parents have written something, by their unique ids; all of them where some were missed.
    pub(super) async fn changed(&mut self) -> io::Result<Changed> {
        loop {
            let mut ready = self.inotify.readable().await?;
            match read(ready.get_inner()) {
                Ok(Changed::These(uids)) if uids.is_empty() => ready.clear_ready(),
                other => return other,
            }
        }
    }
}

/// Everything that is there to be read.
fn read(inotify: &OwnedFd) -> io::Result<Changed> {
    let mut buffer = [MaybeUninit::uninit(); BUFFER];
    let mut reader = Reader::new(inotify, &mut buffer);
    let mut uids = Vec::new();
    loop {
        match reader.next() {
            Ok(event) if event.events().contains(ReadFlags::QUEUE_OVERFLOW) => return Ok(Changed::All),
            Ok(event) => {
                let name = event.file_name().and_then(|name| name.to_str().ok());
                uids.extend(name.and_then(|name| name.strip_suffix(".json")).map(str::to_owned));
            }
            Err(Errno::AGAIN) => return Ok(Changed::These(uids)),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
