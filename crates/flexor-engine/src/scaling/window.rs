//! Turns samples into measurements: a sliding window over seconds in which nothing changed.
//!
//! The window is emptied when pods, targets or allotments change, while the job is not steady, and when a report cannot be
//! true. It begins two seconds after the last of these.

use std::collections::VecDeque;
use std::time::Duration;

use super::{Allotment, Layout, PodLoad, PodSample, Sample};

/// Time after a change in which caches fill and queues form.
const SETTLING: Duration = Duration::from_secs(2);
const SHORTEST: Duration = Duration::from_secs(5);
/// Older seconds are dropped as soon as the rest suffices.
const USUAL: Duration = Duration::from_secs(30);
const LONGEST: Duration = Duration::from_secs(120);
const FEWEST_BATCHES: u64 = 50;
/// The largest relative standard error of a throughput.
const MAX_ERROR: f64 = 0.1;
/// Without a sample for longer, the window begins anew.
const MAX_GAP: Duration = Duration::from_secs(5);
/// Reports come once a second. At both ends of a window one may be late.
const LATE: Duration = Duration::from_secs(2);
/// A throughput above it is no throughput.
const MOST_BATCHES_A_SECOND: f64 = 1e7;

/// The averages of a window.
#[derive(Debug, Clone, PartialEq)]
pub struct Measurement {
    /// Batches per second.
    pub rate: f64,
    /// Its relative standard error.
    pub error: f64,
    /// The length of the window.
    pub length: Duration,
    /// Batches accounted for in it.
    pub batches: u64,
    /// Cores in use by each pod that trains.
    pub worker_cores: Vec<f64>,
    /// Cores in use by each server.
    pub server_cores: Vec<f64>,
    /// What workers did for most of their time, and its share; none where they report no times.
    pub longest_part: Option<(&'static str, f64)>,
}

/// Collects samples.
#[derive(Debug, Default)]
pub(super) struct Window {
    identity: Identity,
    /// The first sample with this identity.
    since: Duration,
    seconds: VecDeque<Second>,
}

/// A window contains only samples that agree in this.
#[derive(Debug, Clone, Default, PartialEq)]
struct Identity {
    pods: Vec<(String, Allotment)>,
    layout: Option<Layout>,
    machine: Option<u64>,
}

#[derive(Debug)]
struct Second {
    at: Duration,
    batches: u64,
    loads: Vec<PodLoad>,
}

impl Window {
    /// Takes a sample. Returns the measurement of the window, if it suffices.
    pub(super) fn take(&mut self, sample: &Sample, now: Duration) -> Option<Measurement> {
        let Some(second) = Second::of(sample, now) else {
            *self = Self::default();
            return None;
        };
        let identity = Identity::of(sample);
        let last = self.seconds.back();
        let follows = last.is_none_or(|last| last.is_followed_by(&second, sample));
        if identity != self.identity || self.since > now || !follows {
            *self = Self { identity, since: now, seconds: VecDeque::new() };
        }
        if now < self.since + SETTLING || self.seconds.back().is_some_and(|last| last.at == now) {
            return None;
        }
        self.seconds.push_back(second);
        self.drop_old();
        self.measure(sample)
    }

    fn drop_old(&mut self) {
        while let (Some(second), Some(last)) = (self.seconds.get(1), self.seconds.back()) {
            let suffices = last.at - second.at >= USUAL && last.batches - second.batches >= FEWEST_BATCHES;
            if !suffices && last.at - second.at < LONGEST {
                break;
            }
            self.seconds.pop_front();
        }
    }

    fn measure(&self, sample: &Sample) -> Option<Measurement> {
        let (first, last) = self.seconds.front().zip(self.seconds.back())?;
        let (length, batches) = (last.at - first.at, last.batches - first.batches);
        if length < SHORTEST || batches < FEWEST_BATCHES {
            return None;
        }
        #[expect(clippy::cast_precision_loss, reason = "batches of two minutes are few")]
        let rate = batches as f64 / length.as_secs_f64();
        let error = self.standard_error(rate);
        if error.is_nan() || error > MAX_ERROR {
            return None;
        }
        let spans = first.loads.iter().zip(&last.loads);
        let cores: Vec<f64> = spans.clone().map(|(a, b)| a.cores_until(b, length)).collect::<Option<_>>()?;
        // A pod that reports has used some processor time: without any, the report is wrong.
        if cores.iter().any(|used| *used <= 0.0) {
            return None;
        }
        let (workers, servers) = cores.split_at(sample.worker_pods.len());
        let longest_part = longest_part(spans.take(workers.len()));
        let (worker_cores, server_cores) = (workers.to_vec(), servers.to_vec());
        Some(Measurement { rate, error, length, batches, worker_cores, server_cores, longest_part })
    }

