//! A job of four idle pods, a master and three workers: the time from the start of `flexor run` until all of them run,
//! and until its end. The time of starting the programs by hand is subtracted.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::run::{Run, folder};
use super::{Programs, Row};

const WORKERS: u32 = 3;
const LIMIT: Duration = Duration::from_secs(60);
/// Seconds beyond the programs' own time.
const RUNNING_MARK: f64 = 0.1;
const END_MARK: f64 = 0.3;

pub(super) fn run(flexor: &Path, repeats: u32) -> Result<Vec<Row>> {
    let (mut running, mut ends) = (Vec::new(), Vec::new());
    // The first time fills caches.
    for repeat in 0..=repeats {
        let workdir = folder()?;
        let programs = Programs::in_folder(workdir.path())?;
        let alone = by_hand()?;
        let run = Run::start(flexor, workdir.path(), &programs.job("empty", WORKERS, "exit 0", true), &[])?;
        let begun = run.begun;
        let lasted = run.finish(LIMIT)?;
        let starts = programs.starts()?;
        let last = starts.iter().map(|start| start.at).max().unwrap_or_default();
        if repeat > 0 {
            running.push(last.saturating_sub(begun).as_secs_f64() - alone);
            ends.push(lasted - alone);
        }
    }
    Ok(vec![
        Row::within("an empty job of 4 pods: until all run", "s", &running, RUNNING_MARK)?,
        Row::within("an empty job of 4 pods: until its end", "s", &ends, END_MARK)?,
    ])
}

/// The seconds that the programs need without a cluster.
fn by_hand() -> Result<f64> {
    let begun = Instant::now();
    let mut started = Vec::new();
    for _ in 0..WORKERS {
        started.push(Command::new("sh").args(["-c", "echo $(date +%s%N) >/dev/null"]).spawn()?);
    }
    for mut child in started {
        child.wait()?;
    }
    Ok(begun.elapsed().as_secs_f64())
}
