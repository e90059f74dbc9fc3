//! Compares kubectl's output with `docs/tutorials/listings.md` while the test follows the tutorials, with the operator
//! under its own service account. The nodes are fake: pods run, and nothing runs in them.
//!
//! The test covers only rows marked as true today.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use flexor_testbed::{Cluster, ClusterConfig, NodeGroup, QPS, cluster_or_skip};

use super::{
    installed::{apply_text, in_repository, succeed},
    manifests::dialects_below,
    operator::{Operator, turn},
};
use crate::listings::{Row, Section, expanded, sections, stands_for};
use crate::program::bin;

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

    /// Whether its commands say how many queries a Deployment serves.
    fn needs_metrics(&self) -> bool {
        self.rows.iter().flat_map(|row| &row.commands).any(|command| command.contains(QPS))
    }

    /// Runs a table that installs its controller itself: the operator starts after that row.
    async fn run_from_installing(&self, cluster: &Cluster) {
        let mut operator = None;
        for row in &self.rows {
            row.run(cluster);
            if row.lists.iter().any(|entry| entry.starts_with("deployment.apps/")) {
                operator = Some(Operator::of_overlay(cluster, row).await);
            }
        }
        drop(operator);
    }
}

/// The cluster of a table. Numbers of trainers depend on its size; elsewhere it is large enough for every job.
fn cluster_of(table: Option<&Section>) -> ClusterConfig {
    // Beside the cores for pods of one core, every node has a little room for the controller.
    let group = match table.map(|table| table.title.as_str()) {
        Some("EDL: the autoscaling experiment" | "EDL: general jobs") => {
            NodeGroup::new("node", 40).cpu("6100m").memory("64Gi")
        }
        Some("EDL: hybrid deployment") => NodeGroup::new("node", 61).cpu("3100m").memory("64Gi"),
        Some(_) | None => NodeGroup::new("node", 8).cpu("64").memory("256Gi"),
    };
    ClusterConfig::with_nodes([group])
}

/// How long a state may take to be reached.
const DEADLINE: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The volume that DLRover's tutorials ask their users for.
const VOLUME: &str = r#"
apiVersion: v1
kind: PersistentVolume
metadata: {name: nas}
spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteMany], hostPath: {path: /nas}, storageClassName: ""}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: pvc-nas, namespace: dlrover}
spec: {accessModes: [ReadWriteMany], resources: {requests: {storage: 1Gi}}, storageClassName: "", volumeName: nas}
"#;

/// What the auto-scaling job finds by itself where its containers run. Here nothing trains.
const THREE_WORKERS: &str = r#"
apiVersion: elastic.iml.github.io/v1alpha1
kind: ScalePlan
metadata: {name: three-workers, namespace: dlrover, labels: {scale-type: manual}}
spec: {ownerJob: deepctr-auto-scaling, replicaResourceSpecs: {worker: {replicas: 3}}}
"#;

impl Row {
    /// Runs the commands. The row lists the output of the last one, which is repeated until it is as listed.
    fn run(&self, cluster: &Cluster) {
        if self.step == "it has scaled itself up" {
            apply_text(cluster, THREE_WORKERS);
        }
        let (looks, acts) = self.commands.split_last().unwrap();
        acts.iter().for_each(|act| drop(self.command(cluster, act)));
        let mut printed = self.command(cluster, looks);
        if self.passing {
            return;
        }
        let is_answer = self.lists.iter().all(|entry| entry.ends_with(" created"));
        let began = Instant::now();
        while !self.is_listed(&printed) {
            let waited = began.elapsed();
            assert!(!is_answer && waited < DEADLINE, "{}: {printed} was printed, not {:#?}", self.step, self.lists);
            std::thread::sleep(LOOK_EVERY);
            printed = self.command(cluster, looks);
        }
    }

    fn command(&self, cluster: &Cluster, command: &str) -> String {
        if command.starts_with("paddlecloud ") { paddlecloud(cluster, command) } else { self.kubectl(cluster, command) }
    }

