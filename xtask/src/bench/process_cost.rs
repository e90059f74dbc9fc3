//! Resource usage of a process, from `/proc`.

use std::fs;

use anyhow::{Context, Result};

/// The unit of the times in `/proc/PID/stat`, per second: the same on every Linux that we build for.
const TICKS_PER_SECOND: f64 = 100.0;

/// Seconds of CPU that a process has used, in its own code and in the kernel for it.
pub(super) fn cpu_seconds(pid: u32) -> Result<f64> {
    let path = format!("/proc/{pid}/stat");
    let stat = fs::read_to_string(&path).with_context(|| format!("cannot read {path}; has the process ended?"))?;
    cpu_ticks(&stat).map(|ticks| ticks / TICKS_PER_SECOND).with_context(|| format!("{path} says {stat}"))
}

/// Seconds of CPU that this thread has used so far, with a finer resolution than `/proc`.
pub(super) fn thread_cpu_seconds() -> Result<f64> {
    let used = nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID)?;
    Ok(used.tv_sec() as f64 + used.tv_nsec() as f64 / 1e9)
}

/// Memory that a process has in RAM, in MiB.
pub(super) fn resident_mib(pid: u32) -> Result<f64> {
    status_mib(pid, "VmRSS:")
}

/// The most memory that a process has had in RAM so far, in MiB.
pub(super) fn peak_mib(pid: u32) -> Result<f64> {
    status_mib(pid, "VmHWM:")
}

/// The part of [`resident_mib`] that is the process's own: without the code and data of files, which processes share.
pub(super) fn anonymous_mib(pid: u32) -> Result<f64> {
    status_mib(pid, "RssAnon:")
}

fn status_mib(pid: u32, field: &str) -> Result<f64> {
    let path = format!("/proc/{pid}/status");
    let status = fs::read_to_string(&path).with_context(|| format!("cannot read {path}; has the process ended?"))?;
    kib(&status, field).map(|kib| kib / 1024.0).with_context(|| format!("{path} has no {field}"))
}

/// User and system time. The name in parentheses may hold anything, so that fields are counted after it.
fn cpu_ticks(stat: &str) -> Option<f64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11).map(str::parse::<f64>);
    Some(fields.next()?.ok()? + fields.next()?.ok()?)
}

fn kib(status: &str, field: &str) -> Option<f64> {
    status.lines().find_map(|line| line.strip_prefix(field))?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_behind_any_name() {
        let stat = "77 (a) b (c)) S 1 77 77 0 -1 4194560 1000 0 0 0 250 50 7 9 20 0 8 0 100 1000 200";
        assert_eq!(cpu_ticks(stat), Some(300.0));
        assert_eq!(cpu_ticks("77 (a"), None);
    }

    #[test]
    fn this_process_uses_memory_and_time() {
        let own = std::process::id();
        assert!(resident_mib(own).unwrap() > 0.5);
        assert!(cpu_seconds(own).unwrap() >= 0.0);
        assert!(peak_mib(own).unwrap() > 0.5 && anonymous_mib(own).unwrap() > 0.0);
        assert_eq!(kib("Name:\tx\nVmRSS:\t   2048 kB\n", "VmRSS:"), Some(2048.0));
    }
}
