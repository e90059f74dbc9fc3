//! Runs one test program and reads its event for each test.
//!
//! A test is chosen by its exact path, so that a name that contains another picks nothing extra. When a program hangs
//! or dies, only the tests that it had not finished count as failed. [`super::report`] adds up.

mod events;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::LazyLock;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use self::events::Event;
use super::build::TestProgram;
use super::report::{self, Outcome, Verdict};
use super::tier::Tier;

/// A program without output for this long is ended.
const SILENCE: Duration = Duration::from_secs(600);
/// How long a program may take to exit after its last test.
const FAREWELL: Duration = Duration::from_secs(60);

impl TestProgram {
    /// The paths of all its tests.
    pub(super) fn list(&self) -> Result<Vec<String>> {
        let output = self.command().args(["--list", "--format", "terse"]).output();
        let output = output.with_context(|| format!("cannot start {}", self.executable.display()))?;
        ensure!(output.status.success(), "{} does not list its tests: {}", self.executable.display(), output.status);
        let listing = String::from_utf8(output.stdout).context("a test's path is not UTF-8")?;
        Ok(listing.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
    }

    /// Runs the given tests of this program; `say` gets a line for each result at once.
    pub(super) fn run(
        &self,
        flexor: &Path,
        tests: &[String],
        tier: Tier,
        say: &mut dyn FnMut(String),
    ) -> Result<Vec<Outcome>> {
        let mut child = self
            .test_command(flexor, tests, tier)
            .spawn()
            .with_context(|| format!("cannot start {}", self.executable.display()))?;
        let events = listen(&mut child)?;

        let started = Instant::now();
        let mut progress = RunProgress::new(self, tests);
        let silent = loop {
            match events.recv_timeout(SILENCE) {
                Ok(Event::Finished { name, verdict, time, output }) => {
                    let outcome = progress.finished(name, verdict, time, output);
                    print_outcome(outcome, tier, say);
                }
                Ok(Event::Started { name }) => progress.started(&name),
                Ok(Event::Noise(line)) => say(line),
                Ok(Event::AllDone) | Err(RecvTimeoutError::Disconnected) => break false,
                Err(RecvTimeoutError::Timeout) => break true,
            }
        };
        let status = if silent { end(&mut child)? } else { wait(&mut child)? };
        let reason = if silent {
            format!("the test program said nothing for {} s and was ended", SILENCE.as_secs())
        } else {
            format!("the test program ended ({status}) before this test did")
        };
        let outcomes = progress.over(status, &reason, |outcome| print_outcome(outcome, tier, say));
        let name = format!("{} {}", self.package, self.target);
        if let Some(failed) = outcomes.iter().find(|outcome| outcome.verdict == Verdict::Failed) {
            say(replay_line(&name, tier, &failed.test));
        }
        say(report::group_line(tier, &name, &outcomes, started.elapsed()));
        Ok(outcomes)
    }

    fn test_command(&self, flexor: &Path, tests: &[String], tier: Tier) -> Command {
        let mut command = self.command();
        command.env(flexor_model::env::BIN.name, flexor);
        command.env("PROPTEST_RNG_SEED", proptest_seed());
        // libtest prints the time and the output of each test only in its JSON format, which it calls unstable. The
        // toolchain is pinned, so the format cannot change; this variable enables it on stable.
        command.env("RUSTC_BOOTSTRAP", "1");
        command.args(["-Z", "unstable-options", "--format=json", "--report-time", "--show-output"]);
        command.args(tier.threads().map(|threads| format!("--test-threads={threads}")));
        command.arg("--exact").args(tests).stdout(Stdio::piped());
        command
    }

    /// The program with the surroundings that `cargo test` gives it, and where insta finds the snapshots.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.executable);
        command.current_dir(&self.folder).stdin(Stdio::null());
        command.env("CARGO_MANIFEST_DIR", &self.folder).env("CARGO_PKG_NAME", &self.package);
        command.env("INSTA_WORKSPACE_ROOT", &self.checkout);
        command
    }
}

