//! Sources of manifests: files, folders, standard input.
//!
//! Finding and reading are separate steps, so only one file is in memory at a time. An unreadable file is a source too:
//! reading it fails, and the error is reported.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
};

/// Folders at this depth below the given one are not searched.
const DEEPEST: usize = 32;
/// Largest size of an input, far above that of any manifest. An input may be a device or an endless pipe.
const MOST_BYTES: u64 = 64 << 20;

pub struct Source {
    /// The name in the output.
    pub name: String,
    pub origin: Origin,
    input: Input,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Named on the command line.
    Named,
    /// Found in a folder.
    Found,
}

enum Input {
    Stdin,
    File(PathBuf),
    /// The input cannot be read, for this reason.
    Unreadable(String),
}

/// Whether an argument means standard input.
pub fn is_standard_input(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// The sources of these paths. Folders are searched in the order of names.
pub fn find(paths: &[PathBuf]) -> Vec<Source> {
    let mut sources = Vec::new();
    for path in paths {
        if is_standard_input(path) {
            let name = "standard input".to_owned();
            sources.push(Source { name, origin: Origin::Named, input: Input::Stdin });
        } else if path.is_dir() {
            let before = sources.len();
            search(path, 0, &mut sources);
            if sources.len() == before {
                sources.push(Source::unreadable(path, "holds no .yaml, .yml or .json file"));
            }
        } else {
            sources.push(Source::file(path, Origin::Named));
        }
    }
    sources
}

fn search(folder: &Path, depth: usize, sources: &mut Vec<Source>) {
    if depth >= DEEPEST {
        let why = format!("lies {DEEPEST} folders deep and is not searched; name it to search it");
        return sources.push(Source::unreadable(folder, &why));
    }
    let entries: io::Result<Vec<PathBuf>> =
        fs::read_dir(folder).and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
    let mut entries = match entries {
        Ok(entries) => entries,
        Err(error) => return sources.push(Source::unreadable(folder, &in_words(&error))),
    };
    entries.sort();
    for entry in entries.iter().filter(|entry| !is_hidden(entry)) {
        // A mounted ConfigMap is a folder of links to files. Links to folders are not followed, because they may form loops.
        let is_link = entry.is_symlink();
        match fs::metadata(entry) {
            Ok(metadata) if metadata.is_dir() => {
                if !is_link {
                    search(entry, depth + 1, sources);
                }
            }
            Ok(_) if !is_manifest_name(entry) => {}
            Ok(metadata) if metadata.is_file() => sources.push(Source::file(entry, Origin::Found)),
            Ok(_) => sources.push(Source::unreadable(entry, "is not a regular file; name it to read it")),
            Err(_) if is_link && !is_manifest_name(entry) => {}
            Err(error) if is_link && error.kind() == io::ErrorKind::NotFound => {
                sources.push(Source::unreadable(entry, "is a link to a file that does not exist"));
            }
            Err(error) => sources.push(Source::unreadable(entry, &in_words(&error))),
        }
    }
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

fn is_manifest_name(path: &Path) -> bool {
    path.extension().is_some_and(|found| ["yaml", "yml", "json"].iter().any(|known| found.eq_ignore_ascii_case(known)))
}

/// The message of a system error, without its number.
fn in_words(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error ").next().unwrap_or(&text).to_owned()
}

impl Source {
    fn file(path: &Path, origin: Origin) -> Self {
        Self { name: path.display().to_string(), origin, input: Input::File(path.to_owned()) }
    }

    fn unreadable(path: &Path, why: &str) -> Self {
        Self { name: path.display().to_string(), origin: Origin::Named, input: Input::Unreadable(why.to_owned()) }
    }

    /// Reads the source. The error is a message without the source's name.
    pub fn read(&self) -> Result<Vec<u8>, String> {
        let bytes = match &self.input {
            Input::Stdin => bounded(io::stdin().lock()),
            Input::File(path) => File::open(path).and_then(bounded),
            Input::Unreadable(why) => return Err(why.clone()),
        };
        match bytes {
            Ok(bytes) if bytes.len() as u64 > MOST_BYTES => {
                Err(format!("is larger than {} MiB, so it is not a manifest", MOST_BYTES >> 20))
            }
            Ok(bytes) => Ok(bytes),
            Err(error) => Err(in_words(&error)),
        }
    }
}

fn bounded(from: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
