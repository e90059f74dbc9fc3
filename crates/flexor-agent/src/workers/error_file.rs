//! Error files: how a worker tells in its own words why it failed, in the JSON that torch's `@record` writes.
//!
//! A worker finds the path in [`ERROR_FILE_VARIABLE`]; the group reads the file when the worker has failed. Whatever is
//! in it came from the user's program: sizes are bounded, odd shapes are accepted or ignored, nothing panics. The
//! launcher may be a worker itself (of a sidecar, of another launcher): [`propagate`] hands the root cause upwards.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use nix::fcntl::OFlag;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::exit::WorkerExit;

/// The variable that tells a program where to write its error file.
pub const ERROR_FILE_VARIABLE: &str = "TORCHELASTIC_ERROR_FILE";

/// A longer file is ignored; a Python traceback has some kilobytes.
const LONGEST: u64 = 1 << 20;

/// A file that was written this long after the time that stands in it was not written for that error.
const PROMPT: SignedDuration = SignedDuration::from_secs(2);

/// What a worker says about its failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorReport {
    /// In one line: the exception and its text.
    pub message: String,
    /// The traceback.
    pub traceback: Option<String>,
    /// When it happened. Whole seconds, where nothing but the file's text is known.
    pub at: Option<Timestamp>,
    /// The exit code or signal (below zero) that a launcher has added.
    pub error_code: Option<i64>,
}

impl ErrorReport {
    /// Reads the text of an error file; `None` where it holds no message.
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

    /// Reads the error file of a worker that failed. `None` where there is none, or none that tells anything.
    ///
    /// Reports hold whole seconds, too coarse to tell which of two workers failed first; the time of the file's last
    /// change is finer and taken where it agrees.
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
            (Some(at), Some(written)) if !(SignedDuration::ZERO..=PROMPT).contains(&written.duration_since(at)) => {
                Some(at)
            }
            (_, Some(written)) => Some(written),
            (at, None) => at,
        };
        Some(report)
    }

    /// What is known of a worker that failed without a word of its own.
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

/// Hands the error of a failed worker to whoever started the launcher: writes it to `to`, the launcher's own
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
    // The worker's own file goes on as it is, fields that we do not know included.
    let Some(mut file) = exit.error.is_some().then(own).flatten() else {
        return ErrorReport::of_exit(exit).write(to);
    };
    if let Some(Value::Object(message)) = file.get_mut("message") {
        message.insert("errorCode".to_owned(), json!(exit.outcome.number()));
    }
    overwrite(to, &file.to_string())
}

fn overwrite(path: &Path, text: &str) -> io::Result<()> {
    // As in `read_bounded`; a pipe without a reader is an error then.
    let flags = OFlag::O_NONBLOCK.bits();
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).custom_flags(flags).open(path)?;
    file.write_all(text.as_bytes())
}

/// The bytes of a plain file that is not too long, and when it was last changed.
fn read_bounded(path: &Path) -> io::Result<(Vec<u8>, Option<Timestamp>)> {
    // A worker may have put a pipe there; opening one must not wait for a writer.
    let file = OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a plain file"));
    }
    let mut bytes = Vec::new();
    file.take(LONGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LONGEST {
        return Err(io::Error::other(format!("it is longer than {LONGEST} bytes")));
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
    // Out of every calendar's range is no time at all; the cast saturates.
    seconds.is_finite().then(|| Timestamp::from_second(seconds.floor() as i64).ok()).flatten()
}

#[cfg(test)]
mod tests;
