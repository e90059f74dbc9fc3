//! The workers of `examples/any-program`, as a node of a job starts them.

use std::process::{Command, Stdio};

use crate::program::root;

/// One of the two.
#[derive(Debug, Clone, Copy)]
pub enum Worker {
    Shell,
    Python,
}

impl Worker {
    /// A requirement that this machine lacks.
    pub fn lacks(self) -> Option<&'static str> {
        let needs = match self {
            Worker::Shell => "curl",
            Worker::Python => "python3",
        };
        let found = Command::new(needs).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        (!found.is_ok_and(|status| status.success())).then_some(needs)
    }

    /// A script that becomes the worker and writes into `out`: records, records of a batch, and seconds for each.
    pub fn script(self, records: u64, batch: u64, seconds: f64) -> String {
        let (program, file) = match self {
            Worker::Shell => ("sh", "worker.sh"),
            Worker::Python => ("python3", "worker.py"),
        };
        let file = root().join("examples/any-program").join(file);
        // Without a proxy: the master is on this machine.
        format!("export no_proxy='*'; exec {program} '{}' out {records} {batch} {seconds}", file.display())
    }
}
