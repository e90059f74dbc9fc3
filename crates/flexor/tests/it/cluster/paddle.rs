//! `paddlecloud` against a real API server: what it creates, lists and deletes.

use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::Duration;

use flexor_testbed::{TestNamespace, await_condition, cluster_or_skip};
use k8s_openapi::api::core::v1::ConfigMap;

use super::installed::with_all_kinds;
use super::operator::get;
use crate::program::{ProgramOutput, bin, root};

const DEADLINE: Duration = Duration::from_secs(60);
const PACKAGE: &str = "tutorials/edl/demo/recognize_digits";

/// Calls the program by a symbolic link of its own name.
fn paddlecloud(namespace: &TestNamespace<'_>, words: &[&str]) -> ProgramOutput {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("paddlecloud");
    symlink(bin(), &link).unwrap();
    let mut command: Command = namespace.cluster().command_in(&link);
    command.args(words).args(["-namespace", namespace.name()]).current_dir(root());
    command.output().unwrap().into()
}

fn submit(namespace: &TestNamespace<'_>, words: &[&str]) -> ProgramOutput {
    let usual = ["submit", "-image", "m:1", "-entry", "python ./train.py train"];
    paddlecloud(namespace, &[&usual, words, &[PACKAGE]].concat())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_submitted_with_its_package_listed_and_killed() {
    let cluster = cluster_or_skip!();
    with_all_kinds(cluster).await;
    let namespace = cluster.namespace("paddlecloud").await.unwrap();

    let ran = submit(&namespace, &["-jobname", "mnist1", "-parallelism", "3", "-pservers", "2"]);
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (0, "mnist1 submited.\n", ""));
    let job = get(&namespace, &["trainingjob", "mnist1"]);
    assert_eq!(job["spec"]["trainer"]["min-instance"], 3);
    let package = get(&namespace, &["configmap", "mnist1-package"]);
    let program = std::fs::read_to_string(root().join(PACKAGE).join("train.py")).unwrap();
    assert_eq!(package["data"]["000-train.py"], program.as_str());
    let owner = &package["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["kind"], &owner["uid"]), (&"TrainingJob".into(), &job["metadata"]["uid"]));

    let again = submit(&namespace, &["-jobname", "mnist1"]);
    assert_eq!((again.code, again.stdout.as_str()), (1, ""));
    assert!(again.stderr.contains("\"mnist1\" already exists"), "{}", again.stderr);

    let listed = paddlecloud(&namespace, &["get", "jobs"]).stdout;
    let lines: Vec<Vec<&str>> = listed.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["NAME", "ACTIVE", "SUCC", "FAIL", "START", "COMP", "PS_READY", "PS_TOTAL"]);
    assert_eq!((lines[1][0], &lines[1][5..]), ("mnist1", &["<nil>", "0", "2"][..]));

    let killed = paddlecloud(&namespace, &["kill", "mnist1"]);
    assert_eq!((killed.code, killed.stdout.as_str()), (0, "mnist1 killed.\n"), "{}", killed.stderr);
    let gone = |package: Option<&ConfigMap>| package.is_none();
    await_condition(DEADLINE, namespace.api::<ConfigMap>(), "mnist1-package", "the package to go", gone).await.unwrap();
    let unknown = paddlecloud(&namespace, &["kill", "mnist1"]);
    assert!(unknown.code == 1 && unknown.stderr.contains("\"mnist1\" not found"), "{}", unknown.stderr);
    let none = paddlecloud(&namespace, &["logs", "mnist1"]);
    assert_eq!((none.code, none.stderr.as_str()), (1, "error: job mnist1 has no trainers\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_package_cannot_be_created_is_taken_back() {
    let cluster = cluster_or_skip!();
    with_all_kinds(cluster).await;
    let namespace = cluster.namespace("foreign-package").await.unwrap();
    let made = namespace.kubectl(["create", "configmap", "mnist2-package", "--from-literal=a=b"]).output().unwrap();
    assert!(made.status.success());
    let ran = submit(&namespace, &["-jobname", "mnist2"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""));
    let message = "there is a ConfigMap mnist2-package that is no package of this job";
    assert!(ran.stderr.contains("the job is deleted again") && ran.stderr.contains(message), "{}", ran.stderr);
    let jobs = get(&namespace, &["trainingjobs"]);
    assert_eq!(jobs["items"].as_array().map(Vec::len), Some(0), "{jobs}");
    assert_eq!(get(&namespace, &["configmap", "mnist2-package"])["data"]["a"], "b");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_collector_counts_a_job_that_was_submitted() {
    let cluster = cluster_or_skip!();
    with_all_kinds(cluster).await;
    let namespace = cluster.namespace("collector").await.unwrap();
    assert_eq!(submit(&namespace, &["-jobname", "mnist1"]).code, 0);
    let mut watch = cluster.command_in(bin());
    watch.args(["experiment", "watch", "case1", "mnist1,mnist2", "--namespace", namespace.name()]);
    let mut watch = watch.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(watch.stdout.take().unwrap()));
    let first: Vec<String> = lines.by_ref().take(3).map(Result::unwrap).collect();
    watch.kill().unwrap();
    watch.wait().unwrap();
    assert_eq!(first[0], "Times\tName\tStatus\tCPU\tGPU\tPARALLELISM");
    let cells: Vec<Vec<&str>> = first[1..].iter().map(|line| line.split('\t').collect()).collect();
    assert_eq!((&cells[0][..3], cells[0][5]), (&["0", "mnist1", "PENDING"][..], "0"));
    assert_eq!((&cells[1][..3], cells[1][5]), (&["0", "mnist2", "WAITING"][..], "0"));
}
