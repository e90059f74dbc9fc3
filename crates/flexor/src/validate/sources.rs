//! Where manifests come from: files, folders, standard input.

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

/// Folders deeper than this are not searched.
const DEEPEST: usize = 32;

/// One file to look at.
pub struct Source {
    /// What it is called in the output.
    pub name: String,
    /// What it holds, or why it could not be read.
    pub bytes: Result<Vec<u8>, String>,
    /// Whether it was found in a folder and not named itself.
    pub found_in_folder: bool,
}

/// Everything behind the paths, folders searched in the order of their names.
pub fn find(paths: &[PathBuf]) -> Vec<Source> {
    let mut sources = Vec::new();
    for path in paths {
        if path.as_os_str() == "-" {
            let mut bytes = Vec::new();
            let read = io::stdin().lock().read_to_end(&mut bytes);
            sources.push(Source {
                name: "standard input".to_owned(),
                bytes: read.map(|_| bytes).map_err(|error| error.to_string()),
                found_in_folder: false,
            });
        } else if path.is_dir() {
            let before = sources.len();
            search(path, &mut sources, DEEPEST);
            if sources.len() == before {
                sources.push(failed(path, "holds no .yaml, .yml or .json file"));
            }
        } else {
            sources.push(Source {
                name: path.display().to_string(),
                bytes: fs::read(path).map_err(|error| error.to_string()),
                found_in_folder: false,
            });
        }
    }
    sources
}

fn search(folder: &Path, sources: &mut Vec<Source>, depth: usize) {
    let mut entries: Vec<PathBuf> = match fs::read_dir(folder) {
        Ok(entries) => entries.filter_map(Result::ok).map(|entry| entry.path()).collect(),
        Err(error) => return sources.push(failed(folder, &error.to_string())),
    };
    entries.sort();
    for entry in entries {
        let hidden = entry.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if hidden || entry.is_symlink() {
            continue;
        }
        if entry.is_dir() {
            if depth > 0 {
                search(&entry, sources, depth - 1);
            }
        } else if entry.extension().is_some_and(|e| ["yaml", "yml", "json"].iter().any(|known| e == *known)) {
            sources.push(Source {
                name: entry.display().to_string(),
                bytes: fs::read(&entry).map_err(|error| error.to_string()),
                found_in_folder: true,
            });
        }
    }
}

fn failed(path: &Path, error: &str) -> Source {
    Source { name: path.display().to_string(), bytes: Err(error.to_owned()), found_in_folder: false }
}
