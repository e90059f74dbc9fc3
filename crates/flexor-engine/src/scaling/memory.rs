//! Pods that are about to reach their memory limit, by the trend of their use.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use flexor_model::{MigratePod, RoleChange};

use super::proposal::Evidence;
use super::{Allotment, Ceiling, Layout, PodSample, Proposal, Purpose, Sample, ScaledRole};

/// A trend forgets what is older.
const LONGEST: Duration = Duration::from_secs(30);
/// A server that is added instead has to suffice for this long.
const LATER: Duration = Duration::from_secs(600);
/// This part of the limit counts as the limit: the rest is for what a pod needs at once.
const FULL: f64 = 0.9;
/// A report that is older says nothing of the present.
const LATE: Duration = Duration::from_secs(5);
/// More memory is at least this factor.
const WORTH: f64 = 1.25;

/// How far a forecast looks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Horizon {
    /// How long a trend has to be.
    trend: Duration,
    /// A pod that reaches its limit within this time gets more.
    soon: Duration,
    /// How much faster the job is about to be.
    faster: f64,
}

impl Horizon {
    /// If the job goes on as it does.
    pub(super) const PRESENT: Self =
        Self { trend: Duration::from_secs(10), soon: Duration::from_secs(120), faster: 1.0 };

    /// If the job becomes faster: as long as it takes until the next trend is known and acted on, also where pods find no
    /// room at first.
    pub(super) fn of_growth(faster: f64) -> Self {
        Self { trend: Duration::from_secs(5), soon: Duration::from_secs(60), faster: faster.max(1.0) }
    }
}

/// The memory of all pods, by uid.
#[derive(Debug, Default)]
pub(super) struct MemoryTrends(BTreeMap<String, VecDeque<(Duration, u64)>>);

/// A pod that fills up.
struct Filling<'a> {
    pod: &'a PodSample,
    bytes: u64,
    /// Bytes per second.
    growth: f64,
}

impl MemoryTrends {
    /// Takes a sample. While partitions move, memory says nothing of what comes. A report that cannot be true, or is late,
    /// ends the trend of its pod.
    pub(super) fn take(&mut self, sample: &Sample, now: Duration) {
        if !sample.steady {
            self.0.clear();
            return;
        }
        self.0.retain(|uid, _| sample.pods().any(|pod| pod.uid == *uid));
        for (pod, load) in sample.pods().filter_map(|pod| Some((pod, pod.load?))) {
            let trend = self.0.entry(pod.uid.clone()).or_default();
            let is_present = load.at <= now && now - load.at <= LATE;
            if !is_present || !is_possible(load.bytes, pod.allotment.bytes) {
                trend.clear();
                continue;
            }
            if trend.back().is_none_or(|(last, _)| *last < load.at) {
                trend.push_back((load.at, load.bytes));
            }
            while trend.front().is_some_and(|(first, _)| *first + LONGEST < load.at) {
                trend.pop_front();
            }
        }
    }

    /// The change that keeps pods below their limits. Where room is `tight`, what is added has to be given up elsewhere.
    pub(super) fn proposal(&self, sample: &Sample, horizon: Horizon, tight: bool) -> Option<(Proposal, Layout)> {
        let servers = self.filling(sample.measured_servers(), &sample.servers, horizon);
        let workers = self.filling(&sample.worker_pods, &sample.workers, horizon);
        let replaced = replace(sample, &sample.servers, &servers, tight);
        replaced.or_else(|| replace(sample, &sample.workers, &workers, tight)).or_else(|| add_server(sample, &servers))
    }

    /// The automatic pods of a role that reach their limit soon, the fullest first.
    fn filling<'a>(&self, pods: &'a [PodSample], role: &ScaledRole, horizon: Horizon) -> Vec<Filling<'a>> {
        let mine = pods.iter().filter(|pod| role.is_automatic() && pod.role == role.name && pod.allotment.bytes > 0);
        let found = mine.filter_map(|pod| self.of(pod, horizon));
        let mut filling: Vec<Filling<'_>> = found.filter(|of| of.left() < horizon.soon.as_secs_f64()).collect();
        filling.sort_by(|a, b| a.left().total_cmp(&b.left()));
        filling
    }

    fn of<'a>(&self, pod: &'a PodSample, horizon: Horizon) -> Option<Filling<'a>> {
        let trend = self.0.get(&pod.uid)?;
        let ((first, _), (last, bytes)) = (trend.front()?, trend.back()?);
        let is_long = *last - *first >= horizon.trend;
        is_long.then(|| Filling { pod, bytes: *bytes, growth: horizon.faster * slope(trend) })
    }
}

impl Filling<'_> {
    /// Seconds until the limit counts as reached.
    fn left(&self) -> f64 {
        self.left_with(1.0)
    }

    /// The same when the pod keeps only a part of its data.
    #[expect(clippy::cast_precision_loss, reason = "bytes of memory in a forecast")]
    fn left_with(&self, part: f64) -> f64 {
        let free = FULL * self.pod.allotment.bytes as f64 - part * self.bytes as f64;
        if self.growth > 0.0 { free / (part * self.growth) } else { f64::INFINITY }
    }

    fn evidence(&self) -> Evidence {
        Evidence::Memory {
            pod: self.pod.name.as_str().to_owned(),
            bytes: self.bytes,
            limit: self.pod.allotment.bytes,
            growth: self.growth,
        }
    }
}

