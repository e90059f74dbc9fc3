//! Tests plans on jobs with parameter servers: the tutorial of `docs/tutorials/listings.md` and server migrations.
//!
//! The tests use `flexor` in place of `kubectl`, with real processes. They compare process ids to show that a plan does
//! not disturb other pods.

mod tutorial;

use std::collections::BTreeMap;

use nix::sys::signal::Signal;
use serde_json::Value;

use super::super::faults::deadline::eventually_or_explain;
use super::super::faults::process::server;
use super::super::launch::launcher::Launcher;
use super::cluster::Workspace;
use crate::program::ProgramOutput;

const JOB: &str = "deepctr-manual-scaling";
const SERVER: &str = "deepctr-manual-scaling-edljob-ps-0";

/// A job of one server and two workers that train, and the `flexor run` that runs it.
fn training(workspace: &Workspace, options: &[&str]) -> Launcher {
    let run = workspace.run(&[&["examples/deepctr/manual-scaling.yaml"], options].concat());
    workspace.await_running(&format!("{JOB}-edljob-chief-0"));
    run
}

/// The output of a command in the namespace of the examples.
fn ask(workspace: &Workspace, words: &[&str]) -> ProgramOutput {
    let mut command = server(words);
    command.args(["-n", "dlrover", "--state-dir", "home"]).current_dir(workspace.folder.path()).output().unwrap().into()
}

fn json(workspace: &Workspace, words: &[&str]) -> Value {
    let printed = workspace.says(&[words, &["-n", "dlrover", "-o", "json"]].concat());
    serde_json::from_str(&printed).unwrap()
}

/// The main processes of all pods that run, by the names of the pods.
fn processes(workspace: &Workspace) -> BTreeMap<String, i32> {
    workspace.pods().into_iter().filter_map(|pod| Some((pod.name.clone(), pod.main_id()?.as_raw()))).collect()
}

/// Waits until a plan is in a phase, or waits for a reason. The plan.
fn await_plan(workspace: &Workspace, plan: &str, field: &str, wanted: &str) -> Value {
    let look = || Some(json(workspace, &["get", "scaleplan", plan])).filter(|plan| plan["status"][field] == wanted);
    let explain = || workspace.says(&["why", JOB, "-n", "dlrover"]);
    eventually_or_explain(&format!("{plan} to be {wanted}"), look, explain)
}

#[test]
fn a_server_and_a_worker_migrate_while_the_others_train_on() {
    let workspace = Workspace::new();
    let run = training(&workspace, &[]);
    workspace.says(&["scale", JOB, "--worker", "2", "-n", "dlrover"]);
    await_plan(&workspace, &format!("{JOB}-scale-0"), "phase", "Succeeded");
    let chief = workspace.await_running(&format!("{JOB}-edljob-chief-0"));
    run.await_or_explain("the first steps", || workspace.log(&chief).contains("step "));
    let before = processes(&workspace);

    let text = workspace.says(&["migrate", JOB, "ps-0", "--cpu", "500m", "--memory", "2Gi", "-n", "dlrover"]);
    assert_eq!(text, format!("pod/{SERVER} migrates by scaleplan.elastic.iml.github.io/{JOB}-migrate-0\n"));
    await_plan(&workspace, &format!("{JOB}-migrate-0"), "phase", "Succeeded");
    let plan = json(&workspace, &["migrate", JOB, &format!("{JOB}-edljob-worker-0")]);
    assert_eq!(plan["spec"]["migratePods"][0]["name"], format!("{JOB}-edljob-worker-0"));
    await_plan(&workspace, &format!("{JOB}-migrate-1"), "phase", "Succeeded");

    let after = processes(&workspace);
    let gone: Vec<&String> = before.keys().filter(|name| !after.contains_key(*name)).collect();
    assert_eq!(gone, [&format!("{JOB}-edljob-ps-0"), &format!("{JOB}-edljob-worker-0")]);
    let come: Vec<&String> = after.keys().filter(|name| !before.contains_key(*name)).collect();
    assert_eq!(come, [&format!("{JOB}-edljob-ps-1"), &format!("{JOB}-edljob-worker-2")]);
    assert!(before.iter().all(|(name, id)| gone.contains(&name) || after[name] == *id), "{before:?} {after:?}");

    let asked = json(&workspace, &["get", "pod", &format!("{JOB}-edljob-ps-1")]);
    let asked = &asked["spec"]["containers"][0]["resources"];
    assert_eq!((&asked["requests"]["cpu"], &asked["limits"]["memory"]), (&"500m".into(), &"2Gi".into()));
    let far = workspace.log(&chief).len();
    run.await_or_explain("training to go on", || workspace.log(&chief).len() > far);
    let text = workspace.says(&["events", "-n", "dlrover"]);
    assert!(!text.contains("ServerLost") && !text.contains("PartitionsRestored"), "{text}");
}

