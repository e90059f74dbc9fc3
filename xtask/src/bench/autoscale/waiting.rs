//! The tutorial's job on this machine: one chief and one server first, then the workers that it wants.
//!
//! Every batch waits for 30 ms as if its data were far away, so four workers are four times as fast on any machine. The
//! tutorial publishes 30 and 100 steps/s, and says that it takes about three minutes.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

use super::measured_run::MeasuredRun;
use super::{Row, Setup};
use crate::compile;
use crate::tree::project_root;

const MANIFEST: &str = "examples/deepctr/auto-scaling.yaml";
const PEER: &str = "DLRover's tutorial";
const PUBLISHED: [f64; 3] = [30.0, 100.0, 180.0];
/// How long it runs.
const TIME: Duration = Duration::from_secs(60);
/// By how much it becomes faster, and within how many seconds of its first batch.
const FASTER: f64 = 3.0;
const WITHIN: f64 = 30.0;
/// The new workers fill their caches for so long.
const SETTLING: f64 = 3.0;

pub(super) fn run(setup: &Setup) -> Result<Vec<Row>> {
    let root = project_root()?;
    let flexor = compile::flexor(&root, "release")?;
    let manifest = fs::read_to_string(root.join(MANIFEST)).with_context(|| format!("cannot read {MANIFEST}"))?;
    let (mut before, mut after, mut faster, mut until) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..setup.repeats {
        let job = MeasuredRun::play(&flexor, &manifest, TIME)?;
        let (first, plan) = (job.first_step()?, job.first_event("SizeFromPlan").context("it made no plan")?);
        let workers = job.pods().filter(|(role, _)| *role == "worker").map(|(_, at)| at);
        let grown = workers.fold(plan, f64::max);
        let slow = job.pace(first, plan)?;
        let fast = job.pace(grown + SETTLING, job.seconds())?;
        let reached = job.reached(FASTER * slow).map_or(f64::INFINITY, |at| at - first);
        eprintln!("{slow:.1} → {fast:.1} steps/s; three times as fast {reached:.1} s after the first batch");
        for event in ["SizeFromPlan", "PlanMeasured"].into_iter().flat_map(|reason| job.events(reason)) {
            eprintln!("  {:.1} s: {}", event["at"].as_f64().unwrap_or(0.0), event["message"].as_str().unwrap_or(""));
        }
        before.push(slow);
        after.push(fast);
        faster.push(fast / slow);
        until.push(reached);
    }
    let metric = |what: &str| format!("the tutorial's job: {what}");
    let published = |what: &str, unit, ours: &[f64], of: f64| Row::published(&metric(what), unit, ours, PEER, of);
    let ratio = PUBLISHED[1] / PUBLISHED[0];
    Ok(vec![
        published("one chief", "steps/s", &before, PUBLISHED[0])?.for_information(),
        published("with three workers", "steps/s", &after, PUBLISHED[1])?.for_information(),
        Row::rate_at_least(&metric("as fast as at first"), "times", &faster, PEER, &[ratio], FASTER)?
            .beside_published(),
        Row::seconds_within(&metric("until three times as fast"), &until, PEER, &[PUBLISHED[2]], WITHIN)?
            .beside_published(),
    ])
}