/// The results so far of one run.
struct RunProgress<'a> {
    program: &'a TestProgram,
    /// Tests without a result yet, and since when they run.
    open: BTreeMap<String, Option<Instant>>,
    outcomes: Vec<Outcome>,
}

impl<'a> RunProgress<'a> {
    fn new(program: &'a TestProgram, tests: &[String]) -> RunProgress<'a> {
        RunProgress { program, open: tests.iter().map(|test| (test.clone(), None)).collect(), outcomes: Vec::new() }
    }

    fn started(&mut self, name: &str) {
        if let Some(since) = self.open.get_mut(name) {
            *since = Some(Instant::now());
        }
    }

    fn finished(&mut self, name: String, verdict: Verdict, time: Duration, output: String) -> &Outcome {
        self.open.remove(&name);
        let program = format!("{} {}", self.program.package, self.program.target);
        self.outcomes.push(Outcome { program, test: name, verdict, time, output });
        &self.outcomes[self.outcomes.len() - 1]
    }

    /// Fails the tests without a result, running and waiting ones alike. Fails the program itself if it exited with an
    /// error although none of its tests failed.
    fn over(mut self, status: ExitStatus, reason: &str, mut each: impl FnMut(&Outcome)) -> Vec<Outcome> {
        for (name, since) in std::mem::take(&mut self.open) {
            let time = since.map_or(Duration::ZERO, |since| since.elapsed());
            each(self.finished(name, Verdict::Failed, time, reason.to_owned()));
        }
        if !status.success() && self.outcomes.iter().all(|outcome| outcome.verdict != Verdict::Failed) {
            let output = format!("the test program ended with {status} although none of its tests failed");
            each(self.finished("(exit)".to_owned(), Verdict::Failed, Duration::ZERO, output));
        }
        self.outcomes
    }
}

/// The seed of tests with proptest: that of `FLEXOR_SEED`, or one for each run of `cargo xtask test`. So a test that runs
/// once more fails again.
fn proptest_seed() -> OsString {
    static CHOSEN: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(()));
    std::env::var_os(flexor_model::env::SEED.name).unwrap_or_else(|| CHOSEN.to_string().into())
}

/// How to get the same random cases again. Other random tests print a line of their own.
fn replay_line(program: &str, tier: Tier, test: &str) -> String {
    let (variable, seed) = (flexor_model::env::SEED.name, proptest_seed());
    let (seed, tier) = (seed.display(), tier.name());
    format!("{program}: if the test uses proptest, again: {variable}={seed} cargo xtask test --tier {tier} -- {test}")
}

/// Prints failures at once and in full; tests of the slower tiers one by one.
fn print_outcome(outcome: &Outcome, tier: Tier, say: &mut dyn FnMut(String)) {
    let seconds = outcome.time.as_secs_f64();
    match &outcome.verdict {
        Verdict::Failed => {
            say(format!("---- FAILED {} ({})\n{}\n----", outcome.test, outcome.program, outcome.output.trim_end()));
        }
        Verdict::Passed if tier != Tier::Unit => say(format!("{:<8} {} {seconds:.1} s", tier.name(), outcome.test)),
        Verdict::Skipped(_) if tier != Tier::Unit => say(format!("{:<8} {} skipped", tier.name(), outcome.test)),
        Verdict::Passed | Verdict::Skipped(_) | Verdict::Unsteady => {}
    }
}

/// Reads the program's lines on a separate thread, so that silence can be noticed.
fn listen(child: &mut Child) -> Result<Receiver<Event>> {
    let output = child.stdout.take().context("the test program's output is not connected")?;
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            let events = Event::from_line(&String::from_utf8_lossy(&line));
            if events.into_iter().any(|event| sender.send(event).is_err()) {
                return;
            }
        }
    });
    Ok(receiver)
}

/// Waits for a program whose tests are over; ends one that does not exit.
fn wait(child: &mut Child) -> Result<ExitStatus> {
    let deadline = Instant::now() + FAREWELL;
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    end(child)
}

fn end(child: &mut Child) -> Result<ExitStatus> {
    child.kill().context("cannot end a test program")?;
    Ok(child.wait()?)
}

#[cfg(test)]
mod tests;
