//! A snapshot of all processes of this machine, with their parents.

use std::collections::BTreeMap;
use std::fs;

use flexor_agent::processes::Process;

#[derive(Debug)]
pub(super) struct Processes {
    pub all: BTreeMap<i32, Process>,
    children: BTreeMap<i32, Vec<i32>>,
}

impl Processes {
    pub(super) fn now() -> Self {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let all: BTreeMap<i32, Process> = pids.filter_map(|pid| Some((pid, Process::read(pid)?))).collect();
        let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
        for (pid, process) in &all {
            children.entry(process.parent).or_default().push(*pid);
        }
        Self { all, children }
    }

    /// A process and its descendants, without those for which `stop` holds and their descendants.
    pub(super) fn family(&self, pid: i32, stop: impl Fn(i32) -> bool) -> Vec<i32> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_in_the_family_of_the_one_that_started_it() {
        let now = Processes::now();
        let (own, _) = crate::proc::own();
        let parent = now.all[&own].parent;
        assert!(now.family(parent, |_| false).contains(&own));
        assert!(!now.family(parent, |pid| pid == own).contains(&own));
        assert!(now.all[&own].pages > 0);
    }
}
