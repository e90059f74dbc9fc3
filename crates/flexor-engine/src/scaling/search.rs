//! Chooses sizes: the cheapest within 3 % of the best reachable, if that is worth a change.

use super::history::Excess;
use super::layout::Cost;
use super::model::QueueingModel;
use super::{Allotment, Layout, Sample};

/// Throughput this close to the best counts as the best.
const NEAR_BEST: f64 = 0.97;
/// A change for throughput gains at least this factor, and more by twice the error of the measurement.
const WORTH: f64 = 1.05;
/// A change for savings keeps this much of the throughput …
const KEPT: f64 = 0.98;
/// … and takes at most this much of the cost.
const SAVED: f64 = 0.8;
/// At most this many times as many workers at a time, and half as many.
const WORKER_FACTOR: u32 = 4;
/// At most so many servers more or fewer at a time.
const SERVER_STEP: u32 = 3;
/// The CPU of a hot server's successor is a multiple of this, in thousandths.
const CPU_STEP: u64 = 100;

/// A change that is worth making.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Change {
    pub(super) layout: Layout,
    /// Expected batches per second.
    pub(super) rate: f64,
    /// It is for throughput; else for savings.
    pub(super) gains: bool,
}

/// Sizes with what they promise.
#[derive(Debug, Clone, Copy)]
struct Choice {
    layout: Layout,
    rate: f64,
    cost: Cost,
}

/// The change that is worth making, if there is one.
pub(super) fn choose(
    model: &QueueingModel,
    excess: &Excess,
    sample: &Sample,
    error: f64,
    is_allowed: impl Fn(Layout) -> bool,
) -> Option<Change> {
    let now = Layout::of(sample);
    let mut choices = reachable(model, excess, sample);
    choices.retain(|choice| choice.layout == now || is_allowed(choice.layout));
    let best = choices.iter().map(|choice| choice.rate).fold(0.0, f64::max);
    let near = choices.iter().filter(|choice| choice.rate >= NEAR_BEST * best);
    let chosen = *near.min_by(|a, b| a.cost.cmp(&b.cost).then(b.rate.total_cmp(&a.rate)))?;
    let cost = now.cost(now.total(sample, model.busiest));
    let gains = chosen.rate >= (WORTH + 2.0 * error) * model.rate;
    let saves = chosen.rate >= KEPT * model.rate && chosen.cost.is_below(SAVED, cost);
    let change = Change { layout: chosen.layout, rate: chosen.rate, gains };
    (chosen.layout != now && (gains || saves)).then_some(change)
}

/// All layouts one step away that fit, and the present one.
fn reachable(model: &QueueingModel, excess: &Excess, sample: &Sample) -> Vec<Choice> {
    let (now, chiefs, workers) = (Layout::of(sample), sample.chiefs(), sample.worker_choices());
    let all = now.workers.saturating_add(chiefs);
    let most = all.saturating_mul(WORKER_FACTOR).saturating_sub(chiefs).min(*workers.end()).max(now.workers);
    let fewest = all.div_ceil(2).saturating_sub(chiefs).max(*workers.start()).min(now.workers);
    let mut found = Vec::new();
    for servers in server_layouts(model, sample) {
        let rates = model.rates(servers, most);
        for (workers, rate) in (fewest..=most).zip(rates.into_iter().skip(fewest as usize)) {
            let layout = Layout { workers, ..servers };
            let total = layout.total(sample, model.busiest);
            if !layout.grows_from(now) || sample.ceiling.fits(total) {
                let rate = excess.correct(f64::from(workers + chiefs), rate);
                found.push(Choice { layout, rate, cost: layout.cost(total) });
            }
        }
    }
    found
}

/// The servers one step away, with the present workers.
fn server_layouts(model: &QueueingModel, sample: &Sample) -> Vec<Layout> {
    let (now, choices) = (Layout::of(sample), sample.server_choices());
    let fewest = now.servers.saturating_sub(SERVER_STEP).max(*choices.start()).max(1).min(now.servers);
    let most = now.servers.saturating_add(SERVER_STEP).min(*choices.end()).max(now.servers);
    let of_hot = successors(model, sample).into_iter().map(|hot| Layout { hot: Some(hot), ..now });
    (fewest..=most).map(|servers| Layout { servers, ..now }).chain(of_hot).collect()
}

/// The CPU that a hot server may migrate to: at most as much as makes it as busy as the others.
fn successors(model: &QueueingModel, sample: &Sample) -> Vec<u64> {
    let hot = model.hot_server().filter(|_| sample.servers.is_automatic());
    let Some((position, cores)) = hot else { return Vec::new() };
    let Some(pod) = sample.measured_servers().get(position) else { return Vec::new() };
    let now = pod.allotment.millicores;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a positive number of cores")]
    let even = ((cores * 1000.0) as u64).next_multiple_of(CPU_STEP);
    let most = sample.largest_pod.millicores.unwrap_or(u64::MAX).min(even);
    let between = [now * 3 / 2, now * 2].map(|cpu| cpu.next_multiple_of(CPU_STEP));
    let mut all: Vec<u64> = between.into_iter().filter(|cpu| *cpu < most).chain([most]).collect();
    all.retain(|cpu| *cpu > now);
    all
}

impl Cost {
    fn is_below(self, factor: f64, other: Self) -> bool {
        #[expect(clippy::cast_precision_loss, reason = "a count of cores has few digits")]
        match other.millicores {
            0 => f64::from(self.pods) <= factor * f64::from(other.pods),
            all => self.millicores as f64 <= factor * all as f64,
        }
    }
}

/// What the job requests now.
pub(super) fn present_total(sample: &Sample) -> Allotment {
    Layout::of(sample).total(sample, None)
}
