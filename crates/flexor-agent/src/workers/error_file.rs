//! Error files: in them a worker reports why it failed, in the JSON that torch's `@record` writes.
//!
//! A worker finds the path in [`ERROR_FILE_VARIABLE`]; the group reads the file when the worker has failed. The content
//! comes from the user's program: sizes are bounded, odd shapes are accepted or ignored, nothing panics. The launcher may
//! be a worker itself (of a sidecar, of another launcher): [`propagate`] passes the root cause upwards.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use nix::fcntl::OFlag;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::worker_exit::WorkerExit;
use crate::processes::Traceback;

/// The environment variable with the path of the error file.
pub const ERROR_FILE_VARIABLE: &str = "TORCHELASTIC_ERROR_FILE";

/// Longer files are ignored, in bytes. A Python traceback has some kilobytes.
const MAX_FILE: u64 = 1 << 20;

/// A file whose modification time is later than its timestamp by more than this was not written for that error.
const MAX_WRITE_DELAY: SignedDuration = SignedDuration::from_secs(2);

/// A worker's report of its failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorReport {
    /// One line: the exception and its text.
    pub message: String,
    pub traceback: Option<String>,
    /// When it happened. In whole seconds if it comes from the file's text.
    pub at: Option<Timestamp>,
    /// The exit code, or the negative signal number, that a launcher has added.
    pub error_code: Option<i64>,
}

impl ErrorReport {
    /// Parses an error file; `None` if it has no message.
    ///
    /// `message` is a string or an object of `message` and `extraInfo`, whose `timestamp` is a number or its text.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let file: Value = serde_json::from_slice(bytes).ok()?;
        match file.get("message")? {
            Value::String(message) => Some(Self {
                message: message.clone(),
                traceback: None,
                at: file.get("timestamp").and_then(timestamp),
                error_code: None,
            }),
            Value::Object(message) => {
                let extra = message.get("extraInfo");
                let traceback = extra.and_then(|extra| extra.get("py_callstack")).and_then(Value::as_str);
                let text = match message.get("message") {
                    Some(Value::String(text)) => text.clone(),
                    Some(other) => other.to_string(),
                    // The last line of a traceback is the exception.
                    None => traceback?.trim_end().lines().next_back()?.to_owned(),
                };
                Some(Self {
                    message: text,
                    traceback: traceback.map(str::to_owned),
                    at: extra.and_then(|extra| extra.get("timestamp")).and_then(timestamp),
                    error_code: message.get("errorCode").and_then(Value::as_i64),
                })
            }
            _ => None,
        }
    }

    /// The message on one line, with the frame of the user's program that raised it.
    pub fn summary(&self) -> String {
        let message = self.message.lines().next().unwrap_or_default().trim_end();
        self.parsed_traceback().map_or_else(|| message.to_owned(), |traceback| traceback.located(message))
    }

    /// Whether a launcher failed, and not a program that it started.
    pub fn is_of_launcher(&self) -> bool {
        self.parsed_traceback().is_some_and(|traceback| traceback.is_of_launcher())
    }

    fn parsed_traceback(&self) -> Option<Traceback> {
        Traceback::last_in(self.traceback.as_deref()?)
    }

    /// The text of an error file, as `@record` writes it.
    pub fn to_json(&self) -> String {
        let mut message = json!({ "message": self.message, "extraInfo": {} });
        if let Some(traceback) = &self.traceback {
            message["extraInfo"]["py_callstack"] = json!(traceback);
        }
        if let Some(at) = self.at {
            // A text of whole seconds: torch reads it with int().
            message["extraInfo"]["timestamp"] = json!(at.as_second().to_string());
        }
        if let Some(code) = self.error_code {
            message["errorCode"] = json!(code);
        }
        json!({ "message": message }).to_string()
    }

    /// Reads the error file of a failed worker. `None` if there is none, or it has no message.
    ///
    /// Timestamps in reports are whole seconds, too coarse to tell which of two workers failed first. The file's
    /// modification time is finer; it is used where both agree.
    pub(super) fn read(path: &Path) -> Option<Self> {
        let (bytes, written) = match read_bounded(path) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "an error file is ignored");
                return None;
            }
        };
        let Some(mut report) = Self::parse(&bytes) else {
            tracing::warn!(path = %path.display(), "an error file is ignored: no message that could be read is in it");
            return None;
        };
        report.at = match (report.at, written) {
            (Some(at), Some(written))
                if !(SignedDuration::ZERO..=MAX_WRITE_DELAY).contains(&written.duration_since(at)) =>
            {
                Some(at)
            }
            (_, Some(written)) => Some(written),
            (at, None) => at,
        };
        Some(report)
    }

    /// The report for a worker that failed and left none.
    pub(super) fn of_exit(exit: &WorkerExit) -> Self {
        Self {
            message: exit.message(),
            traceback: None,
            at: Some(exit.at),
            error_code: Some(exit.outcome.number().into()),
        }
    }

    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        overwrite(path, &self.to_json())
    }
}

/// Passes the error of a failed worker to the launcher's own supervisor: writes it to `to`, the path in the launcher's
/// [`ERROR_FILE_VARIABLE`], with the worker's exit code added.
///
/// The file is written in place, never replaced: it may be a mount point, as a pod's termination message is.
///
/// # Errors
///
/// `to` cannot be written.
pub fn propagate(exit: &WorkerExit, to: &Path) -> io::Result<()> {
    let own =
        || read_bounded(&exit.error_file).ok().and_then(|(bytes, _)| serde_json::from_slice::<Value>(&bytes).ok());
    // The worker's file is passed on with all its fields, known or not.
    let Some(mut file) = exit.error.is_some().then(own).flatten() else {
        return ErrorReport::of_exit(exit).write(to);
    };
    if let Some(Value::Object(message)) = file.get_mut("message") {
        message.insert("errorCode".to_owned(), json!(exit.outcome.number()));
    }
    overwrite(to, &file.to_string())
}

fn overwrite(path: &Path, text: &str) -> io::Result<()> {
    // As in `read_bounded`: opening a pipe without a reader is an error, not a wait.
    let flags = OFlag::O_NONBLOCK.bits();
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).custom_flags(flags).open(path)?;
    file.write_all(text.as_bytes())
}

/// The bytes of a regular file that is not too long, and its modification time.
fn read_bounded(path: &Path) -> io::Result<(Vec<u8>, Option<Timestamp>)> {
    // A worker may have made a pipe; opening it must not wait for a writer.
    let file = OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a plain file"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(io::Error::other(format!("it is longer than {MAX_FILE} bytes")));
    }
    Ok((bytes, metadata.modified().ok().and_then(|written| Timestamp::try_from(written).ok())))
}

/// Whole seconds since 1970, from a number or its text.
fn timestamp(value: &Value) -> Option<Timestamp> {
    let seconds = match value {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => text.trim().parse().ok()?,
        _ => return None,
    };
    // A number outside the calendar's range is ignored; the cast saturates.
    seconds.is_finite().then(|| Timestamp::from_second(seconds.floor() as i64).ok()).flatten()
}

#[cfg(test)]
mod tests;
