//! Tests the causes of failures under stock torchrun: in the last line, in `describe` and in the status.

use std::env;
use std::fs;

use flexor_testbed::{Torch, torch_or_skip};
use serde_json::json;

use super::job::DEADLINE;
use crate::local::launch::launcher::Launcher;
use crate::local::run::cluster::{Workspace, job_with};
use crate::local::run::failure_matrix::MatrixRow;

/// `flexor run` with torchrun in its PATH.
fn run(torch: &Torch, workspace: &Workspace, manifests: &[&str]) -> Launcher {
    let path = format!("{}:{}", torch.python().parent().unwrap().display(), env::var("PATH").unwrap());
    Launcher::start(workspace.command(manifests).arg("--ephemeral").env("PATH", path)).patient(DEADLINE)
}

#[test]
fn a_program_of_stock_torchrun_ends_with_its_cause() {
    let torch = torch_or_skip!();
    let workspace = Workspace::new();
    let row = MatrixRow {
        name: "torchrun",
        script: &["torchrun"],
        missing: &["torchrun", "--no-python", "no-such-program"],
        // torchrun itself needs a few hundred.
        memory: "1Gi",
    };
    insta::assert_snapshot!(row.play(&workspace, |manifests| run(&torch, &workspace, manifests)));
}

/// The second node fails because the first one has failed, and prints its exception later.
#[test]
fn the_first_failure_of_two_torchruns_is_the_cause() {
    let torch = torch_or_skip!();
    let workspace = Workspace::new();
    let script = "import os, pathlib, time\n\
                  failed = pathlib.Path('failed-' + os.environ['TORCHELASTIC_RESTART_COUNT'])\n\
                  if os.environ['RANK'] == '0':\n    failed.touch()\n    raise KeyError('the first')\n\
                  while not failed.exists():\n    time.sleep(0.01)\n\
                  time.sleep(0.05)\nraise RuntimeError('only a follower')\n";
    fs::write(workspace.folder.path().join("train.py"), script).unwrap();
    let container = json!({ "name": "elasticjob-worker", "command": ["torchrun", "train.py"] });
    let mut job = job_with("both", 2, &container);
    job["spec"]["minReplicas"] = 2.into();
    job["spec"]["maxReplicas"] = 2.into();
    let ended = run(&torch, &workspace, &[&workspace.manifest(&job)]).wait_for(1);
    let last = ended.stdout.lines().last().unwrap();
    assert!(last.contains("KeyError: 'the first' (at ") && last.contains("train.py:5"), "{}", ended.stdout);
}
