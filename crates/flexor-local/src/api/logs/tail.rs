//! The last lines of a log, which may reach back into rotated files.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Bytes that are searched at a time, from the end.
const BLOCK: u64 = 64 << 10;

/// Opens the files of a log, oldest first, each positioned where reading begins: at its start, or before the last `lines`
/// lines.
pub(super) fn open(path: &Path, lines: Option<u64>) -> io::Result<Vec<File>> {
    let mut files: Vec<File> = Vec::new();
    let mut left = lines;
    let mut last = None;
    for number in 0.. {
        let mut file = match File::open(rotated(path, number)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => break,
            Err(error) => return Err(error),
        };
        let metadata = file.metadata()?;
        // The log was rotated meanwhile, and this is the file that is open already.
        if last.replace((metadata.dev(), metadata.ino())) == Some((metadata.dev(), metadata.ino())) {
            continue;
        }
        if let Some(wanted) = left {
            let (start, found) = last_lines(&mut file, wanted)?;
            file.seek(SeekFrom::Start(start))?;
            left = Some(wanted - found);
        }
        files.push(file);
        if left == Some(0) {
            break;
        }
    }
    files.reverse();
    Ok(files)
}

/// `log` is the current file, `log.1` the one before it, and so on.
fn rotated(path: &Path, number: u32) -> PathBuf {
    let mut name = OsString::from(path);
    if number > 0 {
        name.push(format!(".{number}"));
    }
    name.into()
}

/// Where the last `wanted` lines of a file begin, and their number if it has fewer. The last line may lack its newline.
fn last_lines(file: &mut File, wanted: u64) -> io::Result<(u64, u64)> {
    let size = file.metadata()?.len();
    let mut found = 0;
    if wanted == 0 {
        return Ok((size, 0));
    }
    let mut end = size;
    let mut block = Vec::new();
    while end > 0 {
        let start = end.saturating_sub(BLOCK);
        file.seek(SeekFrom::Start(start))?;
        block.clear();
        file.by_ref().take(end - start).read_to_end(&mut block)?;
        for (index, _) in block.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n') {
            let at = start + index as u64;
            // The newline at the end of the file begins no line.
            if at + 1 == size {
                continue;
            }
            found += 1;
            if found == wanted {
                return Ok((at + 1, found));
            }
        }
        end = start;
    }
    Ok((0, found + u64::from(size > 0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail(files: &[(&str, &str)], lines: Option<u64>) -> String {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let mut read = String::new();
        for mut file in open(&folder.path().join("log"), lines).unwrap() {
            file.read_to_string(&mut read).unwrap();
        }
        read
    }

    #[test]
    fn the_last_lines_reach_back_into_rotated_files() {
        let files = [("log.2", "1\n2\n"), ("log.1", "3\n4\n"), ("log", "5\n6\n")];
        for (lines, read) in [
            (None, "1\n2\n3\n4\n5\n6\n"),
            (Some(0), ""),
            (Some(1), "6\n"),
            (Some(2), "5\n6\n"),
            (Some(3), "4\n5\n6\n"),
            (Some(6), "1\n2\n3\n4\n5\n6\n"),
            (Some(99), "1\n2\n3\n4\n5\n6\n"),
        ] {
            assert_eq!(tail(&files, lines), read, "{lines:?}");
        }
    }

    #[test]
    fn the_last_lines_of_long_empty_and_unfinished_files_are_found() {
        let long = "0123456789\n".repeat(20_000);
        assert_eq!(tail(&[("log", &long)], Some(3)), "0123456789\n".repeat(3));
        assert_eq!(tail(&[("log", "")], Some(3)), "");
        assert_eq!(tail(&[], Some(3)), "");
        assert_eq!(tail(&[("log", "a\nb")], Some(1)), "b");
        assert_eq!(tail(&[("log", "\n\n")], Some(1)), "\n");
    }
}
