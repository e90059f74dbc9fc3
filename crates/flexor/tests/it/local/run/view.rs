//! Tests `flexor run` on a terminal: the picture updates in place, the last picture and the summary stay, and the
//! terminal is restored.

use std::process::Command;

use nix::sys::signal::{Signal, kill};

use super::cluster::{Workspace, job_of};
use super::endings::ANY_PROGRAM;
use super::terminal::{OnTerminal, TerminalOutput};

/// A `flexor run` whose pods end with it, on a capable terminal.
fn run(workspace: &Workspace, args: &[&str]) -> Command {
    let mut command = workspace.command(args);
    command.arg("--ephemeral").env("TERM", "xterm-256color").env_remove("NO_COLOR");
    command
}

fn assert_has(seen: &TerminalOutput, texts: &[&str]) {
    for text in texts {
        assert!(seen.text.contains(text), "{text:?} is not in\n{}", seen.text);
    }
}

#[test]
fn the_last_picture_and_the_summary_stay() {
    let workspace = Workspace::new();
    let on = OnTerminal::start(&mut run(&workspace, &[ANY_PROGRAM]), (40, 110));
    on.await_text("any-program-worker-1   Running");
    let seen = on.wait();
    assert_eq!(seen.code, Some(0), "{}", seen.text);
    let message = [
        "any-program  torchelastic  Succeeded after",
        "1000 of 1000 records",
        "any-program-worker-0   Completed ",
        "JobSucceeded: the program has ended well on 2 nodes",
        "1000 expected, 1000 accounted for, 0 recomputed, 0 lost",
    ];
    assert_has(&seen, &message);
    assert_eq!(seen.text.matches("NAME   ").count(), 1, "each picture takes the place of the last:\n{}", seen.text);
    let last = seen.text.trim_end().lines().last().unwrap();
    assert!(last.starts_with("default/any-program: Succeeded: JobSucceeded"), "{}", seen.text);
    assert!(!seen.cursor_is_hidden && !seen.raw.contains("\x1b[?1049h"), "no other screen, and the cursor is back");
    assert!(seen.raw.contains("\x1b[32m"), "in colours");
    workspace.assert_nothing_is_left_of(&[]);
}

#[test]
fn a_killed_pod_and_its_replacement_are_shown() {
    let workspace = Workspace::new();
    let on = OnTerminal::start(&mut run(&workspace, &[ANY_PROGRAM]), (40, 110));
    workspace.await_records(200);
    kill(workspace.await_running("any-program-worker-0").main_id().unwrap(), Signal::SIGKILL).unwrap();
    on.await_text("any-program-worker-0: ProgramKilled: exit code 137; this costs no retry");
    let seen = on.wait();
    assert_eq!(seen.code, Some(0), "{}", seen.text);
    assert_has(&seen, &["started again   1 killed"]);
    let row = seen.text.lines().find(|line| line.starts_with("any-program-worker-0 ")).unwrap();
    let [_, status, restarts, _] = row.split_whitespace().collect::<Vec<_>>()[..] else { panic!("{row}") };
    assert_eq!((status, restarts), ("Completed", "1"), "{}", seen.text);
}

#[test]
fn ctrl_c_leaves_the_picture_the_summary_and_a_cursor() {
    let workspace = Workspace::new();
    let job = workspace.manifest(&job_of("endless", 2, "sleep 300"));
    let on = OnTerminal::start(&mut run(&workspace, &[&job]), (30, 100));
    on.await_text("endless-worker-1   Running");
    on.signal(Signal::SIGINT);
    let seen = on.wait();
    assert_eq!(seen.code, Some(130), "{}", seen.text);
    let message = [
        "endless-worker-1   Running",
        "interrupted: all pods are told to end, and have their grace to do so; Ctrl-C again kills them",
        "default/endless: Interrupted",
    ];
    assert_has(&seen, &message);
    assert!(!seen.cursor_is_hidden);
    workspace.assert_nothing_is_left_of(&[]);
}

#[test]
fn a_small_terminal_shows_fewer_lines_and_no_color_removes_colours() {
    let workspace = Workspace::new();
    let job = workspace.manifest(&job_of("many", 4, "sleep 300"));
    let on = OnTerminal::start(run(&workspace, &[&job]).env("NO_COLOR", "1"), (8, 50));
    on.await_text("5 Running");
    on.signal(Signal::SIGTERM);
    let seen = on.wait();
    assert_eq!(seen.code, Some(130), "{}", seen.text);
    assert!(!seen.raw.contains("\x1b[3"), "{:?}", seen.raw);
    assert_eq!(seen.text.matches("many  torchelastic").count(), 1, "{}", seen.text);
}

#[test]
fn messages_of_the_program_are_printed_above_the_picture() {
    let workspace = Workspace::new();
    let job = workspace.manifest(&job_of("talks", 1, "sleep 0.5"));
    let seen = OnTerminal::start(run(&workspace, &[&job]).env("FLEXOR_LOG", "h2=debug"), (20, 100)).wait();
    assert_eq!(seen.code, Some(0), "{}", seen.text);
    assert_has(&seen, &["DEBUG", "talks  torchelastic  Succeeded after", "default/talks: Succeeded"]);
    assert_eq!(seen.text.matches("NAME   ").count(), 1, "no picture is left over:\n{}", seen.text);
}

#[test]
fn lines_are_printed_where_no_picture_is_wanted() {
    let plain = |command: &mut Command| {
        let seen = OnTerminal::start(command, (60, 200)).wait();
        assert_eq!(seen.code, Some(0), "{}", seen.text);
        assert_has(&seen, &["s  short-worker-0: Running", "default/short: Succeeded"]);
        assert!(!seen.raw.contains('\x1b'), "{:?}", seen.raw);
    };
    let workspace = Workspace::new();
    let job = workspace.manifest(&job_of("short", 1, "true"));
    plain(&mut run(&workspace, &[&job, "--no-view"]));
    plain(run(&workspace, &[&job]).env("TERM", "dumb"));
}

#[test]
fn an_output_that_refuses_does_not_stop_the_jobs() {
    let workspace = Workspace::new();
    let job = workspace.manifest(&job_of("heard-by-nobody", 2, "echo done >> ends"));
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let ended = run(&workspace, &[&job]).stdout(full).output().unwrap();
    let message = String::from_utf8(ended.stderr).unwrap();
    assert_eq!((workspace.folder.lines("ends").len(), ended.status.code()), (2, Some(3)), "{message}");
    assert!(message.contains("the output could not be written") && message.contains("the jobs go on"), "{message}");
    workspace.assert_nothing_is_left_of(&[]);
}