    fn kubectl(&self, cluster: &Cluster, command: &str) -> String {
        let words = command.strip_prefix("kubectl ").unwrap_or_else(|| panic!("{}: {command}", self.step));
        let folder = tempfile::tempdir().unwrap();
        let in_place = words.split(' ').map(|word| match word.split_once('/') {
            Some(("examples", _)) if self.step.contains("rdzvEndpoint") => {
                // The user writes the endpoint into the file.
                let text = std::fs::read_to_string(in_repository(word)).unwrap();
                let edited = text.replacen("\nspec:\n", "\nspec:\n  rdzvEndpoint: etcd-service:2379\n", 1);
                let file = folder.path().join("edited.yaml");
                std::fs::write(&file, edited).unwrap();
                file.to_str().unwrap().to_owned()
            }
            Some(("examples" | "deploy", _)) => in_repository(word),
            _ => word.to_owned(),
        });
        let in_place: Vec<String> = in_place.collect();
        succeed(&mut cluster.kubectl(in_place))
    }

    /// Whether the output is what the row lists, in any order. Pods are listed by name and status.
    fn is_listed(&self, printed: &str) -> bool {
        let groups: Vec<Group> = self.lists.iter().flat_map(|entry| Group::of(entry)).collect();
        let has_heading = self.lists[0].starts_with("NAME ");
        let of_pods = !has_heading && printed.starts_with("NAME ");
        let lines: Vec<String> = printed
            .lines()
            .skip(usize::from(of_pods))
            .map(|line| {
                let words: Vec<&str> = line.split_whitespace().collect();
                match words[..] {
                    [name, _, "Running", ..] if of_pods => name.to_owned(),
                    [name, _, status, ..] if of_pods => format!("{name} {status}"),
                    _ => line.to_owned(),
                }
            })
            .collect();
        let listed = |line: &String| groups.iter().any(|group| group.matches(line));
        let seen = |group: &Group| lines.iter().filter(|line| group.matches(line)).count() >= group.count;
        let wanted: usize = groups.iter().map(|group| group.count).sum();
        lines.len() == wanted && lines.iter().all(listed) && groups.iter().all(seen)
    }
}

/// So many lines, each of which matches one of these.
struct Group {
    count: usize,
    any_of: Vec<String>,
}

impl Group {
    fn of(entry: &str) -> Vec<Self> {
        let of_many = entry.split_once(" of ").and_then(|(count, pattern)| Some((count.parse().ok()?, pattern)));
        match of_many {
            Some((count, pattern)) => vec![Self { count, any_of: expanded(pattern) }],
            None => expanded(entry).into_iter().map(|one| Self { count: 1, any_of: vec![one] }).collect(),
        }
    }

    fn matches(&self, line: &str) -> bool {
        self.any_of.iter().any(|entry| matches(entry, line))
    }
}

/// Runs a line of the experiment's page in the folder of its demos.
fn paddlecloud(cluster: &Cluster, line: &str) -> String {
    let programs = tempfile::tempdir().unwrap();
    symlink(bin(), programs.path().join("paddlecloud")).unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut shell = cluster.command_in("sh");
    shell.args(["-c", line]).current_dir(in_repository("tutorials/edl/demo"));
    shell.env("PATH", format!("{}:{path}", programs.path().display()));
    succeed(&mut shell)
}

/// Whether an entry matches a line; one that ends with `*` matches every name that begins like it.
fn matches(entry: &str, line: &str) -> bool {
    let begins = |prefix: &str| !prefix.ends_with(' ') && line.starts_with(prefix) && !line.contains(' ');
    stands_for(entry, line) || entry.strip_suffix('*').is_some_and(begins)
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_marked_as_true_today_are_true() {
    let _turn = turn().await;
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
        // Two tables of one tutorial begin anew.
        let mine: Vec<_> = after_installing.iter().filter(|section| section.dialect() == overlay.step).collect();
        for section in mine.iter().map(Some).chain(mine.is_empty().then_some(None)) {
            let cluster = cluster_or_skip!(cluster_of(section.map(|section| **section)));
            overlay.run(&cluster);
            if overlay.step == "dlrover" {
                apply_text(&cluster, VOLUME);
            }
            let _operator = Operator::of_overlay(&cluster, overlay).await;
            if let Some(section) = section {
                let _metrics = match section.needs_metrics() {
                    true => Some(cluster.serve_metrics().await.unwrap()),
                    false => None,
                };
                section.run(&cluster);
            }
        }
    }
    for section in alone {
        let cluster = cluster_or_skip!(cluster_of(Some(section)));
        section.run_from_installing(&cluster).await;
    }
}
