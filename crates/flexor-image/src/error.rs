//! What can go wrong with an image. Each message names the file or the image.

use std::io;
use std::path::{Path, PathBuf};

/// Why an image was not written or pushed.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    #[error(
        "`{text}` is not the name of an image: {reason}; write REGISTRY/NAME:TAG, such as registry.example/flexor:1"
    )]
    BadName { text: String, reason: String },

    #[error("`{path}` is not a path in an image: it must be absolute, without `.` and `..`")]
    BadPath { path: PathBuf },

    #[error("`{path}` cannot be in the image: `{parent}` is not a directory there")]
    NotADirectory { path: PathBuf, parent: PathBuf },

    #[error("cannot {action} {path}: {source}")]
    Io { action: &'static str, path: PathBuf, source: io::Error },

    #[error("{path} is not a program (ELF file)")]
    NotAProgram { path: PathBuf },

    #[error("{path} needs the shared library {library}, which this machine does not have")]
    MissingLibrary { path: PathBuf, library: String },

    #[error("{program} failed for {path}: {message}")]
    ToolFailed { program: &'static str, path: PathBuf, message: String },

    #[error("{folder} is not empty and no OCI layout; name a new folder")]
    OccupiedFolder { folder: PathBuf },

    #[error("cannot read the credentials in {path}: {reason}")]
    BadCredentials { path: PathBuf, reason: String },

    #[error("cannot push {name}: {}", with_causes(source))]
    Push { name: String, source: Box<oci_client::errors::OciDistributionError> },
}

impl ImageError {
    /// Wraps an I/O error with what was attempted: `map_err(ImageError::io("write", path))`.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}

/// The error of an HTTP client names its cause, such as a refused connection, in its sources only.
fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    causes.fold(error.to_string(), |text, cause| {
        let cause = cause.to_string();
        if text.contains(&cause) { text } else { format!("{text}: {cause}") }
    })
}
