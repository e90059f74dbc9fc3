//! A launcher for the tests. It starts one group as a JSON file describes, and ends it as `flexor launch` would: when a
//! worker fails, when all have ended, or on SIGTERM; a second SIGTERM kills. It writes the result to another JSON file.
//!
//! `agent-test-launcher run SCENARIO RESULT`, and `agent-test-launcher shim …` as the shim of its own workers.
#![expect(clippy::unwrap_used, reason = "whatever fails here fails a test")]

#[path = "../it/scenario.rs"]
mod scenario;

use std::env;
use std::ffi::{OsStr, OsString};
use std::process::ExitCode;
use std::time::Duration;

use flexor_agent::processes;
use flexor_agent::workers::{
    EnvironmentChanges, FailureReport, GlobalRank, Ladder, LinePrefix, LocalRank, LogFolder, LogOptions, Shim,
    StreamChoice, Streams, WorkerGroup, WorkerSpec, command_line, exec_shim, propagate, root_cause,
};
use scenario::{LaunchResult, Scenario, Termination};
use tokio::signal::unix::{SignalKind, signal};

fn main() -> ExitCode {
    let mut args = env::args_os().skip(1);
    if args.next().as_deref() == Some(OsStr::new("shim")) {
        return exec_shim(args);
    }
    let (scenario, result) = (args.next().unwrap(), args.next().unwrap());
    let scenario: Scenario = serde_json::from_slice(&std::fs::read(scenario).unwrap()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let outcome = runtime.block_on(launch(scenario));
    std::fs::write(result, serde_json::to_vec(&outcome).unwrap()).unwrap();
    ExitCode::SUCCESS
}

async fn launch(scenario: Scenario) -> LaunchResult {
    let mut run = options(&scenario).open("a run").unwrap();
    let (specs, size) = (specs(&scenario), scenario.workers.len());
    let shim = Shim::new(env::current_exe().unwrap(), ["shim"]);
    let mut terminate = signal(SignalKind::terminate()).unwrap();
    let mut outcome = LaunchResult::default();
    for attempt in 0..scenario.attempts {
        let mut group = match WorkerGroup::start(&shim, &specs, &run.attempt(attempt).unwrap()) {
            Ok(group) => group,
            Err(error) => return LaunchResult { refused: Some(error.to_string()), ..outcome },
        };
        let memory = resident_kib();
        loop {
            tokio::select! {
                exit = group.next_exit() => match exit {
                    Some(exit) if exit.outcome.is_success() || !scenario.ends_on_failure => {}
                    Some(_) | None => break,
                },
                _ = terminate.recv() => break,
            }
        }
        outcome.grown_kib = resident_kib().saturating_sub(memory);
        if scenario.drops_the_group {
            continue;
        }
        let grace = Duration::from_millis(scenario.grace_ms);
        let termination = tokio::select! {
            termination = group.end(Ladder { grace, ..Ladder::default() }) => termination,
            _ = terminate.recv() => group.end(Ladder { grace: Duration::ZERO, ..Ladder::default() }).await,
        };
        outcome.termination = process_ids(&termination);
        outcome.exits = group.exits().to_vec();
    }
    let first = &specs[0];
    let command = command_line(&first.program, &first.args);
    outcome.report = FailureReport::new(command, "here".to_owned(), size, &outcome.exits);
    if let (Some(exit), Some(upper)) = (root_cause(&outcome.exits), &scenario.error_file) {
        propagate(exit, upper).unwrap();
    }
    if outcome.report.is_some() {
        run.keep();
    }
    outcome
}

fn process_ids(termination: &processes::Termination) -> Termination {
    let ids = |processes: &[processes::Process]| processes.iter().map(|process| process.pid).collect();
    Termination { took: termination.took, killed: ids(&termination.killed), left: ids(&termination.left) }
}

fn options(scenario: &Scenario) -> LogOptions {
    LogOptions {
        folder: LogFolder::Below(scenario.log_dir.clone()),
        redirects: streams(&scenario.redirects),
        tee: streams(&scenario.tee),
        shown: scenario.shown.as_ref().map(|shown| shown.iter().map(|rank| LocalRank(*rank)).collect()),
        prefix: scenario.prefix.as_ref().map_or_else(LinePrefix::default, LinePrefix::new),
    }
}

fn specs(scenario: &Scenario) -> Vec<WorkerSpec> {
    let mut ranks = 0..;
    let spec = |command: &Vec<String>| {
        let local_rank = ranks.next().unwrap();
        let mut environment = EnvironmentChanges::default();
        environment.set("LOCAL_RANK", local_rank.to_string());
        WorkerSpec {
            local_rank: LocalRank(local_rank),
            rank: Some(GlobalRank(10 + local_rank)),
            role: "trainer".to_owned(),
            program: command[0].clone().into(),
            args: command[1..].iter().map(OsString::from).collect(),
            environment,
        }
    };
    scenario.workers.iter().map(spec).collect()
}

/// Peak memory of this process.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Streams as torchrun writes them: `3`, or `0:1,1:3`.
fn streams(text: &str) -> StreamChoice {
    let of = |digit: &str| {
        let bits: u8 = digit.parse().unwrap();
        Streams { stdout: bits & 1 != 0, stderr: bits & 2 != 0 }
    };
    if !text.contains(':') {
        return StreamChoice::All(of(text));
    }
    let entries = text.split(',').map(|entry| entry.split_once(':').unwrap());
    StreamChoice::ByLocalRank(entries.map(|(rank, digit)| (LocalRank(rank.parse().unwrap()), of(digit))).collect())
}
