//! Tests evaluation on other data during training, and predictions with the trained model.

use std::fs;
use std::process::Command;

use serde_json::Value;

use super::cluster::Workspace;
use super::quickstart::{FinishedRun, Quickstart};
use crate::local::faults::process::server;
use crate::program::{ProgramOutput, bin};

const OFTEN: Quickstart<'_> = Quickstart {
    records: 160_000,
    batch: 64,
    servers: 2,
    workers: 2,
    replication_factor: 1,
    checkpoints: None,
    words: ", --evaluate-every=20000",
};

/// The evaluations that workers have printed.
fn evaluations(workspace: &Workspace) -> Vec<String> {
    let logs = ["chief-0", "worker-0"].map(|name| format!("report/logs/quickstart-edljob-{name}"));
    let folders = logs.iter().map(|folder| workspace.folder.path().join(folder));
    let files = folders.flat_map(|folder| fs::read_dir(folder).unwrap()).map(|file| file.unwrap().path());
    let texts: Vec<String> = files.map(|file| fs::read_to_string(file).unwrap()).collect();
    let lines = texts.iter().flat_map(|text| text.lines()).filter(|line| line.starts_with("evaluation after "));
    lines.map(str::to_owned).collect()
}

fn predict(workspace: &Workspace, words: &[&str]) -> ProgramOutput {
    server(words).current_dir(workspace.folder.path()).output().unwrap().into()
}

fn count(finished: &FinishedRun, name: &str) -> u64 {
    finished.job["evaluations"][name].as_u64().unwrap_or_else(|| panic!("no {name} in {}", finished.job))
}

#[test]
fn a_model_is_measured_while_it_is_trained() {
    let workspace = Workspace::new();
    let finished = OFTEN.finish(&workspace);
    OFTEN.assert_all_is_well(&finished);
    let (done, evaluations_shown) = (count(&finished, "done"), evaluations(&workspace));
    assert!(done >= 1 && count(&finished, "skipped") == 0, "{}", finished.job["evaluations"]);
    assert_eq!(evaluations_shown.len() as u64, done, "{evaluations_shown:#?}");
    for line in &evaluations_shown {
        // The number of records depends on the machine; the model has learnt something after the first of them.
        let auc: f64 = line.split("AUC ").nth(1).unwrap().split(',').next().unwrap().parse().unwrap();
        assert!(line.contains(": 20000 records, loss ") && auc > 0.55 && auc < finished.best + 0.02, "{line}");
    }
    assert!(finished.stdout.contains("\n  evaluated       "), "{}", finished.stdout);
    let training = fs::read_to_string(workspace.folder.path().join("report/training.csv")).unwrap();
    assert!(training.lines().next().unwrap().ends_with(",test_loss,test_auc,test_accuracy"), "{training}");
}

/// Whether a checkpoint exists in time depends on the machine; the output covers both cases.
#[test]
fn without_evaluation_memory_a_checkpoint_is_evaluated_or_the_evaluation_is_skipped() {
    let workspace = Workspace::new();
    let checkpoints = Some("{folder: checkpoints, everySeconds: 1}");
    let quickstart = Quickstart { checkpoints, words: ", --evaluate-every=20000, --evaluation-memory=1", ..OFTEN };
    let finished = quickstart.finish(&workspace);
    quickstart.assert_all_is_well(&finished);
    let evaluations_shown = evaluations(&workspace);
    // A snapshot that may preserve nothing is of use as long as nobody trains: while both workers evaluate, and at the end.
    let training_went_on = |line: &String| {
        line.contains("skipped: training changed more of the model than the 1 bytes")
            || line.contains(" on checkpoint ")
    };
    assert!(evaluations_shown.iter().any(training_went_on), "{evaluations_shown:#?}");
}

