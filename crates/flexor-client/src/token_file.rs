//! The file with a job's token: random text that only its owner can read.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Once;

use flexor_wire::{Token, TokenError};

/// The longest file that can hold a token, in bytes.
const LONGEST: u64 = 4096;
/// The bits with which users other than the owner may read a file.
const READABLE_BY_OTHERS: u32 = 0o044;

/// Why a file gives no token.
#[derive(Debug, thiserror::Error)]
pub enum TokenFileError {
    #[error("the job's token cannot be read from {}: {error}", path.display())]
    Unreadable { path: PathBuf, error: io::Error },
    #[error("{} is no file with a token: it is a device, a pipe or a socket", path.display())]
    NoFile { path: PathBuf },
    #[error("{} has more than {LONGEST} bytes, which is no token", path.display())]
    TooLong { path: PathBuf },
    #[error("the token in {}: {error}", path.display())]
    Invalid { path: PathBuf, error: TokenError },
}

/// Reads the token in a file. Warns, once in a process, if users other than the owner can read the file.
pub fn read(path: &Path) -> Result<Token, TokenFileError> {
    let unreadable = |error| TokenFileError::Unreadable { path: path.to_owned(), error };
    // Opening a pipe would wait for its writer.
    let metadata = path.metadata().map_err(unreadable)?;
    if !metadata.is_file() && !metadata.is_dir() {
        return Err(TokenFileError::NoFile { path: path.to_owned() });
    }
    let mut text = String::new();
    let mut file = File::open(path).map_err(unreadable)?.take(LONGEST + 1);
    file.read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > LONGEST {
        return Err(TokenFileError::TooLong { path: path.to_owned() });
    }
    if metadata.mode() & READABLE_BY_OTHERS != 0 && !is_in_secret(path) {
        static WARNING: Once = Once::new();
        WARNING.call_once(|| {
            let file = path.display();
            tracing::warn!("other users can read the job's token in {file}; `chmod 600 {file}` keeps them out");
        });
    }
    Token::parse(&text).map_err(|error| TokenFileError::Invalid { path: path.to_owned(), error })
}

/// Whether a file is in a volume that kubelet fills. Only containers that mount it see it, whatever its mode is.
fn is_in_secret(path: &Path) -> bool {
    path.parent().is_some_and(|folder| folder.join("..data").exists())
}

/// Creates a file with a random token, which only its owner can read. It replaces a file that is there.
pub fn create(path: &Path) -> io::Result<()> {
    let mut half = path.as_os_str().to_owned();
    half.push(".half");
    let half = PathBuf::from(half);
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&half)?;
    write_random(&mut file)?;
    file.sync_all()?;
    std::fs::rename(half, path)
}

/// Writes a random token of 128 bits.
pub fn write_random(file: &mut impl Write) -> io::Result<()> {
    let mut random = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut random)?;
    writeln!(file, "{:032x}", u128::from_ne_bytes(random))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn refusal(path: &Path) -> String {
        read(path).unwrap_err().to_string()
    }

    #[test]
    fn a_created_token_is_random_and_its_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
        [&first, &second].into_iter().for_each(|path| create(path).unwrap());
        assert_ne!(read(&first).unwrap(), read(&second).unwrap());
        assert_eq!(fs::metadata(&first).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::read_to_string(&first).unwrap().trim().len(), 32);
        let before = read(&first).unwrap();
        create(&first).unwrap();
        assert_ne!(read(&first).unwrap(), before, "it is replaced");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_file_without_end_is_refused() {
        assert!(refusal(Path::new("/dev/zero")).contains("is no file with a token"));
        let folder = tempfile::tempdir().unwrap();
        let long = folder.path().join("long");
        fs::write(&long, "a".repeat(4097)).unwrap();
        assert!(refusal(&long).contains("more than 4096 bytes"));
        fs::write(&long, "a".repeat(4096)).unwrap();
        assert!(read(&long).is_ok());
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        assert!(refusal(&pipe).contains("a pipe"));
    }

    #[test]
    fn a_file_without_a_token_says_what_is_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        assert!(refusal(&file).contains("cannot be read"));
        assert!(refusal(folder.path()).contains("Is a directory"));
        for (text, problem) in [("", "empty"), ("two words", "characters"), ("\u{e9}", "characters")] {
            fs::write(&file, text).unwrap();
            assert!(refusal(&file).contains(problem), "{text}");
        }
    }
}
