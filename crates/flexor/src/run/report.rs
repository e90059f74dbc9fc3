//! `flexor run --report DIR`: JSON for programs, CSV tables, a picture, and the logs of the pods at the end of the run.
//!
//! The folder is created and checked before anything runs. All times are seconds since the start.

mod charts;
mod document;
mod earlier_report;
mod lanes;
pub mod logs;
mod pace;
mod tables;
#[cfg(test)]
mod tests;
mod timeline;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use flexor_engine::controller::PodPhase;
use flexor_local::cluster::{Cluster, ClusterEvent, JobKey, JobView, PodRun};
use flexor_model::UnixTime;

use super::account::JobAccount;
use super::history::{History, Sample};

/// The file with all figures.
const DOCUMENT: &str = "report.json";

/// The folder of a report.
pub struct Report {
    folder: PathBuf,
}

/// The contents of a report.
pub struct RunRecord {
    /// Start of the run or creation of its oldest resumed job, since the Unix epoch.
    pub from: UnixTime,
    /// End of the run, since the Unix epoch.
    pub to: UnixTime,
    pub jobs: Vec<JobRun>,
    /// All incarnations of all pods.
    pub pod_history: Vec<PodRun>,
    pub events: Vec<ClusterEvent>,
}

/// One job of a report.
pub struct JobRun {
    pub account: JobAccount,
    pub view: JobView,
    pub samples: Vec<Sample>,
}

impl RunRecord {
    /// Collects the contents of a report.
    pub fn of(cluster: &Cluster, accounts: &[JobAccount], history: &History, now: UnixTime) -> Self {
        let mut jobs = Vec::new();
        for view in cluster.jobs() {
            let Some(account) = accounts.iter().find(|account| account.key == view.key) else { continue };
            let mut samples: Vec<Sample> =
                history.samples(&view.key).iter().map(|sample| with_nodes(sample, &view)).collect();
            if view.training.as_ref().is_some_and(|training| training.servers.is_some()) {
                pace::fill_in(&mut samples);
            }
            jobs.push(JobRun { account: account.clone(), view, samples });
        }
        let from = jobs.iter().map(|job| job.view.created_at).chain([history.began_at]).min().unwrap_or(now);
        Self { from, to: now, jobs, pod_history: cluster.pod_history(), events: history.events().to_vec() }
    }

    /// Converts a time since the Unix epoch to seconds since the start.
    pub fn at(&self, moment: UnixTime) -> f64 {
        moment.since_epoch().as_secs_f64() - self.from.since_epoch().as_secs_f64()
    }

    /// All incarnations of a job's pods.
    fn pod_runs<'a>(&'a self, job: &'a JobKey) -> impl Iterator<Item = &'a PodRun> {
        self.pod_history.iter().filter(move |pod_run| pod_run.job == *job)
    }
}

/// The final phase of a pod. A removed pod fails by its termination, which says nothing about its program.
fn phase(pod_run: &PodRun) -> String {
    match pod_run.phase {
        PodPhase::Failed if pod_run.taken_away => "Removed".to_owned(),
        phase => format!("{phase:?}"),
    }
}

/// Adds the number of nodes to a sample of a job without a rendezvous, whose master does not count nodes.
fn with_nodes(sample: &Sample, job: &JobView) -> Sample {
    let mut sample = sample.clone();
    let span = job.timeline.spans.iter().rev().find(|span| span.from <= sample.at);
    if let (None, Some(span)) = (sample.training.round, span) {
        sample.training.nodes = span.nodes;
    }
    sample
}

impl Report {
    /// Creates the folder and checks that it is writable.
    pub fn prepare(folder: &Path) -> anyhow::Result<Self> {
        let refused = || format!("--report {}: the folder is not writable; name another one", folder.display());
        fs::create_dir_all(folder).and_then(|()| tempfile::tempfile_in(folder)).with_context(refused)?;
        Ok(Self { folder: folder.to_owned() })
    }

    /// The folder of the pods' logs.
    pub fn logs(&self) -> PathBuf {
        self.folder.join("logs")
    }

    /// Writes the report, replacing an earlier one. Must run before the cluster is drained, because draining removes the
    /// logs.
    pub fn write(&self, cluster: &Cluster, run: &RunRecord) -> anyhow::Result<()> {
        earlier_report::remove_logs(&self.folder.join(DOCUMENT), &self.logs());
        let files = [
            (DOCUMENT, format!("{}\n", serde_json::to_string_pretty(&document::of(run))?)),
            ("pods.csv", tables::pods(run)),
            ("events.csv", tables::events(run)),
            ("world.csv", tables::world(run)),
            ("training.csv", tables::training(run)),
            ("servers.csv", tables::servers(run)),
            ("timeline.svg", timeline::draw(run)),
        ];
        for (name, text) in files {
            let path = self.folder.join(name);
            fs::write(&path, text).with_context(|| format!("the report: cannot write {}", path.display()))?;
        }
        logs::copy(cluster, &self.logs())
    }
}
