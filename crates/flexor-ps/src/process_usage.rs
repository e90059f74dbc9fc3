//! What this process uses of its machine.

use std::fs;

use rustix::time::{ClockId, clock_gettime};

/// Processor time of this process, in microseconds.
pub fn cpu_us() -> u64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    u64::try_from(used.tv_sec).unwrap_or(0) * 1_000_000 + u64::try_from(used.tv_nsec).unwrap_or(0) / 1_000
}

/// Resident memory of this process in bytes; 0 where the kernel does not tell.
pub fn memory_bytes() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    // The second number counts resident pages.
    let pages: u64 = statm.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_used_is_counted() {
        let before = memory_bytes();
        let used = vec![1_u8; 64 << 20];
        assert!(memory_bytes() >= before + (48 << 20), "{before}");
        assert_eq!(used.iter().map(|byte| u64::from(*byte)).sum::<u64>(), 64 << 20);
        assert!(cpu_us() > 0);
    }
}
