//! All processes of this machine at a moment, by who started whom.

use std::collections::BTreeMap;
use std::fs;

/// What a process has used, and who started it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Process {
    pub parent: u32,
    /// Ticks of the kernel's clock.
    pub ticks: u64,
    /// Pages of memory.
    pub pages: u64,
}

/// The processes of a moment.
#[derive(Debug)]
pub(super) struct Processes {
    pub all: BTreeMap<u32, Process>,
    children: BTreeMap<u32, Vec<u32>>,
}

impl Processes {
    /// Those of now.
    pub(super) fn now() -> Self {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let all: BTreeMap<u32, Process> = pids.filter_map(|pid| Some((pid, read(pid)?))).collect();
        let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (pid, process) in &all {
            children.entry(process.parent).or_default().push(*pid);
        }
        Self { all, children }
    }

    /// A process and all its descendants, but not those for which `stop` holds, nor theirs.
    pub(super) fn family(&self, pid: u32, stop: impl Fn(u32) -> bool) -> Vec<u32> {
        let mut found = vec![pid];
        let mut next = 0;
        while let Some(parent) = found.get(next) {
            let children = self.children.get(parent).map(Vec::as_slice).unwrap_or_default();
            found.extend(children.iter().filter(|child| !stop(**child)));
            next += 1;
        }
        found
    }
}

fn read(pid: u32) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name stands in parentheses and may hold anything; the state is the first field after it.
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split_ascii_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    Some(Process { parent: u32::try_from(number(1)?).ok()?, ticks: number(11)? + number(12)?, pages: number(21)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_in_the_family_of_the_one_that_started_it() {
        let now = Processes::now();
        let own = std::process::id();
        let parent = now.all[&own].parent;
        assert!(now.family(parent, |_| false).contains(&own));
        assert!(!now.family(parent, |pid| pid == own).contains(&own));
        assert!(now.all[&own].pages > 0);
    }
}
