//! Memory limits without a cgroup: what a program and all its descendants have is looked at, and who has too much is
//! killed. Resident memory counts what is shared more than once, so near the limit the exact share is read instead.

use std::fs;

use nix::sys::signal::{Signal, kill as send};
use nix::unistd::Pid;

/// From this part of the limit on, in hundredths, it is worth reading exactly.
const NEAR: u64 = 80;

/// Whether a process and its descendants have more than `limit` bytes.
pub(super) fn is_exceeded(pid: u32, limit: u64) -> bool {
    let family = family(pid);
    let resident: u64 = family.iter().map(|pid| resident(*pid)).sum();
    if resident < limit / 100 * NEAR {
        return false;
    }
    family.iter().map(|pid| share(*pid).unwrap_or_else(|| self::resident(*pid))).sum::<u64>() > limit
}

/// Kills a process; its descendants are ended by whoever looks after it.
pub(super) fn kill(pid: u32) {
    if let Ok(pid) = i32::try_from(pid) {
        // It may have ended meanwhile, which is what is wanted.
        _ = send(Pid::from_raw(pid), Signal::SIGKILL);
    }
}

fn family(pid: u32) -> Vec<u32> {
    let mut found = vec![pid];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        let threads = fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten();
        let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
        for list in lists {
            found.extend(list.split_ascii_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        }
        next += 1;
    }
    found
}

fn resident(pid: u32) -> u64 {
    field(&format!("/proc/{pid}/status"), "VmRSS:").unwrap_or(0)
}

fn share(pid: u32) -> Option<u64> {
    field(&format!("/proc/{pid}/smaps_rollup"), "Pss:")
}

/// A field in kilobytes, as bytes.
fn field(path: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
}
