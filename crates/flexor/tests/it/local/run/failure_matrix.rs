//! The matrix of failures: a program fails in each of six ways, under one launcher, and the cause is read where users
//! look: in the last line of `flexor run`, in `describe`, and in the status.

use std::fs;

use regex::Regex;
use serde_json::{Value, json};

use super::super::launch::launcher::Launcher;
use super::cluster::Workspace;

/// A way to fail, and the script that does.
const FAILURES: [(&str, &str); 5] = [
    (
        "exception",
        "def load(part):\n    raise ValueError(f'no labels in part {part}')\n\ndef main():\n    load(7)\n\nmain()\n",
    ),
    ("exit-code", "import sys\n\nsys.exit(3)\n"),
    ("signal", "import os, signal\n\nos.kill(os.getpid(), signal.SIGSEGV)\n"),
    ("oom", "kept = []\nwhile True:\n    kept.append(bytearray(b'x' * (16 << 20)))\n"),
    ("import", "import no_such_module\n"),
];
/// The job that keeps the run going while the others are read.
const HOLDS: &str = "holds";

/// A launcher, and the command with which it runs a program.
pub struct MatrixRow<'a> {
    pub name: &'a str,
    /// The words before a script.
    pub script: &'a [&'a str],
    /// The command that runs a program that does not exist.
    pub missing: &'a [&'a str],
    /// The memory limit of the job that needs more.
    pub memory: &'a str,
}

impl MatrixRow<'_> {
    /// Writes the manifests and programs. Returns the names of the jobs, the manifests being theirs.
    fn write(&self, workspace: &Workspace) -> Vec<String> {
        let mut jobs = Vec::new();
        let mut add = |failure: &str, command: Vec<&str>| {
            let name = format!("{}-{failure}", self.name);
            let limits = if failure == "oom" { json!({ "memory": self.memory }) } else { json!({}) };
            workspace.manifest(&job(&name, &command, &limits));
            jobs.push(name);
        };
        for (failure, script) in FAILURES {
            let file = format!("fails-{failure}.py");
            fs::write(workspace.folder.path().join(&file), script).unwrap();
            add(failure, self.script.iter().copied().chain([file.as_str()]).collect());
        }
        add("missing", self.missing.to_vec());
        workspace.manifest(&job(HOLDS, &["sh", "-c", "until [ -e done ]; do sleep 0.05; done"], &json!({})));
        jobs
    }

    /// Runs all jobs of the row to their ends. `start` starts `flexor run` with these manifests.
    pub fn play(&self, workspace: &Workspace, start: impl FnOnce(&[&str]) -> Launcher) -> String {
        let jobs = self.write(workspace);
        let manifests: Vec<String> = jobs.iter().map(String::as_str).chain([HOLDS]).map(manifest).collect();
        let run = start(&manifests.iter().map(String::as_str).collect::<Vec<_>>());
        run.await_or_explain("the end of all but one", || {
            // The cluster may not serve yet.
            let list = workspace.asks(&["get", "jobs", "-o", "json"]).unwrap_or_default();
            let list: Value = serde_json::from_str(&list).unwrap_or_default();
            let has_failed = |job: &&Value| job["status"]["phase"] == "Failed";
            list["items"].as_array().is_some_and(|all| all.iter().filter(has_failed).count() == jobs.len())
        });
        let status = |job: &str| -> Value {
            let object: Value = serde_json::from_str(&workspace.says(&["get", "job", job, "-o", "json"])).unwrap();
            object["status"].clone()
        };
        let read: Vec<(&String, Value, String)> =
            jobs.iter().map(|job| (job, status(job), workspace.says(&["describe", "job", job]))).collect();
        fs::write(workspace.folder.path().join("done"), "").unwrap();
        let ended = run.wait_for(1);
        let mut text = String::new();
        for (job, status, described) in &read {
            let last = ended.stdout.lines().rfind(|line| line.starts_with(&format!("default/{job}: ")));
            let last = last.unwrap_or_else(|| panic!("no last line of {job}: {}", ended.stdout));
            let message = status["message"].as_str().unwrap();
            assert!(last.contains(message), "the last line has the cause of the status: {last}\n{message}");
            let shown = described.lines().find(|line| line.trim_start().starts_with("Message:"));
            let shown = shown.unwrap_or_else(|| panic!("{described}"));
            assert!(shown.contains(message), "so does describe: {shown}\n{message}");
            text.push_str(&format!("{last}\n"));
        }
        masked(&text, workspace)
    }
}

