//! Follows the tutorials on a laptop with `flexor` in place of `kubectl`, for the examples that need no image. The
//! listings must equal `docs/tutorials/listings.md`.
//!
//! The programs are stand-ins that wait, because the subject is pods and names. The peers tier tests the training.
//! `run/plans.rs` follows the parameter-server tutorial with real training, because it needs no Python.

use std::fs;
use std::process::Command;

use super::faults::deadline::eventually_or_explain;
use super::faults::process::server;
use super::launch::folder::Folder;
use super::run::cluster::Workspace;
use crate::listings::{Row, expanded, sections, stands_for};
use crate::program::{ProgramOutput, root};

/// A tutorial, as it is followed here.
struct Tutorial {
    /// The table.
    section: &'static str,
    /// The example in place of the page's own, the name of its job, and that of the page's.
    example: &'static str,
    job: &'static str,
    original: (&'static str, &'static str),
    namespace: &'static str,
}

const ALL_REDUCE: Tutorial = Tutorial {
    section: "DLRover: all-reduce",
    example: "examples/torch-mnist/dlrover.yaml",
    job: "torch-mnist",
    original: ("examples/dlrover/torch-mnist.yaml", "torch-mnist"),
    namespace: "dlrover",
};

const TORCHELASTIC: Tutorial = Tutorial {
    section: "TorchElastic",
    example: "examples/torch-mnist/torchelastic.yaml",
    job: "digits",
    original: ("examples/torchelastic/imagenet.yaml", "imagenet"),
    namespace: "elastic-job",
};

/// A cluster in the background, ended with this.
struct TutorialCluster {
    workspace: Workspace,
}

impl TutorialCluster {
    /// A cluster with the examples, whose programs wait.
    fn up(tutorial: &Tutorial) -> Self {
        let workspace = Workspace::new();
        let folder: &Folder = &workspace.folder;
        let manifest = fs::read_to_string(root().join(tutorial.example)).unwrap();
        let command = manifest.lines().find(|line| line.trim_start().starts_with("command:")).unwrap();
        let indent = command.len() - command.trim_start().len();
        let waits = format!("{}command: [sleep, \"600\"]", " ".repeat(indent));
        let lines = manifest.lines().filter(|line| !line.trim_start().starts_with("args:"));
        let manifest: Vec<&str> = lines.map(|line| if line == command { &*waits } else { line }).collect();
        fs::write(folder.path().join("job.yaml"), manifest.join("\n")).unwrap();
        let this = Self { workspace };
        this.says(&["local", "up"]);
        this
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = server(words);
        command.args(["--state-dir", "home"]).current_dir(self.workspace.folder.path());
        command
    }

    fn says(&self, words: &[&str]) -> String {
        let ran: ProgramOutput = self.command(words).output().unwrap().into();
        assert_eq!(ran.code, 0, "{words:?}: {}{}", ran.stdout, ran.stderr);
        ran.stdout
    }
}

impl Drop for TutorialCluster {
    fn drop(&mut self) {
        let _ = self.command(&["local", "down", "--now"]).output();
    }
}

impl Tutorial {
    fn follow(&self) {
        let cluster = TutorialCluster::up(self);
        let sections = sections();
        let section = sections.iter().find(|section| section.title == self.section).unwrap();
        let names_other = |row: &Row| {
            let words = row.commands.iter().flat_map(|command| command.split(' '));
            words.filter(|word| word.starts_with("examples/")).any(|word| word != self.original.0)
        };
        // On a laptop there is no controller to list, and one example represents all.
        let rows = section.rows.iter().filter(|row| row.step != "controller is ready" && !names_other(row));
        let mut steps = 0;
        for row in rows {
            self.step(&cluster, row);
            steps += 1;
        }
        assert!(steps >= 4, "{steps} steps of {}", self.section);
        let message = cluster.says(&["describe", "elasticjob", self.job, "-n", self.namespace]);
        for expected in [self.job, "Running", "Events:"] {
            assert!(message.contains(expected), "{expected} in {message}");
        }
    }

    fn step(&self, cluster: &TutorialCluster, row: &Row) {
        let (looks, acts) = row.commands.split_last().unwrap();
        for act in acts {
            cluster.says(&self.words(act));
        }
        if row.lists.iter().all(|entry| entry.ends_with(" created")) {
            let printed = cluster.says(&self.words(looks));
            assert_eq!(printed.trim(), self.here(&row.lists[0]), "{}", row.step);
            return;
        }
        if row.passing {
            cluster.says(&self.words(looks));
            return;
        }
        let wanted: Vec<String> = row.lists.iter().flat_map(|entry| self.expanded(entry)).collect();
        let look = || {
            let printed = cluster.says(&self.words(looks));
            let lines: Vec<String> = printed.lines().map(|line| self.shown(line, &wanted)).collect();
            let listed = |line: &String| wanted.iter().any(|entry| stands_for(entry, line));
            let lines: Vec<String> = lines.into_iter().filter(|line| !line.is_empty()).collect();
            (lines.len() == wanted.len() && lines.iter().all(listed)).then_some(())
        };
        let explain = || format!("{wanted:?}, but is\n{}", cluster.says(&["get", "pods", "-A"]));
        eventually_or_explain(&format!("{}: {}", self.section, row.step), look, explain);
    }

    /// A command of the page, in its local form.
    fn words<'a>(&'a self, command: &'a str) -> Vec<&'a str> {
        let words = command.strip_prefix("kubectl ").unwrap().split(' ');
        let in_place = |word: &'a str| match word {
            _ if word == self.original.0 => "job.yaml",
            _ if word == self.original.1 => self.job,
            _ => word,
        };
        let mut words: Vec<&str> = words.map(in_place).collect();
        if !words.contains(&"-n") {
            words.extend(["-n", self.namespace]);
        }
        words
    }

    fn here(&self, text: &str) -> String {
        text.replace(self.original.1, self.job)
    }

    /// The entries that a pattern represents, without the controller.
    fn expanded(&self, entry: &str) -> Vec<String> {
        if entry.starts_with("elastic-job-k8s-controller") {
            return Vec::new();
        }
        expanded(&self.here(entry))
    }

    /// A line for comparison: of a running pod only the name, of a job everything but the differences of the example.
    fn shown(&self, line: &str, wanted: &[String]) -> String {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_table = wanted.first().is_some_and(|entry| entry.starts_with("NAME "));
        match words.as_slice() {
            // The page's job has two workers at most, the example three.
            [name, desired, min, "3", rest @ ..] if is_table => format!("{name} {desired} {min} 2 {}", rest.join(" ")),
            _ if is_table => line.to_owned(),
            ["NAME", ..] => String::new(),
            [name, _, "Running", ..] => (*name).to_owned(),
            [name, _, status, ..] => format!("{name} {status}"),
            _ => line.to_owned(),
        }
    }
}

#[test]
fn dlrover_all_reduce() {
    ALL_REDUCE.follow();
}

#[test]
fn torchelastic() {
    TORCHELASTIC.follow();
}
