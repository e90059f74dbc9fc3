//! What a run was like: a sample each second, and the figures that reports compare.

use serde::Serialize;

use super::{Experiment, Policy};

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The name of the experiment.
    pub experiment: String,
    pub policy: Policy,
    /// Seconds that a pod takes to end.
    pub grace: u32,
    /// All cores, in thousandths.
    pub total: u64,
    /// One sample for each second from 0 on.
    pub samples: Vec<Sample>,
    /// The jobs, in the order of submission.
    pub jobs: Vec<JobReport>,
    /// Bound trainers that were ended before their job was.
    pub trainers_ended: u32,
    /// Every change of the online service's replicas.
    pub steps: Vec<Step>,
}

/// The cluster at the end of a second.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Sample {
    pub second: u32,
    /// CPU requests of running pods, pods that are ending and the standing load included, in thousandths of a core.
    pub cpu: u64,
    /// Running trainers of each job.
    pub trainers: Vec<u32>,
    /// Jobs that are submitted and have no running trainer yet.
    pub pending_jobs: u32,
    /// Replicas that the online service should have.
    pub online_wanted: u32,
    /// Its running pods.
    pub online_running: u32,
    /// Trainers that wait for a node.
    pub unbound_trainers: u32,
}

/// The fate of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct JobReport {
    /// The second of its submission.
    pub submitted: u32,
    /// The first second with a running trainer.
    pub started: Option<u32>,
    /// The first second with all of its least trainers, its servers and its master running.
    pub complete: Option<u32>,
    /// The second in which its work was done.
    pub succeeded: Option<u32>,
}

/// A change of the online service's replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Step {
    pub second: u32,
    /// The replicas from then on.
    pub wanted: u32,
    /// Seconds until that many ran, if they ever did, perhaps after the next change.
    pub reached_after: Option<u32>,
}

impl Report {
    fn last(&self) -> u32 {
        self.samples.last().map_or(0, |sample| sample.second)
    }

    fn pending(&self) -> impl Iterator<Item = u32> + '_ {
        let submitted = self.jobs.iter().filter(|job| job.submitted <= self.last());
        submitted.map(|job| job.started.unwrap_or(self.last()) - job.submitted)
    }

    /// Mean seconds from submission to the first running trainer. A job that never starts counts until the end.
    pub fn mean_pending(&self) -> f64 {
        mean(self.pending().map(f64::from))
    }

    /// The longest of them.
    pub fn longest_pending(&self) -> u32 {
        self.pending().max().unwrap_or(0)
    }

    /// Jobs without a trainer until the end.
    pub fn never_started(&self) -> usize {
        self.jobs.iter().filter(|job| job.started.is_none()).count()
    }

    /// The most jobs that were pending at once.
    pub fn peak_pending(&self) -> u32 {
        self.samples.iter().map(|sample| sample.pending_jobs).max().unwrap_or(0)
    }

    /// Mean CPU use in percent, over the seconds from one to another.
    pub fn cpu_percent(&self, from: u32, to: u32) -> f64 {
        let share = |sample: &Sample| 100.0 * sample.cpu as f64 / self.total as f64;
        mean(self.between(from, to).map(share))
    }

    fn between(&self, from: u32, to: u32) -> impl Iterator<Item = &Sample> {
        self.samples.iter().filter(move |sample| (from..=to).contains(&sample.second))
    }

    /// Jain's index of the trainers of all jobs at a second: 1 if all have the same number.
    pub fn jain(&self, second: u32) -> f64 {
        let Some(sample) = self.samples.iter().find(|sample| sample.second == second) else { return 0.0 };
        let sizes = || sample.trainers.iter().map(|trainers| f64::from(*trainers));
        let (sum, squares): (f64, f64) = (sizes().sum(), sizes().map(|size| size * size).sum());
        if squares == 0.0 { 0.0 } else { sum * sum / (squares * sizes().count() as f64) }
    }

    /// Running trainers of all jobs at a second.
    pub fn trainers(&self, second: u32) -> u32 {
        self.between(second, second).map(|sample| sample.trainers.iter().sum::<u32>()).sum()
    }

    /// The mean over all seconds of the part of the wanted online pods that ran.
    pub fn attainment(&self) -> Option<f64> {
        let parts = || self.samples.iter().filter(|sample| sample.online_wanted > 0).map(attained);
        parts().next().map(|_| mean(parts()))
    }

    /// The same as the ratio of the sums, over the seconds from one on.
    pub fn attainment_from(&self, second: u32) -> Option<f64> {
        let sum = |of: fn(&Sample) -> u32| self.between(second, self.last()).map(|s| u64::from(of(s))).sum::<u64>();
        let wanted = sum(|sample| sample.online_wanted);
        let ran = sum(|sample| sample.online_running.min(sample.online_wanted));
        (wanted > 0).then(|| ran as f64 / wanted as f64)
    }

    /// Mean seconds from submission to success, of the jobs that succeeded.
    pub fn mean_running(&self) -> Option<f64> {
        let times = || self.jobs.iter().filter_map(|job| Some(f64::from(job.succeeded? - job.started?)));
        times().next().map(|_| mean(times()))
    }

    /// Samples as comma-separated values with a header.
    pub fn csv(&self) -> String {
        let mut text =
            String::from("second,cpu_percent,trainers,pending_jobs,online_wanted,online_running,trainers_of_jobs\n");
        for sample in &self.samples {
            let percent = 100.0 * sample.cpu as f64 / self.total as f64;
            let all: u32 = sample.trainers.iter().sum();
            let each: Vec<String> = sample.trainers.iter().map(u32::to_string).collect();
            text.push_str(&format!(
                "{},{percent:.2},{all},{},{},{},{}\n",
                sample.second,
                sample.pending_jobs,
                sample.online_wanted,
                sample.online_running,
                each.join("|")
            ));
        }
        text
    }
}

fn attained(sample: &Sample) -> f64 {
    f64::from(sample.online_running.min(sample.online_wanted)) / f64::from(sample.online_wanted)
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
    if count == 0 { 0.0 } else { sum / f64::from(count) }
}

impl Step {
    /// The steps of an experiment, and when each was reached.
    pub(super) fn of(experiment: &Experiment, samples: &[Sample]) -> Vec<Self> {
        let Some(online) = &experiment.online else { return Vec::new() };
        let reached = |(second, wanted): &(u32, u32)| {
            let mut after = samples.iter().filter(|sample| sample.second >= *second);
            let found = after.find(|sample| sample.online_running >= *wanted);
            Self { second: *second, wanted: *wanted, reached_after: found.map(|sample| sample.second - second) }
        };
        online.steps.iter().map(reached).collect()
    }
}
