//! DLRover's rules for one job without its Brain, as its sources have them: first a worker plan, then a server plan, then
//! worker plans, and server plans once an hour. They begin after five reports of the chief, one in thirty seconds, and look
//! every thirty seconds, at least five minutes after the last plan.
//!
//! The rule that gives migrated servers no memory is mended: they keep what they have.

use std::collections::BTreeMap;
use std::time::Duration;

use super::world::Order;
use crate::scaling::{Allotment, PodSample, Sample};

const REPORT: Duration = Duration::from_secs(30);
const REPORTS: u32 = 5;
const FULL_WORLD: Duration = Duration::from_secs(60);
const BETWEEN_PLANS: Duration = Duration::from_secs(300);
const BETWEEN_SERVER_PLANS: Duration = Duration::from_secs(3600);
const OVERLOAD: f64 = 0.9;
const MOST_SERVER_USE: f64 = 0.95;
const LEAST_GAIN: f64 = 0.2;
const WORKER_MEMORY: f64 = 1.5;
const SERVER_MEMORY: f64 = 1.2;
const MOST_CORES: f64 = 32.0;
const MOST_WORKERS: f64 = 60.0;
const MOST_SERVERS: f64 = 15.0;

/// What these rules remember.
#[derive(Debug, Default)]
pub struct DlroverRules {
    reports: u32,
    last: Option<Observation>,
    /// The last speed with each number of workers, and the order in which the numbers came.
    speeds: Vec<(usize, f64)>,
    use_of: BTreeMap<String, f64>,
    full_since: Option<Duration>,
    planned_at: Option<Duration>,
    server_plan_at: Option<Duration>,
    stage: Stage,
}

#[derive(Debug)]
struct Observation {
    at: Duration,
    batches: u64,
    cpu: BTreeMap<String, Duration>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Stage {
    #[default]
    WorkerInitial,
    ServerInitial,
    Running,
}

impl DlroverRules {
    /// Takes the sample of a second.
    pub(super) fn handle(&mut self, sample: &Sample, now: Duration) -> Option<Order> {
        if !sample.steady {
            (self.full_since, self.last) = (None, None);
            return None;
        }
        let full_since = *self.full_since.get_or_insert(now);
        if self.last.as_ref().is_some_and(|last| now < last.at + REPORT) {
            return None;
        }
        self.observe(sample, now);
        let is_due = self.planned_at.is_none_or(|last| now > last + BETWEEN_PLANS);
        if self.reports < REPORTS || now < full_since + FULL_WORLD || !is_due || self.use_of.is_empty() {
            return None;
        }
        let order = match self.stage {
            Stage::WorkerInitial => self.worker_plan(sample),
            Stage::ServerInitial => self.server_plan(sample),
            Stage::Running if self.server_plan_at.is_none_or(|last| now >= last + BETWEEN_SERVER_PLANS) => {
                self.hot_server_plan(sample).or_else(|| self.worker_plan(sample))
            }
            Stage::Running => self.worker_plan(sample),
        };
        self.stage = match self.stage {
            Stage::WorkerInitial => Stage::ServerInitial,
            Stage::ServerInitial | Stage::Running => Stage::Running,
        };
        let order = order?;
        if order.servers.is_some() || !order.migrate_servers.is_empty() {
            self.server_plan_at = Some(now);
        }
        self.planned_at = Some(now);
        Some(order)
    }

    /// A report of the chief: the speed since the last one, and what each pod has used.
    fn observe(&mut self, sample: &Sample, now: Duration) {
        self.reports += 1;
        let cpu = |pod: &PodSample| Some((pod.uid.clone(), pod.load?.cpu));
        let next = Observation { at: now, batches: sample.batches, cpu: sample.pods().filter_map(cpu).collect() };
        if let Some(last) = self.last.replace(next)
            && let Some(Observation { cpu, .. }) = &self.last
        {
            let seconds = (now - last.at).as_secs_f64();
            let workers = sample.worker_pods.len();
            let speed = (sample.batches - last.batches) as f64 / seconds;
            match self.speeds.last_mut() {
                Some((count, of)) if *count == workers => *of = speed,
                Some(_) | None => self.speeds.push((workers, speed)),
            }
            let used = |(uid, after): (&String, &Duration)| {
                let before = last.cpu.get(uid)?;
                Some((uid.clone(), after.saturating_sub(*before).as_secs_f64() / seconds))
            };
            self.use_of = cpu.iter().filter_map(used).collect();
        }
    }

    fn used(&self, pod: &PodSample) -> f64 {
        self.use_of.get(&pod.uid).copied().unwrap_or(0.0)
    }

