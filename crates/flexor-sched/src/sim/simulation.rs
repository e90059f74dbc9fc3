//! The course of an experiment, second by second.

use super::autoscaler;
use super::cluster::{Kind, SimCluster, SimPod};
use super::planned::Driver;
use super::report::{JobReport, Report, Sample, Step};
use super::scheduler::{self, Queue};
use super::{Experiment, JobShape, Policy, Submission};

pub(super) struct Simulation<'a> {
    experiment: &'a Experiment,
    cluster: SimCluster,
    jobs: Vec<SimJob>,
    online_wanted: u32,
    driver: Option<Driver>,
    samples: Vec<Sample>,
}

#[derive(Debug)]
struct SimJob {
    report: JobReport,
    shape: JobShape,
    /// Trainer-seconds until it has succeeded.
    work: Option<u64>,
    is_submitted: bool,
    /// Trainers that its controller keeps up, where the planner does not create them itself.
    parallelism: u32,
    /// Trainer-seconds so far.
    done: u64,
}

impl SimJob {
    fn is_active(&self) -> bool {
        self.is_submitted && self.report.succeeded.is_none()
    }
}

impl<'a> Simulation<'a> {
    pub(super) fn new(experiment: &'a Experiment) -> Self {
        let job = |submission: &Submission| SimJob {
            report: JobReport { submitted: submission.second, started: None, complete: None, succeeded: None },
            shape: submission.shape,
            work: submission.work,
            is_submitted: false,
            parallelism: 0,
            done: 0,
        };
        let mut simulation = Self {
            experiment,
            cluster: SimCluster::new(&experiment.nodes, experiment.standing_load),
            jobs: experiment.jobs.iter().map(job).collect(),
            online_wanted: experiment.online.as_ref().map_or(0, |online| online.replicas),
            driver: (experiment.policy == Policy::Planned).then(|| Driver::new(experiment)),
            samples: Vec::new(),
        };
        simulation.start_online();
        simulation
    }

    /// The online service runs before the first second.
    fn start_online(&mut self) {
        self.resize_online(0);
        scheduler::schedule(&mut self.cluster, Queue::Fifo, 0, u32::MAX);
        self.cluster.start(0, 0);
    }

    pub(super) fn run(mut self) -> Report {
        for now in 0..=self.experiment.end {
            self.second(now);
        }
        Report {
            experiment: self.experiment.name.clone(),
            policy: self.experiment.policy,
            grace: self.experiment.grace,
            total: u64::from(self.experiment.cores()) * 1000,
            steps: Step::of(self.experiment, &self.samples),
            samples: self.samples,
            jobs: self.jobs.iter().map(|job| job.report).collect(),
            trainers_ended: self.cluster.trainers_ended,
        }
    }

    /// The order within a second is part of the model.
    fn second(&mut self, now: u32) {
        let steps = self.experiment.online.iter().flat_map(|online| &online.steps);
        self.online_wanted = steps.rev().find(|(at, _)| *at == now).map_or(self.online_wanted, |(_, wanted)| *wanted);
        self.submit(now);
        self.cluster.vanish(now);
        self.resize_online(now);
        self.resize_jobs(now);
        let queue = self.queue();
        scheduler::schedule(&mut self.cluster, queue, now, self.experiment.binds_per_second);
        self.cluster.start(now, self.experiment.start_latency);
        self.work(now);
        self.autoscale(now);
        self.sample(now);
    }

    fn queue(&self) -> Queue {
        match self.experiment.policy {
            Policy::Off | Policy::Edl => Queue::Fifo,
            Policy::EdlWithPriority => Queue::Priority,
            Policy::Planned => Queue::Preempting { grace: self.experiment.grace },
        }
    }

    fn submit(&mut self, now: u32) {
        let due = |job: &SimJob| !job.is_submitted && job.report.submitted == now;
        let Some(at) = self.jobs.iter().position(due) else { return };
        self.jobs[at].is_submitted = true;
        let shape = self.jobs[at].shape;
        self.jobs[at].parallelism = match self.experiment.policy {
            Policy::Off => shape.fixed,
            Policy::Edl | Policy::EdlWithPriority => shape.submitted,
            Policy::Planned => return,
        };
        self.cluster.create(Kind::Master, Some(at), 0, shape.master_cores, now);
        for rank in 0..shape.servers {
            self.cluster.create(Kind::Server, Some(at), rank, shape.server_cores, now);
        }
    }

