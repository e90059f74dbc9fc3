//! Finds the descendants of a process in `/proc`. Process groups and sessions do not help: torchrun's workers have
//! their own.

use std::fs;

use crate::keeper::process_table;

/// All processes below `root`, parents before their children.
pub(super) fn descendants(root: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parents: Vec<(u32, u32)> = pids.filter_map(|pid| Some((pid, process_table::stat(pid)?.parent))).collect();
    let mut found = vec![root];
    let mut at = 0;
    while let Some(&parent) = found.get(at) {
        found.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        at += 1;
    }
    found.remove(0);
    found
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead as _, BufReader},
        os::unix::process::CommandExt as _,
        process::{Command, Stdio},
    };

    use super::*;

    #[test]
    fn a_grandchild_is_found_whatever_its_process_group() {
        // The inner shell prints a line when it is running and waits for the end of its input.
        let mut child = Command::new("sh")
            .args(["-c", "sh -c 'echo $$; cat'; true"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let (outer, inner) = (child.id(), line.trim().parse().unwrap());
        let found = descendants(std::process::id());
        let position = |wanted| found.iter().position(|pid| *pid == wanted).unwrap();
        assert!(position(outer) < position(inner), "{found:?}");
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(!descendants(std::process::id()).contains(&outer));
    }
}
