//! Tests programs that close, flood or ignore their standard streams.

use std::io::Read as _;
use std::process::{Child, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::super::faults::deadline::eventually;
use super::folder::{Folder, WAIT};
use super::launcher::{alone, await_gone, launch, standalone};

#[test]
fn a_program_that_closes_its_streams_runs_to_its_end() {
    for option in ["--tee=3", "--redirects=3", "--tee=0"] {
        let folder = Folder::new();
        let script = "echo before; exec >&- 2>&-; sleep 0.3; echo done > done.$RANK";
        let ended = standalone(&folder, &["--nproc-per-node=2", "--log-dir=logs", option], script);
        assert_eq!(ended.code, Some(0), "{option}: {}", ended.stderr);
        assert_eq!((folder.read("done.0"), folder.read("done.1")), ("done\n".into(), "done\n".into()), "{option}");
    }
}

#[test]
fn a_flood_of_output_costs_no_memory_and_loses_nothing() {
    const LINES: usize = 400_000;
    let folder = Folder::new();
    let script = format!(
        "yes 0123456789012345678901234567890123456789012345678 | head -n {LINES}; echo > flooded.$RANK; {WAIT}"
    );
    let launcher = alone(&folder, &["--nproc-per-node=2", "--log-dir=logs", "--tee=1"], &script);
    for file in ["flooded.0", "flooded.1"] {
        folder.await_lines(file, 1);
    }
    let peak = launcher.peak_memory();
    folder.let_go();
    let ended = launcher.wait_for(0);
    println!("at most {peak} MiB");
    for prefix in ["[default0]:01", "[default1]:01"] {
        assert_eq!(ended.stdout.matches(prefix).count(), LINES, "{prefix}");
    }
    assert!(peak < 64, "{peak} MiB for twice {LINES} lines of 50 bytes");
    let logs: Vec<_> = folder.tree().into_iter().filter(|path| path.ends_with("stdout.log")).collect();
    assert_eq!(logs.len(), 2);
    for log in logs {
        assert_eq!(std::fs::metadata(folder.path().join(&log)).unwrap().len(), 50 * LINES as u64, "{log:?}");
    }
}

#[test]
fn a_closed_console_does_not_end_the_program() {
    let folder = Folder::new();
    let script = "echo ready > ready.$RANK; until [ -e go ]; do sleep 0.05; done; \
                  i=0; while [ $i -lt 1000 ]; do echo line $i; i=$((i+1)); done; echo done > done.$RANK";
    let mut command = launch(&folder, ["--standalone", "--tee=1", "--log-dir=logs", "sh", "-c", script]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    folder.await_lines("ready.0", 1);
    drop(child.stdout.take());
    folder.let_go();
    let status = eventually("the end", || child.try_wait().unwrap());
    assert_eq!((status.code(), folder.read("done.0").as_str()), (Some(0), "done\n"));
}

/// Killed when it is dropped.
struct UnreadLauncher(Child);

impl Drop for UnreadLauncher {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_terminated_launcher_with_an_unread_log_ends_its_processes() {
    let folder = Folder::new();
    // The pipe that both share holds no more than 64 KiB, so the process blocks in the middle of its last output.
    let script = "head -c 60000 /dev/zero >&2; echo $$ > full; head -c 200000 /dev/zero >&2";
    let mut command = launch(&folder, ["--standalone", "sh", "-c", script]);
    let mut launcher = UnreadLauncher(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
    let worker = folder.await_lines("full", 1)[0].clone();
    kill(Pid::from_raw(launcher.0.id().cast_signed()), Signal::SIGTERM).unwrap();
    await_gone(&worker);
    let mut output = Vec::new();
    launcher.0.stderr.take().unwrap().read_to_end(&mut output).unwrap();
    assert_eq!(launcher.0.wait().unwrap().code(), Some(130));
    let output = String::from_utf8(output).unwrap();
    for message in ["another signal kills them", "ended by SIGTERM"] {
        assert!(output.contains(message), "{message}");
    }
}
