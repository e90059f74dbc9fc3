//! A laptop cluster for tests: `flexor run` in a folder of its own, and the commands against it.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use regex::{Captures, Regex};
use serde_json::Value;

use super::super::faults::deadline::eventually_or_explain;
use super::super::faults::process::server;
use super::super::launch::folder::{Folder, WAIT};
use super::super::launch::launcher::Launcher;
use crate::program::ProgramOutput;

/// A DLRover job of two workers that print their identity and wait.
pub fn dlrover(name: &str) -> String {
    format!(
        r#"
apiVersion: elastic.iml.github.io/v1alpha1
kind: ElasticJob
metadata:
  name: {name}
spec:
  distributionStrategy: AllreduceStrategy
  optimizeMode: manual
  replicaSpecs:
    worker:
      replicas: 2
      template:
        spec:
          containers:
            - name: main
              image: none
              command: [sh, -c, 'echo I am $POD_NAME; {WAIT}']
"#
    )
}

/// A TorchElastic job of two workers that print lines and wait, in its own namespace.
pub fn torchelastic(name: &str) -> String {
    format!(
        r#"
apiVersion: elastic.pytorch.org/v1alpha1
kind: ElasticJob
metadata:
  name: {name}
  namespace: elastic-job
spec:
  minReplicas: 1
  maxReplicas: 3
  replicaSpecs:
    Worker:
      replicas: 2
      template:
        spec:
          containers:
            - name: elasticjob-worker
              image: none
              command: [sh, -c, 'for n in 1 2 3; do echo line $n; done; {WAIT}; echo the end']
"#
    )
}

/// A running cluster. Dropping it ends the cluster and all its pods.
pub struct Laptop {
    pub run: Launcher,
    pub folder: Folder,
}

impl Laptop {
    /// A cluster with these manifests, whose pods all run.
    pub fn with(manifests: &[String]) -> Self {
        let laptop = Self::begin(manifests);
        // Each has a master.
        laptop.await_running(3 * manifests.len());
        laptop
    }

    /// One that runs these manifests, whatever becomes of their pods.
    pub fn begin(manifests: &[String]) -> Self {
        let folder = Folder::new();
        fs::write(folder.path().join("jobs.yaml"), manifests.join("---")).unwrap();
        let mut command = server(&["run", "--ephemeral", "--state-dir", "home", "jobs.yaml"]);
        let run = Launcher::start(command.current_dir(folder.path()));
        Self { run, folder }
    }

    /// Waits until this many pods run and none is terminating.
    pub fn await_running(&self, count: usize) {
        self.eventually(&format!("{count} running pods"), || {
            let pods = self.try_json(&["get", "pods", "-A"])?;
            let pods = pods["items"].as_array()?.clone();
            let runs = |pod: &Value| {
                pod["status"]["phase"] == "Running"
                    && pod["metadata"]["deletionTimestamp"].is_null()
                    && pod["status"]["containerStatuses"].as_array().unwrap().iter().all(|one| one["ready"] == true)
            };
            (pods.len() == count && pods.iter().all(runs)).then_some(())
        });
    }

    pub fn state_dir(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = server(words);
        command.arg("--state-dir").arg(self.state_dir()).current_dir(self.folder.path());
        command
    }

    /// Runs a verb to its end.
    pub fn flexor(&self, words: &[&str]) -> ProgramOutput {
        self.command(words).output().unwrap().into()
    }

    /// The output of a command, which must succeed.
    pub fn says(&self, words: &[&str]) -> String {
        let ran = self.flexor(words);
        assert_eq!(ran.code, 0, "{words:?}: {}", ran.stderr);
        ran.stdout
    }

    /// The same with placeholders for everything that differs between runs.
    pub fn shows(&self, words: &[&str]) -> String {
        redacted(&self.says(words))
    }

    /// The output of a command as JSON.
    pub fn json(&self, words: &[&str]) -> Value {
        let words: Vec<&str> = words.iter().copied().chain(["-o", "json"]).collect();
        serde_json::from_str(&self.says(&words)).unwrap()
    }

    fn try_json(&self, words: &[&str]) -> Option<Value> {
        let words: Vec<&str> = words.iter().copied().chain(["-o", "json"]).collect();
        let ran = self.flexor(&words);
        if ran.code == 0 { serde_json::from_str(&ran.stdout).ok() } else { None }
    }

    /// The unique id of a pod that runs.
    pub fn uid_of_running(&self, pod: &str) -> Option<String> {
        let pod = self.try_json(&["get", "pod", pod])?;
        let runs = pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null();
        runs.then(|| pod["metadata"]["uid"].as_str().unwrap().to_owned())
    }

    pub fn eventually<T>(&self, what: &str, look: impl FnMut() -> Option<T>) -> T {
        eventually_or_explain(what, look, || {
            let pods = self.flexor(&["get", "pods", "-A"]);
            format!("{}{}\n{}\n{}", pods.stdout, pods.stderr, self.run.stdout(), self.run.stderr())
        })
    }
}

/// A text without times, ages, unique ids, processes and paths of this machine. Columns keep their widths.
pub fn redacted(text: &str) -> String {
    let mut text = text.to_owned();
    for (found, put) in [
        (r"(?m)/\S+/flexor$", "FLEXOR"),
        (r"/\S+/(pods|tokens)/", "STATE/$1/"),
        (r"\d{4}-\d\d-\d\dT[\d:]+Z", "TIME"),
        (r"\b[0-9a-f]{16,32}\b", "UID"),
        // Ports that were free when a master took them.
        (r"\b(127\.\d+\.\d+\.\d+):[3-6]\d{4}\b", "$1:PORT"),
        (r"(Process:\s+|\bpid: |\bprocess )\d+", "${1}PID"),
    ] {
        text = Regex::new(found).unwrap().replace_all(&text, put).into_owned();
    }
    let age = |found: &Captures<'_>| {
        let width = if found[2].is_empty() { 0 } else { found[0].len() };
        format!("{:<width$}", "0s")
    };
    Regex::new(r"\b((?:\d+m)?\d+s\b)( {2,}|)").unwrap().replace_all(&text, age).into_owned()
}
