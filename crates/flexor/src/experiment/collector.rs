//! The account of an experiment: lines while it runs, averages at its end.

use std::time::Duration;

use super::Case;
use super::observation::{Observation, ObservedJob};

/// What a job is doing, in the words of the original's program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    /// It was not submitted yet.
    Waiting,
    /// It was submitted, and not all of its trainers run.
    Pending,
    Running,
    /// It has ended, or was deleted.
    Finish,
}

impl Status {
    fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "WAITING",
            Self::Pending => "PENDING",
            Self::Running => "RUNNING",
            Self::Finish => "FINISH",
        }
    }
}

/// One job since the start.
#[derive(Debug)]
struct JobRecord {
    name: String,
    submitted: Option<Duration>,
    /// When all its trainers ran for the first time.
    started: Option<Duration>,
    ended: Option<Duration>,
}

impl JobRecord {
    fn status(&mut self, at: Duration, observed: Option<&ObservedJob>) -> Status {
        if observed.is_some() {
            self.submitted.get_or_insert(at);
        }
        let has_ended = observed.map_or(self.submitted.is_some(), |job| job.has_ended);
        if has_ended || self.ended.is_some() {
            self.ended.get_or_insert(at);
            return Status::Finish;
        }
        match observed {
            None => Status::Waiting,
            Some(job) if job.all_run() => {
                self.started.get_or_insert(at);
                Status::Running
            }
            Some(_) => Status::Pending,
        }
    }

    /// From its submission until all its trainers ran, or until it ended without that.
    fn pending_time(&self) -> Option<Duration> {
        Some(self.started.or(self.ended)?.saturating_sub(self.submitted?))
    }

    fn running_time(&self) -> Option<Duration> {
        let ended = self.ended?;
        Some(ended.saturating_sub(self.started.unwrap_or(ended)))
    }
}

/// Collects observations of an experiment.
#[derive(Debug)]
pub(super) struct Collector {
    case: Case,
    jobs: Vec<JobRecord>,
    observations: u32,
    /// Sums of the shares of all observations.
    cpu: f64,
    gpu: f64,
}

impl Collector {
    pub(super) fn new(case: Case, jobs: &[String]) -> Self {
        let record = |name: &String| JobRecord { name: name.clone(), submitted: None, started: None, ended: None };
        Self { case, jobs: jobs.iter().map(record).collect(), observations: 0, cpu: 0.0, gpu: 0.0 }
    }

    pub(super) fn heading(&self) -> String {
        let nginx = match self.case {
            Case::Case1 => "",
            Case::Case2 => "\tNGINX",
        };
        format!("Times\tName\tStatus\tCPU\tGPU\tPARALLELISM{nginx}\n")
    }

    /// Takes what was observed at a time since the start. Returns a line for each job.
    pub(super) fn observe(&mut self, at: Duration, observation: &Observation) -> String {
        let Observation { cpu, gpu, jobs, nginx } = observation;
        self.observations += 1;
        self.cpu += cpu;
        self.gpu += gpu;
        let nginx = match self.case {
            Case::Case1 => String::new(),
            Case::Case2 => format!("\t{nginx}"),
        };
        let line = |record: &mut JobRecord| {
            let job = jobs.get(&record.name);
            let status = record.status(at, job).as_str();
            let trainers = job.map_or(0, |job| job.trainers);
            let (seconds, name) = (at.as_secs(), &record.name);
            format!("{seconds}\t{name}\t{status}\t{}\t{}\t{trainers}{nginx}\n", percent(*cpu), percent(*gpu))
        };
        self.jobs.iter_mut().map(line).collect()
    }

    /// Whether all jobs have ended.
    pub(super) fn is_complete(&self) -> bool {
        self.jobs.iter().all(|job| job.ended.is_some())
    }

    /// The averages.
    pub(super) fn summary(&self) -> String {
        let running = average(self.jobs.iter().filter_map(JobRecord::running_time));
        let pending = average(self.jobs.iter().filter_map(JobRecord::pending_time));
        let observations = f64::from(self.observations.max(1));
        let (cpu, gpu) = (percent(self.cpu / observations), percent(self.gpu / observations));
        let mut summary = format!(
            "Average running time:\t{running:.2}\nAverage pending time:\t{pending:.2}\nCluster wide CPU:\t{cpu}\nCluster wide \
             GPU:\t{gpu}\n"
        );
        for job in &self.jobs {
            let time = job.running_time().unwrap_or_default().as_secs_f64();
            // The original's spelling, which scripts may look for.
            summary.push_str(&format!("{} runnint time:\t{time:.2}\n", job.name));
        }
        summary
    }
}

fn percent(share: f64) -> String {
    format!("{:.2}%", 100.0 * share)
}