#[test]
fn a_run_killed_during_a_server_migration_can_be_resumed() {
    let workspace = Workspace::new();
    let run = workspace.run_for_good(&["examples/deepctr/manual-scaling.yaml"]);
    workspace.await_running(&format!("{JOB}-edljob-chief-0"));
    let before = processes(&workspace);
    workspace.says(&["migrate", JOB, "ps-0", "--cpu", "500m", "-n", "dlrover"]);
    workspace.await_running(&format!("{JOB}-edljob-ps-1"));
    run.signal(Signal::SIGKILL);
    assert_eq!(run.wait().code, None);
    let run = workspace.run(&["--resume"]);
    run.await_or_explain("the server to be gone", || !processes(&workspace).contains_key(SERVER));
    await_plan(&workspace, &format!("{JOB}-migrate-0"), "phase", "Succeeded");
    let after = processes(&workspace);
    let others: BTreeMap<&String, &i32> = before.iter().filter(|(name, _)| *name != SERVER).collect();
    assert!(others.iter().all(|(name, id)| after.get(*name) == Some(id)), "{before:?} {after:?}");
    assert_eq!(after.len(), before.len());
}

#[test]
fn an_unschedulable_successor_is_reported_and_the_server_stays() {
    let workspace = Workspace::new();
    let _run = training(&workspace, &["--cpus", "1"]);
    let before = processes(&workspace);
    workspace.says(&["migrate", JOB, "ps-0", "--cpu", "8", "-n", "dlrover"]);
    let plan = await_plan(&workspace, &format!("{JOB}-migrate-0"), "reason", "Unschedulable");
    let message = plan["status"]["message"].as_str().unwrap();
    assert!(message.contains(SERVER) && message.contains("it asks for 8 CPUs"), "{message}");
    // Others need not wait for it.
    workspace.says(&["scale", JOB, "--worker", "1", "-n", "dlrover"]);
    await_plan(&workspace, &format!("{JOB}-scale-0"), "phase", "Succeeded");
    // A repeated request does not help: the latest one counts.
    workspace.says(&["migrate", JOB, "ps-0", "--cpu", "16", "-n", "dlrover"]);
    let first = await_plan(&workspace, &format!("{JOB}-migrate-0"), "phase", "Failed");
    assert_eq!(first["status"]["reason"], "PlanSuperseded");
    workspace.says(&["delete", "scaleplan", &format!("{JOB}-migrate-1"), "-n", "dlrover"]);
    let look = || (json(&workspace, &["get", "pods"])["items"].as_array()?.len() == 4).then_some(());
    eventually_or_explain("the successor to go", look, || workspace.says(&["get", "pods", "-A"]));
    let after = processes(&workspace);
    assert!(before.iter().all(|(name, id)| after[name] == *id), "{before:?} {after:?}");
}

#[test]
fn an_impossible_migration_is_refused_before_a_plan_is_made() {
    let workspace = Workspace::new();
    let _run = training(&workspace, &[]);
    let chief = format!("{JOB}-edljob-chief-0");
    for (words, text) in [
        (&["migrate", JOB, "ps-7"][..], format!("{JOB} has no pod ps-7; those that can migrate are {SERVER}")),
        (&["migrate", JOB, "chief-0"], format!("{chief} is a chief; only pods of the roles ps and worker migrate")),
        (&["migrate", JOB, "elasticjob/x"], "there is no pod x in namespace dlrover".to_owned()),
        (&["migrate", "nobody", "ps-0"], "there is no job nobody in namespace dlrover".to_owned()),
    ] {
        let ran = ask(&workspace, words);
        assert!(ran.code == 1 && ran.stderr.starts_with(&format!("error: {text}")), "{words:?}: {}", ran.stderr);
    }
    assert_eq!(json(&workspace, &["get", "scaleplans"])["items"], Value::Array(Vec::new()));
}
