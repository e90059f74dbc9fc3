//! The account of a run on the real control plane, in the form of the simulator's.

use std::time::Instant;

use flexor_sched::sim::{Experiment, JobReport, Report, Sample, Step};

use super::pods::{Pods, Role};

pub(super) struct Account<'a> {
    script: &'a Experiment,
    jobs: Vec<JobAccount>,
    samples: Vec<Sample>,
}

#[derive(Debug, Clone, Default)]
struct JobAccount {
    submitted: Option<Instant>,
    /// Trainer-seconds so far.
    worked: u64,
    /// The second in which all of its base ran.
    complete: Option<u32>,
    succeeded: Option<u32>,
}

impl<'a> Account<'a> {
    pub(super) fn of(script: &'a Experiment) -> Self {
        Self { script, jobs: vec![JobAccount::default(); script.jobs.len()], samples: Vec::new() }
    }

    pub(super) fn submitted(&mut self, job: usize, at: Instant) {
        self.jobs[job].submitted = Some(at);
    }

    pub(super) fn succeeded(&mut self, job: usize, second: u32) {
        self.jobs[job].succeeded.get_or_insert(second);
    }

    /// Jobs that have had their work, and have not succeeded yet.
    pub(super) fn done(&self) -> Vec<usize> {
        let is_done = |job: usize| self.script.jobs[job].work.is_some_and(|work| self.jobs[job].worked >= work);
        self.unfinished().into_iter().filter(|job| is_done(*job)).collect()
    }

    /// Submitted jobs that have not succeeded yet.
    pub(super) fn unfinished(&self) -> Vec<usize> {
        let is_unfinished = |job: &JobAccount| job.submitted.is_some() && job.succeeded.is_none();
        (0..self.jobs.len()).filter(|job| is_unfinished(&self.jobs[*job])).collect()
    }

    /// Looks at the pods at the end of a second.
    pub(super) fn sample(&mut self, second: u32, pods: &Pods) {
        let trainers: Vec<u32> = (0..self.jobs.len()).map(|job| pods.running(job, Role::Trainer)).collect();
        for (at, (job, trainers)) in self.jobs.iter_mut().zip(&trainers).enumerate() {
            let shape = &self.script.jobs[at].shape;
            let (servers, masters) = (pods.running(at, Role::Server), pods.running(at, Role::Master));
            job.worked += u64::from(*trainers);
            if *trainers >= shape.min && servers == shape.servers && masters == 1 {
                job.complete.get_or_insert(second);
            }
        }
        let is_pending = |job: &usize| pods.started(*job).is_none();
        self.samples.push(Sample {
            second,
            cpu: pods.running_cpu(),
            pending_jobs: u32::try_from(self.unfinished().iter().filter(|job| is_pending(job)).count())
                .unwrap_or(u32::MAX),
            trainers,
            online_wanted: online_wanted(self.script, second),
            online_running: pods.running_online(),
            unbound_trainers: pods.unbound_trainers(),
        });
    }

    /// The last sample in a line.
    pub(super) fn progress(&self) -> String {
        let Some(sample) = self.samples.last() else { return "nothing yet".to_owned() };
        let percent = 100.0 * sample.cpu as f64 / total(self.script) as f64;
        let submitted = self.jobs.iter().filter(|job| job.submitted.is_some()).count();
        let trainers: u32 = sample.trainers.iter().sum();
        let mut line = format!(
            "{} s of {}: {submitted} jobs, {} of them pending; {trainers} trainers; {percent:.1} % of the CPUs",
            sample.second, self.script.end, sample.pending_jobs
        );
        if self.script.online.is_some() {
            line.push_str(&format!("; {} of {} pods of Nginx", sample.online_running, sample.online_wanted));
        }
        line
    }

    /// The report of the seconds of the script.
    pub(super) fn report(&self, pods: &Pods) -> Report {
        Report {
            experiment: self.script.name.clone(),
            policy: self.script.policy,
            grace: self.script.grace,
            total: total(self.script),
            samples: self.samples.clone(),
            jobs: self.fates(pods),
            trainers_ended: pods.trainers_ended(),
            steps: steps(self.script, &self.samples),
        }
    }

    /// What became of the jobs.
    pub(super) fn fates(&self, pods: &Pods) -> Vec<JobReport> {
        let fate = |(at, job): (usize, &JobAccount)| {
            let submitted = self.script.jobs[at].second;
            let pending = job.submitted.zip(pods.started(at)).map(|(from, to)| to.saturating_duration_since(from));
            JobReport {
                submitted,
                // Rounded once, from the length: two rounded times would be a second apart too much or too little.
                started: pending.map(|pending| submitted + rounded(pending.as_millis())),
                complete: job.complete,
                succeeded: job.succeeded,
            }
        };
        self.jobs.iter().enumerate().map(fate).collect()
    }
}

fn rounded(millis: u128) -> u32 {
    u32::try_from((millis + 500) / 1000).unwrap_or(u32::MAX)
}

fn total(script: &Experiment) -> u64 {
    u64::from(script.cores()) * 1000
}

/// The replicas of the online service after its last change.
fn online_wanted(script: &Experiment, second: u32) -> u32 {
    let Some(online) = &script.online else { return 0 };
    let mut past = online.steps.iter().filter(|(at, _)| *at <= second);
    past.next_back().map_or(online.replicas, |(_, wanted)| *wanted)
}

/// The changes of the online service, and when each was reached.
fn steps(script: &Experiment, samples: &[Sample]) -> Vec<Step> {
    let reached = |(second, wanted): &(u32, u32)| {
        let found = samples.iter().find(|sample| sample.second >= *second && sample.online_running >= *wanted);
        Step { second: *second, wanted: *wanted, reached_after: found.map(|sample| sample.second - second) }
    };
    script.online.iter().flat_map(|online| &online.steps).map(reached).collect()
}

#[cfg(test)]
mod tests {
    use flexor_sched::sim::{Policy, run};

    use super::*;

    #[test]
    fn the_online_service_is_wanted_as_the_script_says() {
        let script = Experiment::case2(Policy::Planned, 5);
        let wanted = [0, 109, 110, 300, 690].map(|second| online_wanted(&script, second));
        assert_eq!(wanted, [400, 400, 300, 100, 400]);
        assert_eq!(online_wanted(&Experiment::case1(Policy::Planned, 5), 100), 0);
    }

    #[test]
    fn steps_are_those_of_the_simulator() {
        let script = Experiment::case2(Policy::Planned, 5);
        let report = run(&script);
        assert_eq!(steps(&script, &report.samples), report.steps);
    }

    #[test]
    fn a_length_is_rounded_to_the_nearest_second() {
        assert_eq!([0, 499, 500, 3_100, 7_900].map(rounded), [0, 0, 1, 3, 8]);
    }
}
