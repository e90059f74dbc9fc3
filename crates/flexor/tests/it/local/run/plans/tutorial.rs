//! Follows the table of the parameter-server tutorial, row by row, in a background cluster.

use std::collections::BTreeMap;

use super::super::cluster::Workspace;
use super::{ask, eventually_or_explain, processes};
use crate::listings::{Row, expanded, sections, stands_for};

const SECTION: &str = "DLRover: parameter servers";
const AUTO: &str = "deepctr-auto-scaling";

/// A cluster in the background, ended with this.
struct PlanTutorialCluster(Workspace);

impl PlanTutorialCluster {
    fn up() -> Self {
        let this = Self(Workspace::new());
        this.0.says(&["local", "up"]);
        this
    }

    fn says(&self, words: &[&str]) -> String {
        let ran = ask(&self.0, words);
        assert_eq!(ran.code, 0, "{words:?}: {}{}", ran.stdout, ran.stderr);
        ran.stdout
    }

    /// The processes of the job that all plans but the first are about.
    fn of_auto_job(&self) -> BTreeMap<String, i32> {
        processes(&self.0).into_iter().filter(|(name, _)| name.contains(AUTO)).collect()
    }

    /// Follows a row, and waits for its listing.
    fn follow(&self, row: &Row) {
        let commands: Vec<Vec<String>> = row.commands.iter().map(|command| here(command)).collect();
        let words =
            |command: &[String]| -> String { self.says(&command.iter().map(String::as_str).collect::<Vec<_>>()) };
        let (looks, acts) = commands.split_last().unwrap();
        acts.iter().for_each(|act| _ = words(act));
        if row.lists.iter().all(|entry| entry.ends_with(" created")) {
            assert_eq!(words(looks).trim(), row.lists[0], "{}", row.step);
            return;
        }
        let wanted: Vec<String> = row.lists.iter().flat_map(|entry| expanded(entry)).collect();
        let is_table = wanted[0].starts_with("NAME ");
        let look = || {
            let printed = words(looks);
            let lines: Vec<String> = printed.lines().filter_map(|line| shown(line, is_table)).collect();
            let is_listed = |line: &String| wanted.iter().any(|entry| stands_for(entry, line));
            (lines.len() == wanted.len() && lines.iter().all(is_listed)).then_some(())
        };
        if row.passing {
            look();
            return;
        }
        let explain = || format!("{wanted:?}, but is\n{}", self.says(&["why", AUTO]));
        eventually_or_explain(&row.step, look, explain);
    }
}

impl Drop for PlanTutorialCluster {
    fn drop(&mut self) {
        let _ = super::server(&["local", "down", "--now", "--state-dir", "home"])
            .current_dir(self.0.folder.path())
            .output();
    }
}

/// A command of the page in its local form, with the jobs that need no image and no disk. Everything is in one
/// namespace.
fn here(command: &str) -> Vec<String> {
    let words = command.strip_prefix("kubectl -n dlrover ").unwrap().split(' ');
    words.map(|word| word.replace("examples/dlrover/deepctr-", "examples/deepctr/")).collect()
}

/// A line for comparison: of a running pod only the name.
fn shown(line: &str, is_table: bool) -> Option<String> {
    match line.split_whitespace().collect::<Vec<_>>()[..] {
        _ if is_table => Some(line.to_owned()),
        ["NAME", ..] => None,
        [name, _, "Running", ..] => Some(name.to_owned()),
        [name, _, status, ..] => Some(format!("{name} {status}")),
        _ => Some(line.to_owned()),
    }
}

#[test]
fn the_plans_of_the_tutorial_lead_to_its_listings_and_restart_no_other_pod() {
    let sections = sections();
    let section = sections.iter().find(|section| section.title == SECTION).unwrap();
    let cluster = PlanTutorialCluster::up();
    let mut before = BTreeMap::new();
    // Access rights do not exist on one machine.
    for row in section.rows.iter().filter(|row| row.step != "grant nothing") {
        // The other job has shown its listing.
        if row.step == "two parameter servers" {
            cluster.says(&["delete", "elasticjob", "deepctr-manual-scaling"]);
        }
        cluster.follow(row);
        if row.step == "it has scaled itself up" {
            before = cluster.of_auto_job();
            assert_eq!(before.len(), 6, "{before:?}");
        }
    }
    let mut after = cluster.of_auto_job();
    let moved = before.remove(&format!("{AUTO}-edljob-ps-0")).zip(after.remove(&format!("{AUTO}-edljob-ps-2")));
    assert!(moved.is_some_and(|(old, new)| old != new), "{before:?} {after:?}");
    assert_eq!(before, after, "all other pods keep their processes");
    let why = cluster.says(&["why", AUTO]);
    for part in ["Pace: ", "Automatic plans:\n  deepctr-auto-scaling-auto-0 came ", " more: ", " steps/s expected; "] {
        assert!(why.contains(part), "{part} in {why}");
    }
    let held = why.lines().find_map(|line| line.strip_prefix("  ps: set by the plan deepctr-manual-scaling-plan-2 "));
    let since =
        held.and_then(|rest| rest.strip_suffix(" ago; `flexor scale deepctr-auto-scaling --auto` gives it back"));
    assert!(since.is_some_and(|since| since.starts_with(|first: char| first.is_ascii_digit())), "{why}");
    let log = cluster.says(&["logs", &format!("{AUTO}-edljob-chief-0")]);
    assert!(log.contains("every batch waits 30ms for its data (--batch-delay)\n"), "{log}");
    let top = cluster.says(&["top", AUTO]);
    assert!(top.contains(" steps/s, ") && top.contains(" limit"), "{top}");
}