/// The text without what differs between two runs.
fn masked(text: &str, workspace: &Workspace) -> String {
    let folder = fs::canonicalize(workspace.folder.path()).unwrap();
    let text = text.replace(&*folder.to_string_lossy(), "FOLDER");
    let text = text.replace(&*workspace.folder.path().to_string_lossy(), "FOLDER");
    Regex::new(r"pid \d+").unwrap().replace_all(&text, "pid N").into_owned()
}

fn manifest(job: &str) -> String {
    format!("{job}.json")
}

/// A job of one worker that is not retried.
fn job(name: &str, command: &[&str], limits: &Value) -> Value {
    let container = json!({ "name": "main", "image": "any", "command": command, "resources": { "limits": limits } });
    let worker = json!({ "replicas": 1, "restartCount": 0, "template": { "spec": { "containers": [container] } } });
    json!({
        "apiVersion": "elastic.iml.github.io/v1alpha1",
        "kind": "ElasticJob",
        "metadata": { "name": name },
        "spec": {
            "distributionStrategy": "AllreduceStrategy",
            "optimizeMode": "manual",
            "replicaSpecs": { "worker": worker },
        },
    })
}

#[test]
fn a_plain_program_ends_with_its_cause() {
    let workspace = Workspace::new();
    let row = MatrixRow { name: "plain", script: &["python3"], missing: &["no-such-program"], memory: "64Mi" };
    insta::assert_snapshot!(row.play(&workspace, |manifests| workspace.run(manifests)));
}

#[test]
fn a_program_of_our_launcher_ends_with_its_cause() {
    let workspace = Workspace::new();
    let row = MatrixRow {
        name: "launch",
        script: &["flexor", "launch"],
        missing: &["flexor", "launch", "no-such-program"],
        memory: "96Mi",
    };
    insta::assert_snapshot!(row.play(&workspace, |manifests| workspace.run(manifests)));
}

/// Each worker fails in its own way, and one of them because of the other.
#[test]
fn the_first_failure_in_time_is_the_cause_and_not_its_followers() {
    let first = "import pathlib, time\nraise KeyError('the first')\n";
    let second = "import pathlib, time\nwhile not pathlib.Path('failed').exists():\n    time.sleep(0.02)\n\
                  raise RuntimeError('only a follower')\n";
    let workspace = Workspace::new();
    let path = workspace.folder.path();
    fs::write(path.join("first.py"), first).unwrap();
    fs::write(path.join("second.py"), second).unwrap();
    // The first pod ends long after its program has failed, as a launcher does.
    let script = "case $POD_NAME in *-0) python3 first.py; echo > failed; until [ -e followed ]; do sleep 0.02; done; \
                  exit 1;; *) python3 second.py; echo > followed; exit 1;; esac";
    let mut job = job("both", &["sh", "-c", script], &json!({}));
    job["spec"]["replicaSpecs"]["worker"]["replicas"] = 2.into();
    let ended = workspace.run(&[&workspace.manifest(&job)]).wait_for(1);
    let last = ended.stdout.lines().last().unwrap();
    assert!(last.contains("KeyError: 'the first' (at ") && !last.contains("follower"), "{}", ended.stdout);
}

#[test]
fn what_cannot_succeed_is_tried_once() {
    let workspace = Workspace::new();
    let path = workspace.folder.path();
    fs::write(path.join("train.py"), "import argparse\nargparse.ArgumentParser().parse_args()\n").unwrap();
    let scripts = [
        ("no-program", "echo try >> tries; exec no-such-program", "no-such-program: not found"),
        ("no-file", "echo try >> tries; exec python3 no-such-file.py", "can't open file"),
        ("bad-option", "echo try >> tries; exec python3 train.py --bad", "error: unrecognized arguments: --bad"),
        ("not-executable", "echo try >> tries; exec ./train.py", "Permission denied"),
    ];
    let jobs: Vec<String> = scripts
        .iter()
        .map(|(name, script, _)| {
            let mut job = job(name, &["sh", "-c", &script.replace("tries", &format!("tries-{name}"))], &json!({}));
            job["spec"]["replicaSpecs"]["worker"]["restartCount"] = 3.into();
            workspace.manifest(&job)
        })
        .collect();
    let ended = workspace.run(&jobs.iter().map(String::as_str).collect::<Vec<_>>()).wait_for(1);
    for (name, _, message) in scripts {
        let last = ended.stdout.lines().rfind(|line| line.starts_with(&format!("default/{name}: Failed"))).unwrap();
        assert!(last.contains(message) && last.contains("trying again would change nothing"), "{last}");
        assert!(last.ends_with("pods started again: 0"), "{last}");
        assert_eq!(workspace.folder.lines(&format!("tries-{name}")).len(), 1, "{last}");
    }
}
