//! Where manifests come from: files, folders, standard input.
//!
//! Finding is one step and reading another, so that one file is held in memory at a time. What was found but cannot
//! be read is a source too: its reading fails, and nothing that a user named is passed over in silence.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
};

/// Folders this deep below the one that was named are not searched.
const DEEPEST: usize = 32;
/// No more is read of an input: it may be a device or a pipe without end. Far above what any manifest has.
const MOST_BYTES: u64 = 64 << 20;

/// One thing to look at.
pub struct Source {
    /// What it is called in the output.
    pub name: String,
    /// How we came to it.
    pub origin: Origin,
    place: Place,
}

/// How we came to a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// It was named on the command line.
    Named,
    /// It was found in a folder.
    Found,
}

enum Place {
    StandardInput,
    File(PathBuf),
    /// There is nothing to read, for this reason.
    Nowhere(String),
}

/// Whether an argument means standard input.
pub fn is_standard_input(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Everything behind the paths, folders searched in the order of their names.
pub fn find(paths: &[PathBuf]) -> Vec<Source> {
    let mut sources = Vec::new();
    for path in paths {
        if is_standard_input(path) {
            let name = "standard input".to_owned();
            sources.push(Source { name, origin: Origin::Named, place: Place::StandardInput });
        } else if path.is_dir() {
            let before = sources.len();
            search(path, 0, &mut sources);
            if sources.len() == before {
                sources.push(Source::nowhere(path, "holds no .yaml, .yml or .json file"));
            }
        } else {
            sources.push(Source::file(path, Origin::Named));
        }
    }
    sources
}

fn search(folder: &Path, depth: usize, sources: &mut Vec<Source>) {
    if depth >= DEEPEST {
        let why = format!("lies {DEEPEST} folders deep and is not searched; name it to have it searched");
        return sources.push(Source::nowhere(folder, &why));
    }
    let entries: io::Result<Vec<PathBuf>> =
        fs::read_dir(folder).and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
    let mut entries = match entries {
        Ok(entries) => entries,
        Err(error) => return sources.push(Source::nowhere(folder, &in_words(&error))),
    };
    entries.sort();
    for entry in entries.iter().filter(|entry| !is_hidden(entry)) {
        // A mounted ConfigMap is a folder of links to files. Links to folders are not followed: they may be loops.
        let is_link = entry.is_symlink();
        match fs::metadata(entry) {
            Ok(metadata) if metadata.is_dir() => {
                if !is_link {
                    search(entry, depth + 1, sources);
                }
            }
            Ok(_) if !is_manifest_name(entry) => {}
            Ok(metadata) if metadata.is_file() => sources.push(Source::file(entry, Origin::Found)),
            Ok(_) => sources.push(Source::nowhere(entry, "is not a regular file; name it to have it read")),
            Err(_) if is_link && !is_manifest_name(entry) => {}
            Err(error) if is_link && error.kind() == io::ErrorKind::NotFound => {
                sources.push(Source::nowhere(entry, "is a link to a file that does not exist"));
            }
            Err(error) => sources.push(Source::nowhere(entry, &in_words(&error))),
        }
    }
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

fn is_manifest_name(path: &Path) -> bool {
    path.extension().is_some_and(|found| ["yaml", "yml", "json"].iter().any(|known| found.eq_ignore_ascii_case(known)))
}

/// What the system said, without its number.
fn in_words(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error ").next().unwrap_or(&text).to_owned()
}

impl Source {
    fn file(path: &Path, origin: Origin) -> Self {
        Self { name: path.display().to_string(), origin, place: Place::File(path.to_owned()) }
    }

    fn nowhere(path: &Path, why: &str) -> Self {
        Self { name: path.display().to_string(), origin: Origin::Named, place: Place::Nowhere(why.to_owned()) }
    }

    /// What it holds, or why that cannot be told.
    pub fn read(&self) -> Result<Vec<u8>, String> {
        let bytes = match &self.place {
            Place::StandardInput => bounded(io::stdin().lock()),
            Place::File(path) => File::open(path).and_then(bounded),
            Place::Nowhere(why) => return Err(why.clone()),
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
