//! Test programs made of shell, which behave in ways that a real one should not.

use std::path::Path;

use super::super::build::ProgramKind;
use super::*;

/// A program that runs `script` when it is asked to run its tests.
fn run(script: &str) -> (Result<Vec<Outcome>>, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let executable = folder.path().join("program");
    // Another process writes it: a file this one had open for writing could not be started while a fork of another
    // test still holds it.
    let write = r#"printf '#!/bin/sh\n%s\n' "$1" > "$2" && chmod +x "$2""#;
    let written = Command::new("sh").args(["-c", write, "sh", script]).arg(&executable).status().unwrap();
    assert!(written.success());
    let program = TestProgram {
        package: "demo".to_owned(),
        target: "it".to_owned(),
        kind: ProgramKind::Integration,
        executable,
        folder: folder.path().to_owned(),
        checkout: "/the/checkout".into(),
    };
    let mut printed = Vec::new();
    let tests = ["local::a".to_owned(), "local::b".to_owned()];
    let outcomes = program.run(Path::new("/bin/flexor"), &tests, Tier::Local, &mut |line| {
        printed.push(line);
    });
    (outcomes, printed)
}

fn verdicts(outcomes: &[Outcome]) -> Vec<(&str, &Verdict)> {
    outcomes.iter().map(|outcome| (outcome.test.as_str(), &outcome.verdict)).collect()
}

#[test]
fn tests_are_chosen_by_exact_path_and_get_the_binary() {
    let (outcomes, printed) = run(r#"
        echo "$FLEXOR_BIN $*"
        echo '{ "type": "test", "name": "local::a", "event": "ok", "exec_time": 0.5 }'
        echo '{ "type": "test", "name": "local::b", "event": "ok", "stdout": "skipped: needs root" }'
        echo '{ "type": "suite", "event": "ok" }'"#);
    let skipped = Verdict::Skipped("needs root".to_owned());
    assert_eq!(verdicts(&outcomes.unwrap()), [("local::a", &Verdict::Passed), ("local::b", &skipped)]);
    assert!(
        printed[0].starts_with("/bin/flexor ") && printed[0].ends_with("--test-threads=4 --exact local::a local::b")
    );
}

#[test]
fn a_program_learns_where_its_package_and_its_checkout_are() {
    let (_, printed) = run(r#"echo "$INSTA_WORKSPACE_ROOT $([ "$CARGO_MANIFEST_DIR" = "$PWD" ] && echo at home)""#);
    assert_eq!(printed[0], "/the/checkout at home");
}

#[test]
fn a_program_that_dies_fails_the_tests_it_had_not_finished() {
    let (outcomes, printed) = run(r#"
        echo '{ "type": "test", "event": "started", "name": "local::a" }'
        echo '{ "type": "test", "name": "local::a", "event": "ok" }'
        echo '{ "type": "test", "event": "started", "name": "local::b" }'
        kill -9 $$"#);
    assert_eq!(verdicts(&outcomes.unwrap()), [("local::a", &Verdict::Passed), ("local::b", &Verdict::Failed)]);
    assert!(printed.iter().any(|line| line.contains("FAILED local::b") && line.contains("signal: 9")), "{printed:?}");
}

#[test]
fn a_process_left_behind_does_not_keep_the_run_open() {
    let started = Instant::now();
    let (outcomes, _) = run(r#"
        sleep 5 &
        echo '{ "type": "test", "name": "local::a", "event": "ok" }'
        echo '{ "type": "test", "name": "local::b", "event": "ok" }'
        echo '{ "type": "suite", "event": "ok" }'"#);
    assert_eq!(outcomes.unwrap().len(), 2);
    assert!(started.elapsed() < Duration::from_secs(4));
}

#[test]
fn a_program_that_fails_at_exit_is_not_taken_for_a_success() {
    let (outcomes, _) = run(r#"
        echo '{ "type": "test", "name": "local::a", "event": "ok" }'
        echo '{ "type": "test", "name": "local::b", "event": "ok" }'
        echo '{ "type": "suite", "event": "ok" }'
        exit 3"#);
    let outcomes = outcomes.unwrap();
    assert_eq!(verdicts(&outcomes)[2], ("(exit)", &Verdict::Failed));
    assert!(outcomes[2].output.contains("exit status: 3"), "{outcomes:?}");
}

#[test]
fn a_failed_program_tells_once_how_to_replay_its_random_cases() {
    let (_, printed) = run(r#"
        echo "seed $PROPTEST_RNG_SEED"
        echo '{ "type": "test", "name": "local::a", "event": "failed" }'
        echo '{ "type": "test", "name": "local::b", "event": "failed" }'
        echo '{ "type": "suite", "event": "failed" }'
        exit 101"#);
    let seed = printed[0].strip_prefix("seed ").unwrap();
    seed.parse::<u64>().unwrap();
    let line = format!(
        "demo it: if the test uses proptest, again: FLEXOR_SEED={seed} cargo xtask test --tier local -- local::a"
    );
    assert_eq!(printed.iter().filter(|printed| printed.contains("FLEXOR_SEED")).collect::<Vec<_>>(), [&line]);
}

#[test]
fn a_program_that_passes_tells_no_seed() {
    let (_, printed) = run(r#"
        echo '{ "type": "test", "name": "local::a", "event": "ok" }'
        echo '{ "type": "test", "name": "local::b", "event": "ok" }'
        echo '{ "type": "suite", "event": "ok" }'"#);
    assert!(printed.iter().all(|line| !line.contains("FLEXOR_SEED")), "{printed:?}");
}