#[test]
fn predictions_from_the_last_checkpoint_equal_those_of_the_model() {
    let workspace = Workspace::new();
    let checkpoints = Some("{folder: checkpoints, everySeconds: 60}");
    let quickstart = Quickstart { records: 60_000, checkpoints, words: "", ..OFTEN };
    let finished = quickstart.finish(&workspace);
    let words = ["predict", "--model=deepfm", "--checkpoints=checkpoints", "--data=quickstart-test.csv"];
    let ran = predict(&workspace, &[&words[..], &["--out=predicted.csv", "-o", "json"]].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let evaluations_shown: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(evaluations_shown["records"], 20_000);
    assert!(
        (evaluations_shown["auc"].as_f64().unwrap() - finished.auc()).abs() < 1e-9,
        "{evaluations_shown}, {}",
        finished.auc()
    );

    let predicted = fs::read_to_string(workspace.folder.path().join("predicted.csv")).unwrap();
    let mut lines = predicted.lines();
    assert_eq!(lines.next(), Some("record,label,probability"));
    assert_eq!(lines.clone().count(), 20_000);
    let numbers = lines.map(|line| line.split(',').map(|field| field.parse::<f64>().unwrap()).collect::<Vec<_>>());
    for (number, fields) in numbers.enumerate() {
        assert!(fields[0] == number as f64 && (0.0..=1.0).contains(&fields[2]), "{fields:?}");
    }

    // Standard output holds only the predictions; their quality goes to standard error.
    let piped = predict(&workspace, &[&words[..], &["--out=-", "-o", "json"]].concat());
    assert_eq!((piped.code, &piped.stdout), (0, &predicted), "{}", piped.stderr);
    assert_eq!(serde_json::from_str::<Value>(&piped.stderr).unwrap(), evaluations_shown);
    // A reader may close the pipe early.
    let script = format!("\"$0\" {} --out=- | head -n 2; echo ${{PIPESTATUS[0]}}", words.join(" "));
    let mut shell = Command::new("bash");
    shell.args(["-c", &script]).arg(bin()).current_dir(workspace.folder.path());
    let head: ProgramOutput = shell.output().unwrap().into();
    assert_eq!((head.stdout.lines().last(), head.stderr.as_str()), (Some("0"), ""), "{}", head.stdout);

    // An invalid record has no line, by option, and all others keep their numbers.
    let records = fs::read_to_string(workspace.folder.path().join("quickstart-test.csv")).unwrap();
    let mut broken: Vec<&str> = records.lines().collect();
    broken[8] = "what,is,this";
    fs::write(workspace.folder.path().join("broken.csv"), broken.join("\n")).unwrap();
    let words_broken = ["predict", "--model=deepfm", "--checkpoints=checkpoints", "--data=broken.csv", "--out=-"];
    let refused = predict(&workspace, &words_broken);
    assert!(refused.code == 1 && refused.stderr.contains("broken.csv: record 7, "), "{}", refused.stderr);
    let skipped = predict(&workspace, &[&words_broken[..], &["--damaged=skip"]].concat());
    assert_eq!(skipped.code, 0, "{}", skipped.stderr);
    assert!(skipped.stderr.contains(", 1 more skipped"), "{}", skipped.stderr);
    assert!(skipped.stderr.contains("broken.csv: record 7, "), "{}", skipped.stderr);
    let without: Vec<&str> = predicted.lines().filter(|line| !line.starts_with("7,")).collect();
    assert_eq!(skipped.stdout.lines().collect::<Vec<_>>(), without);

    // A model of another shape is refused, and the earlier output stays.
    let other = ["predict", "--model=deepfm:dim=4", "--checkpoints=checkpoints", "--data=quickstart-test.csv"];
    let refused = predict(&workspace, &[&other[..], &["--out=predicted.csv"]].concat());
    assert!(refused.code == 1 && refused.stderr.contains("belongs to another model: it has "), "{}", refused.stderr);
    assert_eq!(fs::read_to_string(workspace.folder.path().join("predicted.csv")).unwrap(), predicted);
}
