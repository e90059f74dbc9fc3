//! Reads the recordings in this folder, which `record.py` makes and describes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The bytes between one server and its clients.
pub(crate) struct Section {
    /// The file and the server, for messages.
    pub(crate) name: String,
    pub(crate) pieces: Vec<Piece>,
}

/// Bytes in one direction.
pub(crate) struct Piece {
    /// The line in the file.
    pub(crate) line: usize,
    pub(crate) connection: usize,
    pub(crate) from: From,
    pub(crate) bytes: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum From {
    Client,
    Server,
}

/// The recordings whose file names have this ending, by name.
pub(crate) fn files(ending: &str) -> BTreeSet<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded");
    let files = folder.read_dir().unwrap().map(|entry| entry.unwrap().path());
    let files: BTreeSet<_> = files.filter(|file| file.to_str().is_some_and(|name| name.ends_with(ending))).collect();
    assert!(!files.is_empty(), "no recording in {} ends with {ending}", folder.display());
    files
}

pub(crate) fn read(file: &Path) -> Vec<Section> {
    let text = std::fs::read_to_string(file).unwrap();
    let name = file.file_stem().unwrap().to_string_lossy();
    let mut sections = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        if let Some(server) = text.strip_prefix('[') {
            sections.push(Section { name: format!("{name} [{server}"), pieces: Vec::new() });
        } else if !text.starts_with(['#', ';']) {
            let piece =
                piece(line, text).unwrap_or_else(|| panic!("{name}, line {line} is not of a recording: {text}"));
            sections.last_mut().expect("bytes stand in a section").pieces.push(piece);
        }
    }
    sections
}

fn piece(line: usize, text: &str) -> Option<Piece> {
    let (head, hex) = text.split_once(' ')?;
    let (connection, from) = match head.split_at_checked(head.len() - 1)? {
        (connection, ">") => (connection.parse().ok()?, From::Client),
        (connection, "<") => (connection.parse().ok()?, From::Server),
        _ => return None,
    };
    let byte = |at: usize| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
    let bytes = (0..hex.len()).step_by(2).map(byte).collect::<Option<_>>()?;
    Some(Piece { line, connection, from, bytes })
}
