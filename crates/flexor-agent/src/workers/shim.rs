//! The shim of a worker: that of any program, which also writes to the worker's error file why it failed.

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use jiff::Timestamp;

use super::error_file::{ERROR_FILE_VARIABLE, ErrorReport};
use crate::processes;

/// Executes the program that `args` name, as [`processes::exec_shim`] does.
///
/// Returns only on failure. The cause is then on standard error, and in the program's error file if it has one. Call it at
/// the very start of a process, before it has threads.
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
