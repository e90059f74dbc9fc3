//! Tests `flexor run --report` for successful, failed and interrupted jobs: the numbers agree with each other and with
//! the events.

use std::fs;

use nix::sys::signal::{Signal, kill};
use serde_json::{Value, json};

use super::super::data::report::WrittenRecords;
use super::cluster::{Workspace, job_of};
use super::endings::ANY_PROGRAM;

fn read(workspace: &Workspace, name: &str) -> String {
    let path = workspace.folder.path().join("report").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn document(workspace: &Workspace) -> Value {
    serde_json::from_str(&read(workspace, "report.json")).unwrap()
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().unwrap_or_else(|| panic!("no list {name} in {value}"))
}

#[test]
fn the_numbers_of_a_run_with_a_kill_agree() {
    let workspace = Workspace::new();
    let run = workspace.run(&[ANY_PROGRAM, "--report", "report"]);
    workspace.await_records(200);
    let victim = workspace.await_running("any-program-worker-0");
    kill(victim.main_id().unwrap(), Signal::SIGKILL).unwrap();
    let ended = run.wait_for(0);
    let report = document(&workspace);
    let job = &report["jobs"][0];

    assert_eq!((&job["outcome"], &job["relaunches"]), (&json!("Succeeded"), &json!(1)), "{job}");
    assert_eq!(job["startedAgain"], json!([{ "reason": "ProgramKilled", "count": 1 }]));
    assert!(ended.stdout.contains("started again   1 killed\n"), "{}", ended.stdout);

    let records = &job["records"];
    assert_eq!(
        (&records["expected"], &records["accounted"], &records["lost"]),
        (&json!(1000), &json!(1000), &json!(0))
    );
    let written = WrittenRecords::read(&workspace.folder);
    assert_eq!(written.records(), 1000);
    let repeats = written.repeats();
    assert!(repeats <= records["recomputed"].as_u64().unwrap(), "{repeats} were seen, {records}");

    let seconds = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{value} is no time"));
    let time = &job["time"];
    let split: f64 = ["training", "waiting", "recovering"].iter().map(|part| seconds(&time[*part])).sum();
    assert!((split - seconds(&job["seconds"])).abs() < 0.05, "{time} of {}", job["seconds"]);
    let over = seconds(&job["createdAt"]) + seconds(&job["seconds"]);
    let spans = list(job, "timeline");
    let of = |activity: &str| -> f64 {
        let spans = spans.iter().filter(|span| span["activity"] == activity);
        // A job is over a moment before that is seen.
        spans.map(|span| seconds(&span["to"]).min(over) - seconds(&span["from"]).min(over)).sum()
    };
    for (part, activity) in [("training", "Training"), ("waiting", "Waiting"), ("recovering", "Recovering")] {
        assert!((of(activity) - seconds(&time[part])).abs() < 0.01, "{part}: {} of {time}", of(activity));
    }

    let lives: Vec<&Value> =
        list(&report, "pods").iter().filter(|life| life["pod"] == "any-program-worker-0").collect();
    let [first, second] = lives[..] else { panic!("two incarnations: {lives:?}") };
    assert_eq!(
        (&first["phase"], &first["exitCode"], &first["uid"]),
        (&json!("Failed"), &json!(137), &json!(victim.status.uid))
    );
    assert_eq!((&second["phase"], &second["exitCode"]), (&json!("Succeeded"), &json!(0)));
    assert!(seconds(&first["endedAt"]) <= seconds(&second["createdAt"]), "{lives:?}");

    // A heading, and a line for each; no name or reason has a line break in it.
    for (table, count) in [
        ("pods.csv", list(&report, "pods").len()),
        ("events.csv", list(&report, "events").len()),
        ("world.csv", spans.len()),
        ("training.csv", list(job, "training").len()),
    ] {
        assert_eq!(read(&workspace, table).lines().count(), count + 1, "{table}");
    }
    let numbers: Vec<u64> = list(&report, "events").iter().map(|event| event["number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>(), "no event is missing");
    let picture = read(&workspace, "timeline.svg");
    assert_eq!(picture.matches("any-program-worker-0 runs from").count(), 4, "two incarnations, each with its end");
    assert!(
        read(&workspace, "logs/any-program-master/master.log").contains("master of job any-program"),
        "the logs are kept"
    );
}

#[test]
fn a_job_that_fails_has_a_report_too() {
    let workspace = Workspace::new();
    let job = workspace.manifest(&job_of("fails", 1, "echo life >> lives; echo 'cannot open the data' >&2; exit 3"));
    let ended = workspace.run(&[&job, "--report", "report"]).wait_for(1);
    let report = document(&workspace);
    assert_eq!(report["jobs"][0]["outcome"], "Failed");
    assert_eq!(report["jobs"][0]["startedAgain"], json!([{ "reason": "ProgramError", "count": 3 }]));
    assert!(ended.stdout.contains("started again   3 program failed\n"), "{}", ended.stdout);
    assert!(read(&workspace, "logs/fails-worker-0/elasticjob-worker.log").contains("cannot open the data"));
}

#[test]
fn an_interrupted_run_has_a_report_too() {
    let workspace = Workspace::new();
    let job = workspace.manifest(&job_of("endless", 2, "echo begun >> begins; exec sleep 300"));
    let run = workspace.run(&[&job, "--report", "report/of/today"]);
    workspace.folder.await_lines("begins", 2);
    run.signal(Signal::SIGINT);
    let ended = run.wait_for(130);
    assert!(ended.stdout.contains("default/endless: Interrupted"), "{}", ended.stdout);
    let text = fs::read_to_string(workspace.folder.path().join("report/of/today/report.json")).unwrap();
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["jobs"][0]["outcome"], "Interrupted");
    assert_eq!(list(&report, "pods").len(), 3);
    workspace.assert_nothing_is_left_of(&[]);
}

#[test]
fn a_folder_that_cannot_be_written_is_refused_before_anything_starts() {
    let workspace = Workspace::new();
    let job = workspace.manifest(&job_of("never", 1, "touch never"));
    let ended = workspace.run(&[&job, "--report", "/proc/report"]).wait_for(1);
    let message = "error: --report /proc/report: it cannot be written there; name another folder";
    assert!(ended.stderr.starts_with(message), "{}", ended.stderr);
    assert!(!workspace.folder.path().join("never").exists() && !workspace.state_dir().path().exists());
}