/// Replaces pods by ones of twice the memory, or of what is left under the ceiling. Workers make room where that is less
/// than half as much more. Where room is tight, one pod is replaced at a time and workers make room for its successor. If
/// all pods of the role fill up, its next pods get as much.
fn replace(sample: &Sample, role: &ScaledRole, filling: &[Filling<'_>], tight: bool) -> Option<(Proposal, Layout)> {
    let fullest = filling.first()?;
    let filling = if tight { &filling[..1] } else { filling };
    let used = filling.iter().fold(0_u64, |sum, filling| sum.saturating_add(filling.pod.allotment.bytes));
    let to = make_room(sample, role, used, tight.then_some(fullest.pod.allotment));
    let share = share_of(left(sample, to), used);
    let most = sample.largest_pod.bytes.unwrap_or(u64::MAX);
    let more = |pod: &PodSample| {
        let now = pod.allotment.bytes;
        let bytes = now.saturating_add(share(now)).min(most);
        #[expect(clippy::cast_precision_loss, reason = "a ratio")]
        let is_worth = bytes as f64 >= WORTH * now as f64;
        is_worth.then_some(Allotment { bytes, ..pod.allotment })
    };
    let replaced = filling.iter().filter_map(|filling| Some((filling.pod, more(filling.pod)?)));
    let replaced: Vec<(&PodSample, Allotment)> = replaced.collect();
    let largest = replaced.iter().map(|(_, allotment)| allotment.bytes).max()?;
    let names: Vec<&str> = replaced.iter().map(|(pod, _)| pod.name.as_str()).collect();
    let mut proposal = Proposal::new(sample, to, None, Purpose::Memory, fullest.evidence());
    let change = format!("more memory for {}", names.join(", "));
    proposal.change = if to == Layout::of(sample) { change } else { format!("{change}, {}", proposal.change) };
    let migration =
        |(pod, to): &(&PodSample, Allotment)| MigratePod { pod: pod.name.clone(), resources: to.resources() };
    proposal.migrate = replaced.iter().map(migration).collect();
    if replaced.len() == role.replicas as usize {
        let resources = Allotment { bytes: largest, ..role.pod }.resources();
        proposal.roles.insert(role.name.clone(), RoleChange { replicas: None, resources });
    }
    Some((proposal, to))
}

/// Memory that is left under the ceiling.
fn left(sample: &Sample, layout: Layout) -> u64 {
    let total = layout.total(sample, None).bytes;
    sample.ceiling.bytes.map_or(u64::MAX, |most| most.saturating_sub(total))
}

/// The present layout, or one with the fewest workers less that make room: under the ceiling for half as much memory more,
/// and on the nodes for a successor.
fn make_room(sample: &Sample, role: &ScaledRole, used: u64, successor: Option<Allotment>) -> Layout {
    let now = Layout::of(sample);
    if role.name == sample.workers.name {
        return now;
    }
    let fewest = (*sample.worker_choices().start()).max(1_u32.saturating_sub(sample.chiefs())).min(now.workers);
    let layouts = || (fewest..=now.workers).rev().map(|workers| Layout { workers, ..now });
    let mut under_ceiling = layouts().filter(|to| left(sample, *to) >= used / 2);
    let Some(pod) = successor else { return under_ceiling.next().unwrap_or(now) };
    let frees = |needed: Allotment, to: &Layout| {
        Ceiling::from(Allotment::default().plus_times(sample.workers.pod, now.workers - to.workers)).fits(needed)
    };
    let doubled = Allotment { bytes: pod.bytes * 2, ..pod };
    let mut for_all = under_ceiling.filter(|to| frees(doubled, to));
    for_all.next().or_else(|| layouts().find(|to| frees(Allotment { bytes: 0, ..pod }, to))).unwrap_or(now)
}

/// How much more memory a pod gets: as much as it has, or its part of what is left for all.
fn share_of(left: u64, all: u64) -> impl Fn(u64) -> u64 {
    move |bytes| {
        let share = u128::from(left) * u128::from(bytes) / u128::from(all.max(1));
        u64::try_from(share).unwrap_or(u64::MAX).min(bytes)
    }
}

/// Adds a server, if the servers are then far enough from their limits.
fn add_server(sample: &Sample, filling: &[Filling<'_>]) -> Option<(Proposal, Layout)> {
    let fullest = filling.first()?;
    let now = Layout::of(sample);
    let to = Layout { servers: now.servers + 1, ..now };
    let part = f64::from(now.servers) / f64::from(to.servers);
    let suffices = filling.iter().all(|filling| filling.left_with(part) >= LATER.as_secs_f64());
    let fits = sample.server_choices().contains(&to.servers) && sample.ceiling.fits(to.total(sample, None));
    let proposal = || Proposal::new(sample, to, None, Purpose::Memory, fullest.evidence());
    (suffices && fits).then(|| (proposal(), to))
}

/// Whether a pod can use so many bytes. Zero is what a program reports that cannot measure itself, and nothing grows far
/// beyond its limit.
fn is_possible(bytes: u64, limit: u64) -> bool {
    bytes > 0 && (limit == 0 || bytes / 2 <= limit)
}

/// The least-squares slope in bytes per second.
#[expect(clippy::cast_precision_loss, reason = "bytes of memory in a forecast")]
fn slope(trend: &VecDeque<(Duration, u64)>) -> f64 {
    let points = || trend.iter().map(|(at, bytes)| (at.as_secs_f64(), *bytes as f64));
    let count = trend.len() as f64;
    let (x, y) = points().fold((0.0, 0.0), |(x, y), (at, bytes)| (x + at / count, y + bytes / count));
    let (up, down) =
        points().fold((0.0, 0.0), |(up, down), (at, bytes)| (up + (at - x) * (bytes - y), down + (at - x) * (at - x)));
    if down > 0.0 { up / down } else { 0.0 }
}
