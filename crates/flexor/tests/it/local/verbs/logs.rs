//! Tests `flexor logs` from another terminal.

use super::super::launch::launcher::Launcher;
use super::laptop::{Laptop, dlrover, torchelastic};

#[test]
fn a_log_is_printed_in_full_or_from_its_end_and_per_container() {
    let laptop = Laptop::with(&[torchelastic("imagenet")]);
    let pod = "imagenet-worker-0";
    let logs = |more: &[&str]| laptop.says(&[&["logs", pod, "-n", "elastic-job"], more].concat());
    laptop.eventually("three lines", || (logs(&[]) == "line 1\nline 2\nline 3\n").then_some(()));
    assert_eq!(logs(&["--tail", "2"]), "line 2\nline 3\n");
    assert_eq!(logs(&["--tail", "0"]), "");
    assert_eq!(logs(&["-c", "elasticjob-worker", "--tail", "1"]), "line 3\n");
    assert!(logs(&["-c", "flexor-sidecar"]).starts_with("sidecar: store at "));
    let none = laptop.flexor(&["logs", pod, "-n", "elastic-job", "-c", "nope"]);
    let log = "error: pod imagenet-worker-0 has no container nope; it has flexor-sidecar, elasticjob-worker\n";
    assert_eq!((none.code, none.stderr.as_str()), (1, log));
}

#[test]
fn a_followed_log_ends_when_its_pod_has_no_replacement() {
    let laptop = Laptop::with(&[torchelastic("imagenet")]);
    let follow = |pod: &str| Launcher::start(&mut laptop.command(&["logs", "-f", pod, "-n", "elastic-job"]));
    let (first, second) = (follow("imagenet-worker-0"), follow("imagenet-worker-1"));
    first.await_stdout("line 3", 1);
    second.await_stdout("line 3", 1);
    // One is scaled away, the other finishes.
    laptop.says(&["scale", "imagenet", "--replicas", "1", "-n", "elastic-job"]);
    assert_eq!(second.wait_for(0).stdout, "line 1\nline 2\nline 3\n");
    laptop.folder.let_go();
    let ended = first.wait_for(0);
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("line 1\nline 2\nline 3\nthe end\n", ""));
}

#[test]
fn a_followed_log_goes_on_with_the_successors_of_its_pod() {
    let laptop = Laptop::with(&[dlrover("torch-mnist")]);
    let pod = "torch-mnist-edljob-worker-0";
    let line = format!("I am {pod}");
    let follow = Launcher::start(&mut laptop.command(&["logs", "-f", pod, "--tail", "1"]));
    follow.await_stdout(&line, 1);
    laptop.says(&["kill", pod]);
    follow.await_stdout(&line, 2);
    laptop.says(&["delete", "pod", pod]);
    follow.await_stdout(&line, 3);
    laptop.says(&["delete", "elasticjob", "torch-mnist"]);
    let ended = follow.wait_for(0);
    assert_eq!(ended.stdout, format!("{line}\n").repeat(3));
    let note = format!("note: {pod} was replaced; what follows is its successor's\n");
    assert_eq!(ended.stderr, note.repeat(2));
}

#[test]
fn rotated_logs_are_still_printed() {
    let job = torchelastic("imagenet").replace("echo the end", "seq 1 1700000");
    let laptop = Laptop::with(&[job]);
    let words = ["logs", "imagenet-worker-0", "-n", "elastic-job"];
    let followed = Launcher::start(&mut laptop.command(&[&words[..], &["-f"]].concat()));
    followed.await_stdout("line 3", 1);
    laptop.folder.let_go();
    let ended = followed.wait_for(0);
    let wrong = ended.stdout.lines().skip(3).zip(1..).find(|(line, number)| *line != number.to_string());
    assert_eq!((wrong, ended.stdout.lines().count()), (None, 1_700_003));
}

#[test]
fn a_closed_pipe_ends_the_command() {
    let laptop = Laptop::with(&[dlrover("torch-mnist")]);
    let pod = "torch-mnist-edljob-worker-0";
    laptop.eventually("a line", || (!laptop.says(&["logs", pod]).is_empty()).then_some(()));
    let mut command = laptop.command(&["logs", pod, "--tail", "1"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let ended = command.stdout(writer).output().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
}