    fn resize_online(&mut self, now: u32) {
        let Some(online) = &self.experiment.online else { return };
        self.cluster.resize(Kind::Online, None, self.online_wanted, online.cores, now, online.grace);
    }

    fn resize_jobs(&mut self, now: u32) {
        let grace = self.experiment.grace;
        let active = (0..self.jobs.len()).filter(|at| self.jobs[*at].is_active());
        let active: Vec<(usize, u32)> = active.map(|at| (at, self.jobs[at].report.submitted)).collect();
        match &mut self.driver {
            Some(driver) => driver.act(&mut self.cluster, &active, now),
            None => active.iter().for_each(|(at, _)| {
                let SimJob { parallelism, shape, .. } = self.jobs[*at];
                self.cluster.resize(Kind::Trainer, Some(*at), parallelism, shape.trainer_cores, now, grace);
            }),
        }
    }

    /// Running trainers work. A job whose work is done has succeeded: all of its pods end.
    fn work(&mut self, now: u32) {
        for at in 0..self.jobs.len() {
            let running = |kind: Kind| running(&self.cluster, kind, Some(at));
            let trainers = running(Kind::Trainer);
            let (servers, masters) = (running(Kind::Server), running(Kind::Master));
            let job = &mut self.jobs[at];
            let is_complete = trainers >= job.shape.min && servers == job.shape.servers && masters == 1;
            if !job.is_active() {
                continue;
            }
            if trainers > 0 {
                job.report.started.get_or_insert(now);
            }
            if is_complete {
                job.report.complete.get_or_insert(now);
            }
            job.done += u64::from(trainers);
            if job.work.is_some_and(|work| job.done >= work) {
                job.report.succeeded = Some(now);
                self.end_job(at, now);
            }
        }
    }

    /// Trainers that end with their job are not counted as ended: nothing was taken from it.
    fn end_job(&mut self, at: usize, now: u32) {
        let ended = self.cluster.trainers_ended;
        for kind in [Kind::Master, Kind::Server, Kind::Trainer] {
            let pods: Vec<u32> = self.cluster.of(kind, Some(at)).map(|(id, _)| id).collect();
            pods.into_iter().for_each(|id| self.cluster.delete(id, now, self.experiment.grace));
        }
        self.cluster.trainers_ended = ended;
    }

    fn autoscale(&mut self, now: u32) {
        match self.experiment.policy {
            Policy::Off | Policy::Planned => return,
            Policy::Edl | Policy::EdlWithPriority => {}
        }
        let first = self.experiment.jobs.iter().map(|job| job.second).min().unwrap_or(now).saturating_add(1);
        if now < first || !(now - first).is_multiple_of(autoscaler::PERIOD) {
            return;
        }
        let active = self.jobs.iter().enumerate().filter(|(_, job)| job.is_active());
        let row = |(at, job): (usize, &SimJob)| autoscaler::Row::new(at, job.parallelism, &job.shape);
        let rows = active.map(row).collect();
        for (at, size) in autoscaler::cycle(&self.cluster, rows, self.standing_load()) {
            self.jobs[at].parallelism = size;
        }
    }

    fn standing_load(&self) -> u32 {
        self.experiment.standing_load * u32::try_from(self.experiment.nodes.len()).unwrap_or(u32::MAX)
    }

    fn sample(&mut self, now: u32) {
        let cpu: u64 = self.cluster.pods.values().filter(|pod| pod.running).map(|pod| u64::from(pod.cpu)).sum();
        let trainers = (0..self.jobs.len()).map(|at| running(&self.cluster, Kind::Trainer, Some(at)));
        let is_pending = |job: &&SimJob| job.is_active() && job.report.started.is_none();
        let unbound = self.cluster.pods.values().filter(|pod| pod.kind == Kind::Trainer && pod.node.is_none());
        self.samples.push(Sample {
            second: now,
            cpu: cpu + u64::from(self.standing_load()),
            trainers: trainers.collect(),
            pending_jobs: u32::try_from(self.jobs.iter().filter(is_pending).count()).unwrap_or(u32::MAX),
            online_wanted: self.online_wanted,
            online_running: running(&self.cluster, Kind::Online, None),
            unbound_trainers: u32::try_from(unbound.count()).unwrap_or(u32::MAX),
        });
    }
}

fn running(cluster: &SimCluster, kind: Kind, job: Option<usize>) -> u32 {
    let runs = |(_, pod): &(u32, &SimPod)| pod.running && pod.is_live();
    u32::try_from(cluster.of(kind, job).filter(runs).count()).unwrap_or(u32::MAX)
}
