//! The sizer as a whole: what it decides about a job that reports once a second, and what bad reports make of it.

mod bad_reports;
mod bounds;
mod restarts;
mod trials;

use std::time::Duration;

use flexor_model::ReplicaRange;

use super::*;

const GIBIBYTE: u64 = 1 << 30;
/// A fifth of the tutorial's ceiling.
const POD: Allotment = Allotment { millicores: 3000, bytes: 6 * GIBIBYTE };
const CEILING: Ceiling = Ceiling { millicores: Some(15_000), bytes: Some(30 * GIBIBYTE) };

/// A job that runs: a chief, workers that mostly wait, and servers. Its counters are what real pods would report.
#[derive(Debug, Clone)]
struct RunningJob {
    second: u64,
    /// Batches per second of a worker, as a function of how many there are.
    rate_of: fn(u32) -> f64,
    /// Core seconds of a worker and of all servers for one batch.
    worker_work: f64,
    server_work: f64,
    done: f64,
    uids: u32,
    sample: Sample,
}

impl RunningJob {
    /// The tutorial's job: a chief and a server. More workers are as fast as the first.
    fn waiting() -> Self {
        let range = |min, max| ReplicaRange::new(min, max).ok();
        let role = |name: &str, replicas, automatic| ScaledRole {
            name: name.parse().unwrap(),
            replicas,
            automatic,
            held_by: None,
            pod: POD,
        };
        let mut job = Self {
            second: 0,
            rate_of: |_| 31.0,
            worker_work: 0.0015,
            server_work: 0.0005,
            done: 0.0,
            uids: 0,
            sample: Sample {
                batches: 0,
                steady: true,
                workers: role("worker", 0, range(0, 60)),
                servers: role("ps", 1, range(1, 15)),
                worker_pods: Vec::new(),
                server_pods: Servers::Measured(Vec::new()),
                others: Allotment::default(),
                machine: None,
                ceiling: CEILING,
                largest_pod: Ceiling::default(),
                plan: None,
            },
        };
        let chief = job.pod("chief", 0, POD);
        job.sample.worker_pods.push(chief);
        job.resize();
        job
    }

    fn pod(&mut self, role: &str, rank: usize, allotment: Allotment) -> PodSample {
        self.uids += 1;
        PodSample {
            name: format!("deep-{role}-{rank}").parse().unwrap(),
            uid: self.uids.to_string(),
            role: role.parse().unwrap(),
            allotment,
            load: None,
        }
    }

    /// Makes the pods that the targets want.
    fn resize(&mut self) {
        let (workers, servers) = (self.sample.workers.replicas as usize + 1, self.sample.servers.replicas as usize);
        self.sample.worker_pods.truncate(workers);
        while self.sample.worker_pods.len() < workers {
            let pod = self.pod("worker", self.sample.worker_pods.len() - 1, self.sample.workers.pod);
            self.sample.worker_pods.push(pod);
        }
        let Servers::Measured(mut pods) = self.sample.server_pods.clone() else { return };
        pods.truncate(servers);
        while pods.len() < servers {
            let pod = self.pod("ps", pods.len(), self.sample.servers.pod);
            pods.push(pod);
        }
        self.sample.server_pods = Servers::Measured(pods);
    }

    fn now(&self) -> Duration {
        Duration::from_secs(self.second)
    }

    /// What the master sees a second later.
    fn next(&mut self) -> Sample {
        self.second += 1;
        let now = self.now();
        let workers = u32::try_from(self.sample.worker_pods.len()).unwrap();
        let rate = (self.rate_of)(workers);
        self.done += rate * f64::from(workers);
        self.sample.batches = self.done as u64;
        let (of_worker, all) = (self.worker_work * rate, self.server_work * rate * f64::from(workers));
        let load = |pod: &mut PodSample, cores: f64| {
            let before = pod.load.map_or(Duration::ZERO, |load| load.cpu);
            let cpu = before + Duration::from_secs_f64(cores);
            let times = BatchTimes { read: 10 * cpu, compute: cpu, ..BatchTimes::default() };
            pod.load = Some(PodLoad { at: now, cpu, bytes: GIBIBYTE / 4, times });
        };
        self.sample.worker_pods.iter_mut().for_each(|pod| load(pod, of_worker));
        if let Servers::Measured(pods) = &mut self.sample.server_pods {
            let each = all / pods.len() as f64;
            pods.iter_mut().for_each(|pod| load(pod, each));
        }
        self.sample.clone()
    }

