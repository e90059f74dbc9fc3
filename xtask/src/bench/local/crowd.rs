//! A thousand pods of `sleep`: their start time, and their cost while idle.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use super::run::{Run, folder, since_epoch};
use super::{Programs, Row};
use crate::bench::process_cost::{cpu_seconds, resident_mib};

const PODS: u32 = 1000;
const LIMIT: Duration = Duration::from_secs(120);
/// How long the idle cluster is measured.
const IDLE: Duration = Duration::from_secs(10);
/// The programs record the last start before the cluster has observed it.
const SETTLE: Duration = Duration::from_secs(3);

const STARTED_MARK: f64 = 20.0;
/// Of a core.
const CPU_MARK: f64 = 0.05;
/// MiB.
const MEMORY_MARK: f64 = 80.0;
const PARENT_MARK: f64 = 1.0;

pub(super) fn run(flexor: &Path, repeats: u32) -> Result<Vec<Row>> {
    let (mut started, mut idle, mut memory, mut parents) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut known, mut ended) = (Vec::new(), Vec::new());
    // It is the same each time, and starts a thousand processes.
    for _ in 0..repeats.min(2) {
        let workdir = folder()?;
        let programs = Programs::in_folder(workdir.path())?;
        let run = Run::start(flexor, workdir.path(), &programs.job("crowd", PODS, "exec sleep 600", false), &[])?;
        let starts = programs.await_starts(PODS as usize, LIMIT)?;
        let last = starts.iter().map(|start| start.at).max().unwrap_or_default();
        started.push(last.saturating_sub(run.begun).as_secs_f64());
        run.await_line(&format!("crowd-worker-{}: Running", PODS - 1), LIMIT)?;
        known.push(since_epoch()?.saturating_sub(run.begun).as_secs_f64());
        std::thread::sleep(SETTLE);
        let before = cpu_seconds(run.id())?;
        std::thread::sleep(IDLE);
        idle.push((cpu_seconds(run.id())? - before) / IDLE.as_secs_f64());
        memory.push(resident_mib(run.id())?);
        let own: Result<Vec<f64>> = starts.iter().map(|start| own_mib(parent_of(start.pid)?)).collect();
        let own = own?;
        #[expect(clippy::cast_precision_loss, reason = "a thousand")]
        parents.push(own.iter().sum::<f64>() / own.len() as f64);
        ended.push(run.interrupt(LIMIT)?);
        eprintln!("{PODS} pods: {:.1} s, idle {:.3} of a core", started[started.len() - 1], idle[idle.len() - 1]);
    }
    Ok(vec![
        Row::within("1,000 pods: until all run", "s", &started, STARTED_MARK)?,
        Row::within("1,000 pods: until the cluster has told that all run", "s", &known, STARTED_MARK)?,
        Row::within("1,000 pods: from Ctrl-C until all are gone", "s", &ended, STARTED_MARK)?,
        Row::within("1,000 pods: CPU of the controller when nothing happens", "cores", &idle, CPU_MARK)?,
        Row::within("1,000 pods: memory of the controller", "MiB", &memory, MEMORY_MARK)?,
        Row::within("1,000 pods: what each pod's parent has for itself", "MiB", &parents, PARENT_MARK)?,
    ])
}

fn parent_of(pid: i32) -> Result<i32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:")).context("a process without a parent")?;
    Ok(line.trim().parse()?)
}

/// Memory that no other process shares, in MiB.
fn own_mib(pid: i32) -> Result<f64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let line = rollup.lines().find_map(|line| line.strip_prefix("Private_Dirty:")).context("no Private_Dirty")?;
    let kib: f64 = line.split_whitespace().next().context("no number")?.parse()?;
    Ok(kib / 1024.0)
}
