//! What names a process for good: its id and when it started.

use std::fs;

/// When process `pid` started, in the kernel's ticks since boot; nothing for one that is gone.
pub fn started(pid: i32) -> Option<u64> {
    fields(pid).map(|fields| fields.started)
}

/// This process: its id and when it started.
pub fn own() -> (i32, u64) {
    let pid = i32::try_from(std::process::id()).unwrap_or(0);
    (pid, started(pid).unwrap_or(0))
}

/// Whether a process is the one that it was. One that has ended and was not waited for is not.
pub fn is_alive((pid, start): (i32, u64)) -> bool {
    fields(pid).is_some_and(|fields| fields.started == start && !fields.dead)
}

struct Fields {
    dead: bool,
    started: u64,
}

fn fields(pid: i32) -> Option<Fields> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name stands in parentheses and may hold anything; the state follows it, and the start 19 fields later.
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split_ascii_whitespace();
    let dead = matches!(fields.next()?, "Z" | "X");
    Some(Fields { dead, started: fields.nth(18)?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_lives_and_another_of_its_number_would_not_be_it() {
        let (pid, start) = own();
        assert!(is_alive((pid, start)) && !is_alive((pid, start + 1)) && !is_alive((-1, 0)));
    }
}
