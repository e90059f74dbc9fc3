//! Reads parents and start times of processes from `/proc`.
//!
//! The kernel may reuse a process id. Id and start time together identify one process.

use std::fs;

/// One line of the process table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcessStat {
    /// Process id of the parent.
    pub(crate) parent: u32,
    /// Start time in clock ticks since boot.
    pub(crate) start_time: u64,
}

/// The kernel's record of the process `pid`, if it exists.
pub(crate) fn stat(pid: u32) -> Option<ProcessStat> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// A child of the process `parent`; the testbed uses it only for processes with one child.
pub(crate) fn child_of(parent: u32) -> Option<u32> {
    let pids = fs::read_dir("/proc").ok()?.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.into_iter().find(|pid| stat(*pid).is_some_and(|found| found.parent == parent))
}

/// The id of this process's process-id namespace: process ids are meaningful only together with it.
pub(crate) fn pid_namespace() -> Option<u64> {
    use std::os::unix::fs::MetadataExt as _;
    fs::metadata("/proc/self/ns/pid").ok().map(|meta| meta.ino())
}

/// Fields of `/proc/PID/stat`; the program's name in it may hold spaces and parentheses.
fn parse_stat(line: &str) -> Option<ProcessStat> {
    let (_, rest) = line.rsplit_once(')')?;
    // The first word of the rest is field 3, the state.
    let fields: Vec<&str> = rest.split_whitespace().collect();
    Some(ProcessStat { parent: fields.get(1)?.parse().ok()?, start_time: fields.get(19)?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_name_with_a_parenthesis_is_parsed() {
        let line = "42 (a) b (c) S 7 42 42 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 98765 0 0";
        assert_eq!(parse_stat(line), Some(ProcessStat { parent: 7, start_time: 98765 }));
    }

    #[test]
    fn this_process_is_found() {
        assert!(stat(std::process::id()).unwrap().start_time > 0);
        assert!(pid_namespace().is_some());
    }
}
