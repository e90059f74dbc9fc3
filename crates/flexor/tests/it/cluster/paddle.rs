//! `paddlecloud` against a real API server: what it creates, lists and deletes.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};
use std::time::Duration;

use flexor_testbed::{TestNamespace, await_condition, cluster_or_skip, skip};
use k8s_openapi::api::core::v1::ConfigMap;

use super::installed::{apply_text, succeed, with_all_kinds};
use super::operator::get;
use crate::page::{self, in_path};
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
    let first = first_lines(watch, 3);
    assert_eq!(first[0], "Times\tName\tStatus\tCPU\tGPU\tPARALLELISM");
    let cells: Vec<Vec<&str>> = first[1..].iter().map(|line| line.split('\t').collect()).collect();
    assert_eq!((&cells[0][..3], cells[0][5]), (&["0", "mnist1", "PENDING"][..], "0"));
    assert_eq!((&cells[1][..3], cells[1][5]), (&["0", "mnist2", "WAITING"][..], "0"));
}

/// The first lines that a program prints, which would go on.
fn first_lines(mut command: Command, count: usize) -> Vec<String> {
    let mut program = command.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(program.stdout.take().unwrap()).lines();
    let first = lines.take(count).collect::<Result<_, _>>();
    program.kill().unwrap();
    program.wait().unwrap();
    first.unwrap()
}

/// A line of the collector without the cluster's CPUs and graphics cards.
fn without_shares(line: &str) -> Vec<&str> {
    let cells = line.split('\t').enumerate().filter(|(column, _)| !matches!(column, 3 | 4));
    cells.map(|(_, cell)| cell).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_experiments_own_program_prints_what_its_page_says() {
    let Some(python) = in_path("python3") else { skip!("needs `python3`, which runs main.py") };
    // What is in PATH may be a script that needs PATH itself.
    let python = succeed(Command::new(python).args(["-c", "import sys; print(sys.executable)"]));
    let python = python.trim_end();
    let folder = tempfile::tempdir().unwrap();
    let program = root().join("tutorials/edl/doc/autoscale/experiment/python");
    let mut alone = Command::new(python);
    alone.args(["main.py", "case1", "mnist1"]).current_dir(&program).env("PATH", folder.path());
    let alone = ProgramOutput::from(alone.output().unwrap());
    assert_eq!((alone.code, alone.stdout.as_str()), (1, ""));
    let why = "main.py: flexor cannot be started: [Errno 2] No such file or directory; put it into a folder of PATH\n";
    assert_eq!(alone.stderr, why);

    let cluster = cluster_or_skip!();
    with_all_kinds(cluster).await;
    let namespace = cluster.namespace("main-py").await.unwrap();
    symlink(bin(), folder.path().join("flexor")).unwrap();
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let words = ["main.py", "case1", "mnist1,mnist2"];
    let mut watch = cluster.command_in(python);
    watch.args(words).args(["--namespace", namespace.name()]).current_dir(&program).env("PATH", path);
    let printed = first_lines(watch, 3);
    let page = page::text("edl.md");
    let (_, behind) = page.split_once(&format!("\npython {}\n", words.join(" "))).unwrap();
    let (_, listing) = behind.split_once("```text\n").unwrap();
    let cells = |line: &str| -> Vec<String> { without_shares(line).into_iter().map(str::to_owned).collect() };
    let wanted: Vec<Vec<String>> = listing.lines().take(3).map(cells).collect();
    assert_eq!(wanted[2][..3], ["0", "mnist2", "WAITING"], "the page has three lines");
    assert_eq!(printed.iter().map(|line| cells(line)).collect::<Vec<_>>(), wanted);
}

/// Pods that no node takes: what runs and prints is the kubelet's business.
const TRAINERS: &str = "
apiVersion: v1
kind: Pod
metadata: {name: mnist1-trainer-10, labels: {paddle-job: mnist1}}
spec: {schedulerName: no-such-scheduler, containers: [{name: trainer, image: x}]}
---
apiVersion: v1
kind: Pod
metadata: {name: mnist1-trainer-9, labels: {paddle-job: mnist1}}
spec: {schedulerName: no-such-scheduler, containers: [{name: trainer, image: x}]}
---
apiVersion: v1
kind: Pod
metadata: {name: mnist2-trainer-0, labels: {paddle-job: mnist2}}
spec: {schedulerName: no-such-scheduler, containers: [{name: trainer, image: x}]}
";
/// What a kubelet says of a trainer that has failed.
const FAILED: &str = r#"{"status": {"phase": "Failed", "startTime": "2026-01-02T03:04:05Z", "containerStatuses": [{
    "name": "trainer", "image": "x", "imageID": "", "ready": false, "restartCount": 0,
    "state": {"terminated": {"exitCode": 3, "message": "no data"}}}]}}"#;

#[tokio::test(flavor = "multi_thread")]
async fn the_workers_of_a_job_are_listed_with_their_ends_and_have_logs() {
    let cluster = cluster_or_skip!();
    let namespace = cluster.namespace("workers").await.unwrap();
    apply_text(cluster, &TRAINERS.replace("{name: mnist", &format!("{{namespace: {}, name: mnist", namespace.name())));
    let patch = ["patch", "pod", "mnist1-trainer-10", "--subresource=status", "--type=merge", "-p", FAILED];
    succeed(&mut namespace.kubectl(patch));

    let listed = paddlecloud(&namespace, &["get", "workers", "mnist1"]);
    assert_eq!((listed.code, listed.stderr.as_str()), (0, ""));
    let gap = regex::Regex::new(" {2,}").unwrap();
    let lines: Vec<Vec<&str>> = listed.stdout.lines().map(|line| gap.split(line.trim_end()).collect()).collect();
    assert_eq!(
        lines,
        [
            vec!["NAME", "STATUS", "START", "EXIT_CODE", "MSG"],
            vec!["mnist1-trainer-9", "Pending", "<nil>", "<nil>"],
            vec!["mnist1-trainer-10", "Failed", "2026-01-02T03:04:05Z", "3", "no data"],
        ]
    );
    let none = paddlecloud(&namespace, &["get", "workers", "mnist3"]);
    assert_eq!((none.code, none.stdout.as_str()), (0, "NAME   STATUS   START   EXIT_CODE   MSG\n"));

    // A pod that is on no node has an empty log.
    let logs = paddlecloud(&namespace, &["logs", "mnist1"]);
    assert_eq!((logs.code, logs.stderr.as_str()), (0, ""));
    let heads: Vec<&str> = logs.stdout.lines().filter(|line| line.starts_with("===")).collect();
    assert_eq!(heads, ["===mnist1-trainer-9===", "===mnist1-trainer-10==="], "{}", logs.stdout);
    let one = paddlecloud(&namespace, &["logs", "-n", "3", "-w", "mnist1-trainer-10", "mnist1"]);
    assert!(one.code == 0 && one.stdout.starts_with("===mnist1-trainer-10===\n"), "{}{}", one.stdout, one.stderr);
    let other = paddlecloud(&namespace, &["logs", "-w", "mnist2-trainer-0", "mnist1"]);
    assert_eq!((other.code, other.stderr.as_str()), (1, "error: job mnist1 has no trainer mnist2-trainer-0\n"));
}
