//! Kills a pod's program and measures the time until its replacement's program runs. Each pod is killed once, because a
//! crash-looping pod backs off on purpose.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::run::{Run, folder, since_epoch};
use super::{Programs, Row};

const WORKERS: u32 = 30;
const LIMIT: Duration = Duration::from_secs(30);
const HALF_MARK: f64 = 0.02;
const WORST_MARK: f64 = 0.1;

pub(super) fn run(flexor: &Path, repeats: u32) -> Result<Vec<Row>> {
    let mut times = Vec::new();
    for _ in 0..repeats {
        let workdir = folder()?;
        let programs = Programs::in_folder(workdir.path())?;
        let _run = Run::start(flexor, workdir.path(), &programs.job("killed", WORKERS, "exec sleep 600", true), &[])?;
        let mut starts = programs.await_starts(WORKERS as usize, LIMIT)?;
        for number in 0..WORKERS {
            // Each replacement has settled before the next kill.
            std::thread::sleep(Duration::from_millis(100));
            let name = format!("killed-worker-{number}");
            let Some(victim) = starts.iter().filter(|start| start.pod == name).max_by_key(|start| start.at) else {
                anyhow::bail!("no {name} was started");
            };
            let killed_at = since_epoch()?;
            kill(Pid::from_raw(victim.pid), Signal::SIGKILL)?;
            starts = programs.await_starts(starts.len() + 1, LIMIT)?;
            let last = starts.iter().map(|start| start.at).max().unwrap_or_default();
            times.push(last.saturating_sub(killed_at).as_secs_f64());
        }
    }
    times.sort_by(f64::total_cmp);
    let worst = times[(times.len() * 99 / 100).min(times.len() - 1)];
    Ok(vec![
        Row::within("a pod is gone: until its replacement's program is started, p50", "s", &times, HALF_MARK)?,
        Row::within("a pod is gone: until its replacement's program is started, p99", "s", &[worst], WORST_MARK)?,
    ])
}
