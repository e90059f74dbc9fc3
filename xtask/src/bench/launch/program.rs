//! The launched program: it records its start, waits for a second, and exits with 0.
//!
//! It is a shell, so its own start costs almost nothing; [`started_alone`] measures that cost.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

/// How many of it are started.
pub(super) const PROCESSES: u32 = 8;

/// Writes the size of its world and the nanoseconds since the epoch into a file with the name of its rank.
const SCRIPT: &str = r#"echo "$WORLD_SIZE $(date +%s%N)" >"$0/$RANK"; exec sleep 1"#;

/// Importing torch takes seconds, on a busy machine many.
const LIMIT: Duration = Duration::from_secs(60);

/// The program with a folder to write to.
pub(super) struct Program {
    folder: TempDir,
}

impl Program {
    pub(super) fn new() -> Result<Program> {
        Ok(Program { folder: tempfile::tempdir().context("cannot make a folder for the launched program")? })
    }

    /// The command line.
    pub(super) fn words(&self) -> Result<[&str; 4]> {
        let folder = self.folder.path().to_str().context("the folder of the launched program has an odd name")?;
        Ok(["sh", "-c", SCRIPT, folder])
    }

    /// Waits until all of it have been started in one world, and gives the moment of the last. `launcher` must not end
    /// before.
    pub(super) fn await_started(&self, launcher: &mut Child) -> Result<SystemTime> {
        let begun = Instant::now();
        loop {
            if let Some(last) = last_start(self.folder.path()) {
                return Ok(last);
            }
            if let Some(status) = launcher.try_wait()? {
                bail!("the launcher ended with {status} before {PROCESSES} processes were started");
            }
            if begun.elapsed() > LIMIT {
                bail!("{PROCESSES} processes were not started within {LIMIT:?}");
            }
            // The files carry their times, so the interval is in no measurement.
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The seconds that it takes to start all processes without a launcher.
pub(super) fn started_alone() -> Result<f64> {
    let program = Program::new()?;
    let [shell, arguments @ ..] = program.words()?;
    let begun = SystemTime::now();
    let mut children = Vec::new();
    for rank in 0..PROCESSES {
        let mut command = Command::new(shell);
        command.args(arguments).env("RANK", rank.to_string()).env("WORLD_SIZE", PROCESSES.to_string());
        children.push(command.stdin(Stdio::null()).spawn().context("cannot start sh")?);
    }
    for child in &mut children {
        child.wait()?;
    }
    let last = last_start(program.folder.path()).context("a program that was started by hand wrote nothing")?;
    Ok(last.duration_since(begun).unwrap_or_default().as_secs_f64())
}

/// When the last process was started; `None` before all have reported.
fn last_start(folder: &Path) -> Option<SystemTime> {
    let start = |rank: u32| start(&fs::read_to_string(folder.join(rank.to_string())).ok()?);
    (0..PROCESSES).map(start).collect::<Option<Vec<_>>>()?.into_iter().max()
}

/// The start time that one process wrote. A process of another world does not count, and a line without its end is not
/// complete.
fn start(text: &str) -> Option<SystemTime> {
    let (world, nanos) = text.strip_suffix('\n')?.split_once(' ')?;
    let is_wanted = world.parse() == Ok(PROCESSES);
    nanos.parse().ok().filter(|_| is_wanted).map(|nanos| SystemTime::UNIX_EPOCH + Duration::from_nanos(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_complete_line_of_the_right_world_counts() {
        assert_eq!(start("8 1500000000\n"), Some(SystemTime::UNIX_EPOCH + Duration::from_millis(1500)));
        assert_eq!(start("8 15"), None);
        assert_eq!(start("4 1500000000\n"), None);
        assert_eq!(start(""), None);
    }
}
