//! Compares kubectl's output with `docs/tutorials/listings.md` while the test follows the tutorials.
//!
//! The test covers only rows marked as true today, because the pods of a job need the operator. The tests of
//! `flexor-dialects` check the names of those pods.

use std::collections::BTreeSet;

use flexor_testbed::{Cluster, ClusterConfig, cluster_or_skip};

use super::{
    installed::{in_repository, succeed},
    manifests::dialects_below,
};
use crate::listings::{Row, Section, sections, stands_for};

/// The tables, with the rows of them that are true today.
fn todays() -> Vec<Section> {
    let mut sections = sections();
    for section in &mut sections {
        for row in &section.rows {
            // kubectl's own answer to a submission is always checked.
            let of_created = row.lists.iter().all(|entry| entry.ends_with(" created"));
            assert!(row.today || !of_created, "`{}` is true today; mark it so", row.step);
        }
        section.rows.retain(|row| row.today);
    }
    sections.retain(|section| !section.rows.is_empty());
    sections
}

impl Section {
    /// The folder below `examples/` that its commands name.
    fn dialect(&self) -> &str {
        let words = self.rows.iter().flat_map(|row| &row.commands).flat_map(|command| command.split(' '));
        let mut dialects = words.filter_map(|word| word.strip_prefix("examples/")?.split_once('/'));
        dialects.next().unwrap_or_else(|| panic!("`{}` uses no example", self.title)).0
    }

    /// Whether it begins in an empty cluster, because it registers its kinds itself or has none.
    fn begins_in_an_empty_cluster(&self, overlays: &[Row]) -> bool {
        let registers = |row: &Row| row.lists.iter().any(|entry| entry.starts_with("customresourcedefinition"));
        self.rows.iter().any(registers) || !overlays.iter().any(|overlay| overlay.step == self.dialect())
    }

    fn run(&self, cluster: &Cluster) {
        self.rows.iter().for_each(|row| row.run(cluster));
    }
}

impl Row {
    /// Runs the commands; the row lists the output of the last one.
    fn run(&self, cluster: &Cluster) {
        let mut printed = String::new();
        for command in &self.commands {
            let words = command.strip_prefix("kubectl ").unwrap_or_else(|| panic!("{}: {command}", self.step));
            let in_place = words.split(' ').map(|word| match word.split_once('/') {
                Some(("examples" | "deploy", _)) => in_repository(word),
                _ => word.to_owned(),
            });
            printed = succeed(&mut cluster.kubectl(in_place));
        }
        let lines: Vec<&str> = printed.lines().collect();
        let listed = |line: &&str| self.lists.iter().any(|entry| stands_for(entry, line));
        let seen = |entry: &String| lines.iter().any(|line| stands_for(entry, line));
        let same = lines.len() == self.lists.len() && lines.iter().all(listed) && self.lists.iter().all(seen);
        assert!(same, "{}: {:#?} was printed, not {:#?}", self.step, lines, self.lists);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_marked_as_true_today_are_true() {
    let mut sections = todays();
    let installing = sections.remove(0);
    assert_eq!(installing.title, "Installing");
    let overlays = installing.rows;
    let listed: BTreeSet<String> = overlays.iter().map(|overlay| overlay.step.clone()).collect();
    let there = dialects_below("deploy").into_iter().filter(|folder| folder != "crds");
    assert_eq!(listed, there.collect(), "a row for each overlay");

    let (alone, after_installing): (Vec<_>, Vec<_>) =
        sections.iter().partition(|section| section.begins_in_an_empty_cluster(&overlays));
    for overlay in &overlays {
        let cluster = cluster_or_skip!(ClusterConfig::default());
        overlay.run(&cluster);
        let mine = after_installing.iter().filter(|section| section.dialect() == overlay.step);
        mine.for_each(|section| section.run(&cluster));
    }
    for section in alone {
        let cluster = cluster_or_skip!(ClusterConfig::default());
        section.run(&cluster);
    }
}
