//! The shim of a worker: that of any program, which tells also in the worker's error file why it did not become one.

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use jiff::Timestamp;

use super::error_file::{ERROR_FILE_VARIABLE, ErrorReport};
use crate::processes;

/// Becomes the program that `args` name, as [`processes::exec_shim`] does.
///
/// Comes back only where that failed; the reason is then on standard error and in the error file that the program was to
/// have, if it was to have one. To be called at the very start of a process, before it has threads.
pub fn exec_shim(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let failed = processes::exec_shim(args);
    eprintln!("{failed}");
    if let Some(path) = env::var_os(ERROR_FILE_VARIABLE).filter(|path| !path.is_empty()) {
        let (message, error_code) = (failed.to_string(), Some(failed.code.into()));
        let report = ErrorReport { message, traceback: None, at: Some(Timestamp::now()), error_code };
        if let Err(error) = report.write(Path::new(&path)) {
            eprintln!("cannot write the error file '{}': {error}", path.display());
        }
    }
    ExitCode::from(failed.code)
}