/// The mean in seconds; 0 of nothing.
fn average(times: impl Iterator<Item = Duration>) -> f64 {
    let times: Vec<f64> = times.map(|time| time.as_secs_f64()).collect();
    times.iter().sum::<f64>() / times.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// A job of at least two trainers.
    fn job(trainers: u32, waiting: u32) -> ObservedJob {
        ObservedJob { has_ended: false, min_trainers: 2, trainers, waiting }
    }

    struct Experiment {
        collector: Collector,
        printed: String,
    }

    impl Experiment {
        fn of(case: Case, jobs: &[&str]) -> Self {
            let jobs: Vec<String> = jobs.iter().map(|job| (*job).to_owned()).collect();
            Self { collector: Collector::new(case, &jobs), printed: String::new() }
        }

        fn at(&mut self, seconds: u64, cpu: f64, jobs: &[(&str, ObservedJob)]) {
            let jobs: BTreeMap<String, ObservedJob> =
                jobs.iter().map(|(name, job)| ((*name).to_owned(), job.clone())).collect();
            let observation = Observation { cpu, gpu: 0.125, jobs, nginx: 80 };
            self.printed.push_str(&self.collector.observe(Duration::from_secs(seconds), &observation));
        }
    }

    #[test]
    fn a_job_waits_pends_runs_and_finishes() {
        let mut experiment = Experiment::of(Case::Case1, &["mnist1", "mnist2"]);
        experiment.at(0, 0.0, &[]);
        experiment.at(5, 0.5, &[("mnist1", job(2, 1))]);
        experiment.at(10, 1.0, &[("mnist1", job(2, 0)), ("mnist2", job(0, 0))]);
        assert!(!experiment.collector.is_complete());
        experiment.at(25, 1.0, &[("mnist1", job(5, 1)), ("mnist2", job(1, 0))]);
        let ended = ObservedJob { has_ended: true, ..job(5, 0) };
        experiment.at(30, 0.5, &[("mnist1", ended), ("mnist2", job(3, 0))]);
        experiment.at(50, 0.0, &[]);
        assert_eq!(
            experiment.printed,
            "0\tmnist1\tWAITING\t0.00%\t12.50%\t0\n\
             0\tmnist2\tWAITING\t0.00%\t12.50%\t0\n\
             5\tmnist1\tPENDING\t50.00%\t12.50%\t2\n\
             5\tmnist2\tWAITING\t50.00%\t12.50%\t0\n\
             10\tmnist1\tRUNNING\t100.00%\t12.50%\t2\n\
             10\tmnist2\tPENDING\t100.00%\t12.50%\t0\n\
             25\tmnist1\tPENDING\t100.00%\t12.50%\t5\n\
             25\tmnist2\tPENDING\t100.00%\t12.50%\t1\n\
             30\tmnist1\tFINISH\t50.00%\t12.50%\t5\n\
             30\tmnist2\tRUNNING\t50.00%\t12.50%\t3\n\
             50\tmnist1\tFINISH\t0.00%\t12.50%\t0\n\
             50\tmnist2\tFINISH\t0.00%\t12.50%\t0\n"
        );
        assert!(experiment.collector.is_complete());
        // mnist1 ran from 10 to 30 and mnist2 from 30 to 50; they were submitted at 5 and 10.
        assert_eq!(
            experiment.collector.summary(),
            "Average running time:\t20.00\n\
             Average pending time:\t12.50\n\
             Cluster wide CPU:\t50.00%\n\
             Cluster wide GPU:\t12.50%\n\
             mnist1 runnint time:\t20.00\n\
             mnist2 runnint time:\t20.00\n"
        );
    }

    #[test]
    fn the_second_case_counts_nginx() {
        let mut experiment = Experiment::of(Case::Case2, &["mnist-hybrid"]);
        assert_eq!(experiment.collector.heading(), "Times\tName\tStatus\tCPU\tGPU\tPARALLELISM\tNGINX\n");
        experiment.at(0, 1.0, &[("mnist-hybrid", job(100, 0))]);
        assert_eq!(experiment.printed, "0\tmnist-hybrid\tRUNNING\t100.00%\t12.50%\t100\t80\n");
    }

    #[test]
    fn a_job_that_never_ran_counts_as_pending_until_its_end() {
        let mut experiment = Experiment::of(Case::Case1, &["a", "b"]);
        experiment.at(0, 0.0, &[("a", job(1, 1))]);
        experiment.at(60, 0.0, &[]);
        let summary = experiment.collector.summary();
        assert!(summary.starts_with("Average running time:\t0.00\nAverage pending time:\t60.00\n"), "{summary}");
        assert!(summary.ends_with("a runnint time:\t0.00\nb runnint time:\t0.00\n"), "{summary}");
    }
}
