//! Checkpoints in a folder of a file system.

use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::storage::Storage;

/// How the name of a file ends that is not whole yet.
const HALF: &str = ".half";
/// Small writes are gathered. What is larger is not copied once more on its way: most of a checkpoint is.
const BUFFER: usize = 16 << 10;
/// After so many bytes they go to the disk. All of them at the end would keep it busy for long, and everybody waiting who
/// writes a little and needs it to be there: the journal of a master on the same disk.
const SYNC_EVERY: usize = 32 << 20;

/// A folder with a folder for each checkpoint.
#[derive(Debug, Clone)]
pub struct Folder {
    root: PathBuf,
}

impl Folder {
    /// Keeps checkpoints in this folder, which is made when it is needed.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The path of a file, if its name is one of ours: two plain words with a slash between.
    fn path(&self, name: &str) -> io::Result<PathBuf> {
        match name.split_once('/') {
            Some((folder, file)) if is_plain(folder) && is_plain(file) => Ok(self.root.join(folder).join(file)),
            Some(_) | None => Err(bad_name(name)),
        }
    }
}

fn is_plain(word: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !word.starts_with('.') && !word.is_empty() && word.chars().all(plain) && !word.ends_with(HALF)
}

fn bad_name(name: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, format!("'{name}' is not a name of a checkpoint's file"))
}

impl Storage for Folder {
    fn put(&self, name: &str, write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        let path = self.path(name)?;
        let folder = path.parent().unwrap_or(&self.root);
        fs::create_dir_all(folder)?;
        let mut half = path.clone().into_os_string();
        half.push(HALF);
        let half = PathBuf::from(half);
        let written = write_whole(&half, write).and_then(|()| fs::rename(&half, &path));
        if let Err(error) = written {
            // What is left would be in the way of nobody; the error that matters is the first one.
            let _ = fs::remove_file(&half);
            // A folder with nothing in it is of no use; one with something in it stays.
            let _ = half.parent().map(fs::remove_dir);
            return Err(error);
        }
        // The new names must survive a crash too.
        [folder, &self.root].into_iter().try_for_each(sync_folder)
    }

    fn read(&self, name: &str, range: Range<u64>) -> io::Result<Vec<u8>> {
        let mut file = File::open(self.path(name)?)?;
        let len = file.metadata()?.len();
        if range.start > range.end || range.end > len {
            let message = format!("it has {len} bytes, not those from {} to {}", range.start, range.end);
            return Err(io::Error::new(ErrorKind::UnexpectedEof, message));
        }
        let size = usize::try_from(range.end - range.start).map_err(io::Error::other)?;
        let mut bytes = vec![0; size];
        file.seek(SeekFrom::Start(range.start))?;
        file.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn size(&self, name: &str) -> io::Result<u64> {
        Ok(fs::metadata(self.path(name)?)?.len())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for folder in names_in(&self.root)?.into_iter().filter(|folder| is_plain(folder)) {
            if self.root.join(&folder).is_dir() {
                let files = names_in(&self.root.join(&folder))?.into_iter().filter(|file| is_plain(file));
                names.extend(files.map(|file| format!("{folder}/{file}")));
            }
        }
        names.sort();
        Ok(names)
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        let path = self.path(name)?;
        ignore_missing(fs::remove_file(&path))?;
        path.parent().map_or(Ok(()), |folder| ignore_missing(sync_folder(folder)))
    }

    fn delete_folder(&self, folder: &str) -> io::Result<()> {
        match is_plain(folder) {
            true => ignore_missing(fs::remove_dir_all(self.root.join(folder))),
            false => Err(bad_name(folder)),
        }
    }
}

fn write_whole(path: &Path, write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let steadily = Steadily { file: File::create(path)?, unsynced: 0 };
    let mut writer = BufWriter::with_capacity(BUFFER, steadily);
    write(&mut writer)?;
    writer.into_inner().map_err(io::IntoInnerError::into_error)?.file.sync_all()
}

/// A file that goes to the disk while it is written.
struct Steadily {
    file: File,
    unsynced: usize,
}

impl Write for Steadily {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(&bytes[..bytes.len().min(SYNC_EVERY)])?;
        self.unsynced += written;
        if self.unsynced >= SYNC_EVERY {
            self.file.sync_data()?;
            self.unsynced = 0;
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

fn names_in(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    entries.map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned())).collect()
}

fn ignore_missing(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_there_whole_or_not_at_all() {
        let home = tempfile::tempdir().unwrap();
        let folder = Folder::new(home.path().join("checkpoints"));
        assert_eq!(folder.list().unwrap(), [""; 0]);
        folder.put("a/x", &mut |file| file.write_all(b"hello")).unwrap();
        let fails = folder.put("a/y", &mut |file| {
            file.write_all(b"half of it")?;
            Err(io::Error::other("the disk is full"))
        });
        assert_eq!(fails.unwrap_err().to_string(), "the disk is full");
        assert_eq!(folder.list().unwrap(), ["a/x"]);
        assert_eq!(fs::read_dir(home.path().join("checkpoints/a")).unwrap().count(), 1);
        assert_eq!((folder.size("a/x").unwrap(), folder.read("a/x", 1..4).unwrap()), (5, b"ell".to_vec()));
        assert!(folder.read("a/x", 1..9).unwrap_err().to_string().contains("it has 5 bytes"));
        folder.delete("a/x").unwrap();
        folder.delete("a/x").unwrap();
        folder.delete_folder("a").unwrap();
        folder.delete_folder("a").unwrap();
        assert_eq!(folder.list().unwrap(), [""; 0]);
    }

    #[test]
    fn names_do_not_lead_out_of_the_folder() {
        let home = tempfile::tempdir().unwrap();
        let folder = Folder::new(home.path());
        for name in ["../x", "a/../x", "a", "/etc/passwd", "a/b/c", "a/.hidden", "a/x.half"] {
            assert_eq!(folder.size(name).unwrap_err().kind(), ErrorKind::InvalidInput, "{name}");
        }
        assert!(folder.delete_folder("..").is_err());
    }
}
