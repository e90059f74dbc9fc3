//! Tests shell completion: a real bash sources the scripts and completes a line as if a user had pressed Tab.

use std::process::Command;
use std::time::{Duration, Instant};

use super::faults::process::server;
use super::verbs::laptop::{Laptop, dlrover, torchelastic};
use crate::program::{bin, run};

/// Sources the script, completes the last word of the line, and prints one completion per line.
const PRESS_TAB: &str = r#"
source <("$FLEXOR" completions bash)
read -ra COMP_WORDS <<< "$1"
[[ $1 == *" " ]] && COMP_WORDS+=("")
COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
COMP_LINE=$1 COMP_POINT=${#1} COMP_TYPE=9
_clap_complete_flexor flexor "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
printf '%s\n' "${COMPREPLY[@]}"
"#;

/// bash's completions of the last word of a line, in a cluster's folder.
fn offers(line: &str, state_dir: &std::path::Path) -> Vec<String> {
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", PRESS_TAB, "bash", line]).env("FLEXOR", bin()).env("XDG_STATE_HOME", state_dir);
    let printed = bash.output().unwrap();
    let stderr = String::from_utf8_lossy(&printed.stderr).into_owned();
    // There is no line editor, so bash warns about `compopt`.
    let stderr: Vec<&str> = stderr.lines().filter(|line| !line.contains("compopt")).collect();
    assert!(stderr.is_empty(), "{line}: {stderr:?}");
    String::from_utf8(printed.stdout).unwrap().lines().filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// The completions that are no options.
fn names(line: &str, laptop: &Laptop) -> Vec<String> {
    let line = line.replacen("HOME", laptop.state_dir().to_str().unwrap(), 1);
    let offered = offers(&line, laptop.folder.path());
    offered.into_iter().filter(|word| !word.starts_with('-')).collect()
}

/// Waits until so much is offered: a cluster that needs longer than a key press may take, under load, has no names.
fn assert_names(line: &str, laptop: &Laptop, expected: &[&str]) {
    let mut last = Vec::new();
    let look = || {
        last = names(line, laptop);
        (last == expected).then_some(())
    };
    let message = || format!("{line}: {:?}", names(line, laptop));
    super::faults::deadline::eventually_or_explain(&format!("{expected:?}"), look, message);
}

#[test]
fn names_are_those_of_the_cluster() {
    let laptop = Laptop::with(&[dlrover("torch-mnist"), torchelastic("imagenet")]);
    let (one, two) = ("torch-mnist-edljob-worker-0", "torch-mnist-edljob-worker-1");
    let pods = ["elasticjob-torch-mnist-dlrover-master", one, two];
    for (line, expected) in [
        ("describe --state-dir HOME pod ", &pods[..]),
        ("get --state-dir HOME pods torch", &[one, two]),
        ("get --state-dir HOME pods torch-mnist-edljob-worker-0 torch", &[two]),
        ("get --state-dir HOME pod/torch", &["pod/torch-mnist-edljob-worker-0", "pod/torch-mnist-edljob-worker-1"]),
        ("logs --state-dir HOME ", &pods),
        ("kill --state-dir HOME ", &pods),
        ("logs --state-dir HOME torch-mnist-edljob-worker-0 -c ", &["flexor-sidecar", "main"]),
        ("delete --state-dir HOME elasticjob ", &["torch-mnist"]),
        ("why --state-dir HOME torch", &["torch-mnist"]),
        ("events --state-dir HOME ", &["torch-mnist"]),
        ("scale --state-dir HOME elasticjobs ", &["torch-mnist"]),
        ("scale --state-dir HOME torch", &["torch-mnist"]),
        ("migrate --state-dir HOME ", &["torch-mnist"]),
        ("migrate --state-dir HOME torch-mnist torch", &[one, two]),
        // Other namespaces, at any position in the line.
        ("get -n elastic-job --state-dir HOME tej ", &["imagenet"]),
        ("-n elastic-job --state-dir HOME get tej ", &["imagenet"]),
        ("get --state-dir HOME tej --namespace=elastic-job ", &["imagenet"]),
        ("get --state-dir HOME pods -n ", &["default", "elastic-job"]),
        ("get --state-dir HOME elasticjobs -A ", &["imagenet", "torch-mnist"]),
    ] {
        assert_names(&format!("flexor {line}"), &laptop, expected);
    }
}

#[test]
fn kinds_and_verbs_need_no_cluster() {
    let folder = tempfile::tempdir().unwrap();
    let kinds = offers("flexor get p", folder.path());
    assert!(kinds.contains(&"pods".to_owned()), "{kinds:?}");
    assert_eq!(offers("flexor get te", folder.path()), ["tej"]);
    assert_eq!(offers("flexor descr", folder.path()), ["describe"]);
    assert_eq!(offers("flexor describe pod ", folder.path()).iter().filter(|word| !word.starts_with('-')).count(), 0);
    assert_eq!(offers("flexor get pods --all", folder.path()), ["--all-namespaces"]);
}

#[test]
fn a_cluster_that_does_not_answer_is_not_waited_for() {
    let laptop = Laptop::with(&[dlrover("torch-mnist")]);
    laptop.run.signal(nix::sys::signal::Signal::SIGSTOP);
    let mut ask = server(&["--", "flexor", "describe", "--state-dir"]);
    ask.arg(laptop.state_dir()).args(["pod", ""]).env("FLEXOR_COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", "5");
    let begin = Instant::now();
    let printed = ask.output().unwrap();
    let took = begin.elapsed();
    laptop.run.signal(nix::sys::signal::Signal::SIGCONT);
    assert!(printed.status.success() && took < Duration::from_secs(20), "{took:?}");
    assert!(!String::from_utf8_lossy(&printed.stdout).contains("torch-mnist"), "{printed:?}");
}

#[test]
fn every_shell_gets_its_script() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = run(&["completions", shell]);
        assert!(ran.code == 0 && ran.stdout.contains("FLEXOR_COMPLETE"), "{shell}: {}", ran.stdout);
    }
}
