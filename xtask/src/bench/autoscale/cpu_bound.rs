//! The quickstart's job, which needs nothing but the cores of this machine: it starts with one worker and sizes itself,
//! against one to four workers set by hand.

use std::time::Duration;

use anyhow::Result;

use super::measured_run::MeasuredRun;
use super::{Row, Setup};
use crate::compile;
use crate::tree::project_root;

const SIZES_BY_HAND: [u32; 4] = [1, 2, 3, 4];
/// The least part of the best size by hand, in percent.
const LEAST: f64 = 90.0;
const RECORDS: u32 = 600_000;
/// Time in which data is made and pods start.
const START: u64 = 8;

pub(super) fn run(setup: &Setup) -> Result<Vec<Row>> {
    let flexor = compile::flexor(&project_root()?, "release")?;
    let (settle, measure) = (setup.sizes.get("settle")?, setup.sizes.get("measure")?);
    let play = |manifest: &str, settle: u32| -> Result<f64> {
        let time = Duration::from_secs(START + u64::from(settle) + u64::from(measure));
        let job = MeasuredRun::play(&flexor, manifest, time)?;
        for event in ["SizeFromPlan", "PlanMeasured"].into_iter().flat_map(|reason| job.events(reason)) {
            eprintln!("  {:.1} s: {}", event["at"].as_f64().unwrap_or(0.0), event["message"].as_str().unwrap_or(""));
        }
        job.pace(job.seconds() - f64::from(measure), job.seconds())
    };
    let mut by_hand = SIZES_BY_HAND.map(|_| Vec::new());
    let mut by_itself = Vec::new();
    for _ in 0..setup.repeats {
        for (workers, paces) in SIZES_BY_HAND.into_iter().zip(&mut by_hand) {
            let pace = play(&manifest(workers, false), 0)?;
            eprintln!("{workers} workers by hand: {pace:.0} steps/s");
            paces.push(pace);
        }
        let pace = play(&manifest(1, true), settle)?;
        eprintln!("by itself: {pace:.0} steps/s");
        by_itself.push(pace);
    }
    let mut rows = Vec::new();
    let mut best = f64::MIN_POSITIVE;
    for (workers, paces) in SIZES_BY_HAND.into_iter().zip(&by_hand) {
        let metric = format!("the quickstart, CPU-bound, sized by itself, against {workers} workers by hand");
        rows.push(Row::rate(&metric, "steps/s", &by_itself, "by hand", paces, 0.0)?.for_information());
        best = best.max(median(paces));
    }
    let parts: Vec<f64> = by_itself.iter().map(|pace| 100.0 * pace / best).collect();
    let metric = "the quickstart, CPU-bound, sized by itself, of the best size by hand";
    rows.push(Row::rate_at_least(metric, "%", &parts, "by hand", &[100.0], LEAST)?);
    Ok(rows)
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

/// The quickstart's job for many epochs, with one server. The first of the workers is the chief.
fn manifest(workers: u32, sizes_itself: bool) -> String {
    let mode = if sizes_itself { "single-job" } else { "manual" };
    format!(
        "apiVersion: elastic.iml.github.io/v1alpha1
kind: ElasticJob
metadata:
  name: quickstart
spec:
  distributionStrategy: ParameterServerStrategy
  optimizeMode: {mode}
  replicaSpecs:
    ps:
      replicas: 1
      autoScale: {sizes_itself}
      template:
        spec:
          containers:
            - name: main
              image: flexor:latest
              command: [flexor, ps]
    worker:
      replicas: {workers}
      autoScale: {sizes_itself}
      template:
        spec:
          initContainers:
            - name: data
              image: flexor:latest
              command: [flexor, data, gen, clicks, --out=quickstart.csv, --if-missing, --records={RECORDS}]
          containers:
            - name: main
              image: flexor:latest
              command: [flexor, worker, --model=deepfm, --data=quickstart.csv, --epochs=1000]
"
    )
}