    /// From the spread of the seconds around their mean.
    fn standard_error(&self, mean: f64) -> f64 {
        let pairs = self.seconds.iter().zip(self.seconds.iter().skip(1));
        let (sum, count) =
            pairs.fold((0.0, 0_u32), |(sum, count), (a, b)| (sum + (a.rate_until(b) - mean).powi(2), count + 1));
        let count = f64::from(count);
        (sum / (count - 1.0) / count).sqrt() / mean
    }
}

impl Identity {
    fn of(sample: &Sample) -> Self {
        let of_pod = |pod: &PodSample| (pod.uid.clone(), pod.allotment);
        Self { pods: sample.pods().map(of_pod).collect(), layout: Some(Layout::of(sample)), machine: sample.machine }
    }
}

impl Second {
    /// None while the job is not steady or a pod has not reported.
    fn of(sample: &Sample, now: Duration) -> Option<Self> {
        let is_limited = |pod: &PodSample| sample.machine.is_some() || pod.allotment.millicores > 0;
        let is_usable = sample.steady && !sample.worker_pods.is_empty() && sample.pods().all(is_limited);
        let is_present = |load: &PodLoad| load.at <= now && now - load.at <= MAX_GAP;
        let loads = sample.pods().map(|pod| pod.load.filter(is_present)).collect::<Option<_>>()?;
        is_usable.then_some(Self { at: now, batches: sample.batches, loads })
    }

    /// Whether nothing has gone backwards since, and nothing has advanced faster than it can.
    fn is_followed_by(&self, next: &Self, sample: &Sample) -> bool {
        let gap = next.at.checked_sub(self.at);
        let is_timely = gap.is_some_and(|gap| gap <= MAX_GAP);
        let rate = self.rate_until(next);
        let is_rate = next.batches >= self.batches && (gap == Some(Duration::ZERO) || rate <= MOST_BATCHES_A_SECOND);
        let most = |pod: &PodSample| {
            sample.machine.map_or(pod.allotment.cores(), |all| Allotment { millicores: all, bytes: 0 }.cores())
        };
        let loads = self.loads.iter().zip(&next.loads).zip(sample.pods());
        is_timely && is_rate && loads.into_iter().all(|((a, b), pod)| a.can_become(b, most(pod)))
    }

    #[expect(clippy::cast_precision_loss, reason = "batches of a second are few")]
    fn rate_until(&self, next: &Self) -> f64 {
        next.batches.saturating_sub(self.batches) as f64 / next.at.saturating_sub(self.at).as_secs_f64()
    }
}

impl PodLoad {
    /// Whether a pod that may use some cores can have reported first this and then the other.
    fn can_become(&self, next: &Self, cores: f64) -> bool {
        let (Some(elapsed), Some(used)) = (next.at.checked_sub(self.at), next.cpu.checked_sub(self.cpu)) else {
            return false;
        };
        // Reports are read and sent at times that differ a little, and limits are kept only on average.
        used.as_secs_f64() <= 1.5 * cores * (elapsed + Duration::from_secs(1)).as_secs_f64()
    }

    /// Cores in use between two reports, unless they cover too little of the window.
    fn cores_until(&self, last: &Self, window: Duration) -> Option<f64> {
        let elapsed = last.at.checked_sub(self.at).filter(|elapsed| *elapsed + LATE >= window)?;
        Some(last.cpu.checked_sub(self.cpu)?.as_secs_f64() / elapsed.as_secs_f64())
    }
}

/// The largest part of the workers' time, and its share.
fn longest_part<'a>(spans: impl Iterator<Item = (&'a PodLoad, &'a PodLoad)>) -> Option<(&'static str, f64)> {
    let mut sums: Vec<(&'static str, f64)> = Vec::new();
    for (first, last) in spans {
        let parts = first.times.parts().into_iter().zip(last.times.parts());
        sums.extend(parts.map(|((name, before), (_, after))| (name, after.saturating_sub(before).as_secs_f64())));
    }
    let total: f64 = sums.iter().map(|(_, seconds)| seconds).sum();
    let of = |name: &str| sums.iter().filter(|(other, _)| *other == name).map(|(_, seconds)| seconds).sum::<f64>();
    let names = sums.iter().take(5).map(|(name, _)| *name);
    let longest = names.map(|name| (name, of(name))).max_by(|a, b| a.1.total_cmp(&b.1))?;
    (total > 0.0).then_some((longest.0, longest.1 / total))
}
