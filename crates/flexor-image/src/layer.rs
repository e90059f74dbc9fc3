//! Writes [`RootFiles`] as a tar: sorted, owned by root, without times.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use tar::{Builder, EntryType, Header};

use crate::ImageError;
use crate::root_files::{Content, RootEntry, RootFiles};

/// Returns the writer behind a complete tar; `place` names it in errors.
pub(crate) fn write<W: Write>(files: &RootFiles, to: W, place: &Path) -> Result<W, ImageError> {
    let mut tar = Builder::new(to);
    for (path, entry) in files.entries() {
        match entry {
            RootEntry::Directory { mode } => {
                let mut header = header(EntryType::Directory, *mode, 0);
                tar.append_data(&mut header, path.join(""), io::empty())
            }
            RootEntry::Symlink { target } => tar.append_link(&mut header(EntryType::Symlink, 0o777, 0), path, target),
            RootEntry::File { content: Content::Memory(bytes), mode } => append_file(&mut tar, path, bytes, *mode),
            RootEntry::File { content: Content::Disk(source), mode } => {
                let bytes = fs::read(source).map_err(ImageError::io("read", source))?;
                append_file(&mut tar, path, &bytes, *mode)
            }
        }
        .map_err(ImageError::io("write", place))?;
    }
    tar.into_inner().map_err(ImageError::io("write", place))
}

/// Adds a file to any of our tars.
pub(crate) fn append_file<W: Write>(tar: &mut Builder<W>, path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    tar.append_data(&mut header(EntryType::Regular, mode, bytes.len() as u64), path, bytes)
}

/// A header without owner and time.
pub(crate) fn header(kind: EntryType, mode: u32, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
}