    fn mean_worker_cores(&self, sample: &Sample) -> f64 {
        sample.worker_pods.iter().map(|pod| self.used(pod)).sum::<f64>() / sample.worker_pods.len() as f64
    }

    /// As many workers as make the busiest server busy, as far as the limit goes.
    fn worker_plan(&self, sample: &Sample) -> Option<Order> {
        let servers = sample.measured_servers();
        let busiest = servers.iter().map(|pod| self.used(pod) / pod.allotment.cores()).fold(0.0, f64::max);
        if busiest <= 0.0 || busiest > MOST_SERVER_USE || self.brought_little() {
            return None;
        }
        let current = sample.worker_pods.len() as f64;
        let wanted = (current * OVERLOAD / busiest).floor();
        let requested = servers.iter().fold(Allotment::default(), |sum, pod| sum.plus(pod.allotment));
        let cores = self.mean_worker_cores(sample).max(1.0);
        let bytes = WORKER_MEMORY * most_bytes(&sample.worker_pods);
        let by_cores =
            sample.ceiling.millicores.map_or(MOST_WORKERS, |most| (most as f64 / 1000.0 - requested.cores()) / cores);
        let by_bytes = sample.ceiling.bytes.map_or(MOST_WORKERS, |most| (most as f64 - requested.bytes as f64) / bytes);
        let count = wanted.min(by_cores.floor()).min(by_bytes.floor()).clamp(0.0, MOST_WORKERS);
        let worker_pod = Some(Allotment { millicores: (cores * 1000.0) as u64, bytes: bytes as u64 });
        let is_more = wanted > current && count as u32 > sample.workers.replicas;
        is_more.then(|| Order { workers: Some(count as u32), worker_pod, ..Order::default() })
    }

    /// Whether the last workers brought less than a fifth of what the others bring.
    fn brought_little(&self) -> bool {
        let [.., (few, slow), (many, fast)] = self.speeds.as_slice() else { return false };
        let (few, added) = (*few as f64, *many as f64 - *few as f64);
        added > 0.0 && (fast - slow) / added / (slow / few) < LEAST_GAIN
    }

    /// As many servers as the limit's number of workers needs.
    fn server_plan(&self, sample: &Sample) -> Option<Order> {
        let (servers, workers) = (sample.measured_servers(), sample.worker_pods.len() as f64);
        let limit = sample.ceiling.millicores? as f64 / 1000.0;
        let worker_cores = self.mean_worker_cores(sample);
        let server_cores: f64 = servers.iter().map(|pod| self.used(pod)).sum();
        let most_workers = (limit / (worker_cores + server_cores / workers)).floor();
        let total = limit - most_workers * worker_cores;
        let count = (total / sample.servers.pod.cores()).ceil().clamp(1.0, MOST_SERVERS) as u32;
        let bytes = (SERVER_MEMORY * most_bytes(servers)) as u64;
        let server_pod = Some(Allotment { bytes, ..sample.servers.pod });
        (count != sample.servers.replicas).then(|| Order { servers: Some(count), server_pod, ..Order::default() })
    }

    /// If a server is hot, all servers get what the limit's number of workers would need.
    fn hot_server_plan(&self, sample: &Sample) -> Option<Order> {
        let (servers, workers) = (sample.measured_servers(), sample.worker_pods.len() as f64);
        let hottest = servers.iter().filter(|pod| self.used(pod) / pod.allotment.cores() >= OVERLOAD);
        let most = hottest.map(|pod| self.used(pod)).fold(0.0, f64::max);
        let limit = sample.ceiling.millicores? as f64 / 1000.0;
        let all: f64 = servers.iter().map(|pod| self.used(pod)).sum();
        let most_workers = limit / (self.mean_worker_cores(sample) + all / workers);
        let factor = (most_workers / workers).max(1.0).min(MOST_CORES / most.max(1e-9));
        let migration = |(rank, pod): (usize, &PodSample)| {
            let millicores = (self.used(pod) * factor * 10.0).round() as u64 * 100;
            (millicores > pod.allotment.millicores).then_some((rank, Allotment { millicores, ..pod.allotment }))
        };
        let migrate_servers: Vec<_> = servers.iter().enumerate().filter_map(migration).collect();
        (most > 0.0 && !migrate_servers.is_empty()).then(|| Order { migrate_servers, ..Order::default() })
    }
}

fn most_bytes(pods: &[PodSample]) -> f64 {
    pods.iter().filter_map(|pod| Some(pod.load?.bytes as f64)).fold(1.0, f64::max)
}
