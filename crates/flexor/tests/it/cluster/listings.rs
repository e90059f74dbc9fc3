//! `docs/tutorials/listings.md`: what kubectl prints when the tutorials are followed.
//!
//! Only the rows that are marked as true today; the pods of a job come with the operator. The names of those pods are
//! held to the naming rules by the tests of `flexor-dialects`.

use std::collections::BTreeSet;

use flexor_testbed::{Cluster, ClusterConfig, cluster_or_skip};

use super::{
    installed::{in_repository, succeed},
    manifests::dialects_below,
};

const TODAY: &str = " *(today)*";

/// The rows of one table that are true today.
struct Section {
    title: String,
    rows: Vec<Row>,
}

struct Row {
    step: String,
    commands: Vec<String>,
    lists: Vec<String>,
}

fn sections() -> Vec<Section> {
    let page = std::fs::read_to_string(in_repository("docs/tutorials/listings.md")).unwrap();
    let mut sections: Vec<Section> = Vec::new();
    for line in page.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            sections.push(Section { title: title.to_owned(), rows: Vec::new() });
        } else if let (Some(section), Some(row)) = (sections.last_mut(), row(line)) {
            section.rows.push(row);
        }
    }
    sections.retain(|section| !section.rows.is_empty());
    sections
}

fn row(line: &str) -> Option<Row> {
    let entries = |cell: &str| -> Vec<String> {
        cell.split("<br>").map(|entry| entry.trim().trim_matches('`').to_owned()).collect()
    };
    let cells: Vec<&str> = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").collect();
    let [step, commands, lists] = cells[..] else { return None };
    let (commands, lists) = (entries(commands), entries(lists));
    // What kubectl itself answers to a submission cannot be left for later.
    let of_created = lists.iter().all(|entry| entry.ends_with(" created"));
    let marked = step.strip_suffix(TODAY);
    assert!(marked.is_some() || !of_created, "`{step}` is true today; mark it with{TODAY}");
    marked.map(|step| Row { step: step.to_owned(), commands, lists })
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
    /// Runs the commands; the last one's answer is what the row lists.
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

/// Whether an entry describes a line, word by word; `*` is any word.
fn stands_for(entry: &str, line: &str) -> bool {
    let (entry, line): (Vec<_>, Vec<_>) = (entry.split(' ').collect(), line.split_whitespace().collect());
    entry.len() == line.len() && entry.iter().zip(line).all(|(wanted, found)| *wanted == "*" || *wanted == found)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_marked_as_true_today_is() {
    let mut sections = sections();
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
