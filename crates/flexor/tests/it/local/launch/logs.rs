//! Tests where the output of the processes goes.

use std::path::Path;

use super::folder::Folder;
use super::launcher::standalone;

const BOTH: &str = "echo out $RANK; echo err $RANK >&2";

/// Paths below the log folder, without the name of the run's own folder.
fn files(folder: &Folder) -> Vec<String> {
    let below = |path: &Path| {
        let mut parts = path.strip_prefix("logs").ok()?.components();
        let run = parts.next()?.as_os_str().to_str()?;
        assert!(run.starts_with("standalone_"), "{run}");
        Some(parts.as_path().to_str()?.to_owned()).filter(|path| path.ends_with(".log"))
    };
    folder.tree().iter().filter_map(|path| below(path)).collect()
}

fn content(folder: &Folder, file: &str) -> String {
    let path = folder.tree().into_iter().find(|path| path.starts_with("logs") && path.ends_with(file)).unwrap();
    folder.read(path.to_str().unwrap())
}

/// Lines in an order that does not depend on timing.
fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<_> = text.lines().filter(|line| line.contains("out ") || line.contains("err ")).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn without_options_everything_is_on_the_console_and_no_file_is_left() {
    let folder = Folder::new();
    let ended = standalone(&folder, &["--nproc-per-node=2"], BOTH);
    assert_eq!(sorted(&ended.stdout), ["out 0", "out 1"]);
    assert_eq!(sorted(&ended.stderr), ["err 0", "err 1"]);
    assert!(folder.tree().is_empty(), "{:?}", folder.tree());
}

#[test]
fn redirected_streams_are_in_a_file_for_each_attempt_and_rank() {
    let folder = Folder::new();
    let script = format!("{BOTH}; [ $TORCHELASTIC_RESTART_COUNT = 1 ]");
    let ended = standalone(&folder, &["--nproc-per-node=2", "--log-dir=logs", "--redirects=3"], &script);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""), "{}", ended.stderr);
    assert!(!ended.stderr.lines().any(|line| line.starts_with("err ")), "{}", ended.stderr);
    assert!(ended.stderr.contains("exit code 1; err "), "the launcher quotes the end of the file: {}", ended.stderr);
    let mut expected = Vec::new();
    for attempt in 0..2 {
        for rank in 0..2 {
            expected.extend(["stderr", "stdout"].map(|stream| format!("attempt_{attempt}/{rank}/{stream}.log")));
        }
    }
    assert_eq!(files(&folder), expected);
    assert_eq!(content(&folder, "attempt_1/1/stdout.log"), "out 1\n");
    assert_eq!(content(&folder, "attempt_1/0/stderr.log"), "err 0\n");
}

#[test]
fn a_teed_stream_is_in_its_file_and_on_the_console_with_a_prefix() {
    let folder = Folder::new();
    let options = ["--nproc-per-node=2", "--log-dir=logs", "--tee=1", "--role=trainer"];
    let ended = standalone(&folder, &options, BOTH);
    assert_eq!(sorted(&ended.stdout), ["[trainer0]:out 0", "[trainer1]:out 1"]);
    assert_eq!(sorted(&ended.stderr), ["err 0", "err 1"], "streams without an option stay unchanged");
    assert_eq!(content(&folder, "0/stdout.log"), "out 0\n", "a file has the program's own bytes");
}

#[test]
fn streams_are_chosen_and_prefixed_by_rank() {
    let folder = Folder::new();
    let options = [
        "--nproc-per-node=3",
        "--log-dir=logs",
        "--redirects=0:3",
        "--tee=1:1,2:2",
        "--log-line-prefix-template=<${rank} of ${role_name}> ",
    ];
    let ended = standalone(&folder, &options, BOTH);
    assert_eq!(sorted(&ended.stdout), ["<1 of default> out 1", "out 2"]);
    assert_eq!(sorted(&ended.stderr), ["<2 of default> err 2", "err 1"]);
    let expected = ["0/stderr.log", "0/stdout.log", "1/stdout.log", "2/stderr.log"];
    assert_eq!(files(&folder), expected.map(|file| format!("attempt_0/{file}")));
}

#[test]
fn only_the_ranks_that_are_asked_for_are_on_the_console() {
    let folder = Folder::new();
    let options = ["--nproc-per-node=3", "--log-dir=logs", "--tee=1", "--local-ranks-filter=1"];
    let ended = standalone(&folder, &options, BOTH);
    assert_eq!(sorted(&ended.stdout), ["[default1]:out 1"]);
    assert_eq!(sorted(&ended.stderr), ["err 1"]);
    assert_eq!(content(&folder, "2/stdout.log"), "out 2\n", "files have them all");
}
