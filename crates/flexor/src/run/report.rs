//! `flexor run --report DIR`: how it went, to be kept: JSON for programs, tables for a spreadsheet, a picture for people,
//! and the logs of the pods that were there at the end.
//!
//! The folder is made and tried before anything runs. All times are seconds since the start.

mod axis;
mod charts;
mod document;
mod earlier;
mod lanes;
pub mod logs;
mod pace;
mod svg;
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

use super::account::Account;
use super::history::{History, Sample};

/// The file that says everything.
const DOCUMENT: &str = "report.json";

/// Where a report goes.
pub struct Report {
    folder: PathBuf,
}

/// All that is known of a run when it is over.
pub struct Run {
    /// Since the Unix epoch: when it began, or the oldest of its jobs, where one was there before.
    pub from: UnixTime,
    /// When it was over.
    pub to: UnixTime,
    /// How each job went.
    pub jobs: Vec<JobRun>,
    /// The lives of all pods.
    pub pod_history: Vec<PodRun>,
    /// What has happened.
    pub events: Vec<ClusterEvent>,
}

/// All that is known of one job.
pub struct JobRun {
    /// How it went, in numbers.
    pub account: Account,
    /// The job itself.
    pub view: JobView,
    /// How its training stood, now and then.
    pub samples: Vec<Sample>,
}

impl Run {
    /// What is known now.
    pub fn of(cluster: &Cluster, accounts: &[Account], history: &History, now: UnixTime) -> Self {
        let mut jobs = Vec::new();
        for view in cluster.jobs() {
            let Some(account) = accounts.iter().find(|account| account.key == view.key) else { continue };
            let mut samples: Vec<Sample> =
                history.samples(&view.key).iter().map(|sample| with_nodes(sample, &view)).collect();
            if view.training.as_ref().is_some_and(|training| training.servers.is_some()) {
                pace::as_it_went(&mut samples);
            }
            jobs.push(JobRun { account: account.clone(), view, samples });
        }
        let from = jobs.iter().map(|job| job.view.created_at).chain([history.began_at]).min().unwrap_or(now);
        Self { from, to: now, jobs, pod_history: cluster.pod_history(), events: history.events().to_vec() }
    }

    /// A moment of it, in seconds.
    pub fn at(&self, moment: UnixTime) -> f64 {
        moment.since_epoch().as_secs_f64() - self.from.since_epoch().as_secs_f64()
    }

    /// The lives of a job's pods.
    fn lives_of<'a>(&'a self, job: &'a JobKey) -> impl Iterator<Item = &'a PodRun> {
        self.pod_history.iter().filter(move |pod_run| pod_run.job == *job)
    }
}

/// How far a life is, or was, in a word. What a pod that is taken away answers says nothing about its program.
fn end(pod_run: &PodRun) -> String {
    match pod_run.phase {
        PodPhase::Failed if pod_run.taken_away => "Removed".to_owned(),
        phase => format!("{phase:?}"),
    }
}

/// A sample that says with how many nodes the job trained then, also where they do not meet and its master knows of none.
fn with_nodes(sample: &Sample, job: &JobView) -> Sample {
    let mut sample = sample.clone();
    let span = job.timeline.spans.iter().rev().find(|span| span.from <= sample.at);
    if let (None, Some(span)) = (sample.training.round, span) {
        sample.training.nodes = span.nodes;
    }
    sample
}

impl Report {
    /// Makes the folder and sees whether it can be written to.
    pub fn prepare(folder: &Path) -> anyhow::Result<Self> {
        let refused = || format!("--report {}: it cannot be written there; name another folder", folder.display());
        fs::create_dir_all(folder).and_then(|()| tempfile::tempfile_in(folder)).with_context(refused)?;
        Ok(Self { folder: folder.to_owned() })
    }

    /// Where the logs are kept.
    pub fn logs(&self) -> PathBuf {
        self.folder.join("logs")
    }

    /// Writes everything, in the place of what an earlier report has written there. The logs are copied while they are
    /// there, so this comes before the cluster is drained.
    pub fn write(&self, cluster: &Cluster, run: &Run) -> anyhow::Result<()> {
        earlier::remove_logs(&self.folder.join(DOCUMENT), &self.logs());
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
            fs::write(&path, text).with_context(|| format!("the report: {} cannot be written", path.display()))?;
        }
        logs::keep(cluster, &self.logs())
    }
}