    /// The controller carries a proposal out, at once.
    fn carry_out(&mut self, proposal: &Proposal) {
        let replicas = |role: &ScaledRole| proposal.roles.get(&role.name).and_then(|change| change.replicas);
        let (workers, servers) = (replicas(&self.sample.workers), replicas(&self.sample.servers));
        self.sample.workers.replicas = workers.unwrap_or(self.sample.workers.replicas);
        self.sample.servers.replicas = servers.unwrap_or(self.sample.servers.replicas);
        self.sample.plan = Some(AutomaticPlan { number: proposal.number, state: PlanState::Succeeded });
        self.resize();
        for migration in &proposal.migrate {
            self.uids += 1;
            let Servers::Measured(pods) = &mut self.sample.server_pods else { return };
            let pod = pods.iter_mut().chain(&mut self.sample.worker_pods).find(|pod| pod.name == migration.pod);
            let pod = pod.expect("only pods that exist migrate");
            (pod.uid, pod.load) = (self.uids.to_string(), None);
            let to = Ceiling::from(&migration.resources);
            pod.allotment = Allotment {
                millicores: to.millicores.unwrap_or(pod.allotment.millicores),
                bytes: to.bytes.unwrap_or(pod.allotment.bytes),
            };
        }
    }
}

/// The first decision of some seconds that says anything.
fn first_decision(sizer: &mut Sizer, job: &mut RunningJob, seconds: u64) -> Option<Decision> {
    let mut decisions = (0..seconds).map(|_| {
        let sample = job.next();
        sizer.handle(&sample, job.now())
    });
    decisions.find(|decision| *decision != Decision::default())
}

/// The first proposal of some seconds.
fn first_proposal(sizer: &mut Sizer, job: &mut RunningJob, seconds: u64) -> Option<Proposal> {
    first_decision(sizer, job, seconds)?.proposal
}

fn replicas(proposal: &Proposal, role: &str) -> Option<u32> {
    proposal.roles.get(&role.parse().unwrap())?.replicas
}

#[test]
fn the_tutorials_job_gets_three_workers_after_its_first_measurement() {
    let (mut sizer, mut job) = (Sizer::default(), RunningJob::waiting());
    let proposal = first_proposal(&mut sizer, &mut job, 10).expect("a measurement takes seven seconds");
    assert_eq!((proposal.number, proposal.purpose), (0, Purpose::Throughput));
    assert_eq!((replicas(&proposal, "worker"), replicas(&proposal, "ps")), (Some(3), None), "{proposal:?}");
    let reason = proposal.reason();
    for part in [
        "3 workers more: 31 → 12",
        " steps/s expected; workers limit the job: reading takes ",
        "; measured 31 steps/s ±",
    ] {
        assert!(reason.contains(part), "{reason}");
    }
    job.carry_out(&proposal);
    let decision = first_decision(&mut sizer, &mut job, 60).expect("promise and result are compared");
    let result = decision.result.expect("the change was measured");
    assert!(!result.taken_back && result.to_string().ends_with(" steps/s expected, 124 measured"), "{result}");
    assert_eq!(first_decision(&mut sizer, &mut job, 600), None, "the ceiling is full");
}

#[test]
fn servers_that_report_nothing_are_left_alone_and_the_plan_says_so() {
    let (mut sizer, mut job) = (Sizer::default(), RunningJob::waiting());
    job.sample.server_pods = Servers::Foreign;
    let proposal = first_proposal(&mut sizer, &mut job, 20).unwrap();
    assert_eq!((replicas(&proposal, "worker"), replicas(&proposal, "ps")), (Some(3), None));
    let (_, bottleneck) = sizer.pace().unwrap();
    assert!(proposal.reason().contains("only workers are sized"), "{} {bottleneck}", proposal.reason());
}
