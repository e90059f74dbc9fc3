//! One inotify watch over the folder of all pod statuses, which pod supervisors write.

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

pub(super) struct StatusWatch {
    inotify: AsyncFd<OwnedFd>,
}

/// The pods whose status has changed.
pub(super) enum ChangedPods {
    /// By uid.
    Some(Vec<String>),
    /// Any of them: the kernel dropped events.
    All,
}

impl StatusWatch {
    pub(super) fn over(folder: &Path) -> io::Result<Self> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        inotify::add_watch(&inotify, folder, WatchFlags::MOVED_TO)?;
        Ok(Self { inotify: readable(inotify)? })
    }

    /// Waits until a status has changed.
    pub(super) async fn changed(&mut self) -> io::Result<ChangedPods> {
        loop {
            let mut ready = self.inotify.readable().await?;
            match read(ready.get_inner()) {
                Ok(ChangedPods::Some(uids)) if uids.is_empty() => ready.clear_ready(),
                other => return other,
            }
        }
    }
}

/// Reads all events that are queued.
fn read(inotify: &OwnedFd) -> io::Result<ChangedPods> {
    let mut buffer = [MaybeUninit::uninit(); BUFFER];
    let mut reader = Reader::new(inotify, &mut buffer);
    let mut uids = Vec::new();
    loop {
        match reader.next() {
            Ok(event) if event.events().contains(ReadFlags::QUEUE_OVERFLOW) => return Ok(ChangedPods::All),
            Ok(event) => {
                let name = event.file_name().and_then(|name| name.to_str().ok());
                uids.extend(name.and_then(|name| name.strip_suffix(".json")).map(str::to_owned));
            }
            Err(Errno::AGAIN) => return Ok(ChangedPods::Some(uids)),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
