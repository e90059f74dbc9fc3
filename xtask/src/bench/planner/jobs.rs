//! Random jobs: a master, a few parameter servers, and trainers. Together they want more than the cluster has.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use flexor_control::PlannedJob;
use flexor_model::{Quantity, Resources, UnixTime};
use flexor_sched::{PodShape, SizedJob, SizedRole, Toleration};

use super::random::Random;

/// The label by which jobs choose nodes, and its values.
pub(super) const ZONE: &str = "topology.kubernetes.io/zone";
pub(super) const ZONES: [&str; 3] = ["a", "b", "c"];
/// The resource of graphics cards, and the taint of nodes that have some.
pub(super) const CARDS: &str = "nvidia.com/gpu";
/// A job in so many has a fixed size.
const FIXED: u32 = 4;
/// A job in so many uses graphics cards.
const WITH_CARDS: u32 = 8;
/// A job in so many chooses a zone.
const WITH_ZONE: u32 = 6;

/// Cores, GiB of memory, and graphics cards.
pub(super) fn resources(cores: u32, memory: u32, cards: u32) -> Result<Resources> {
    let mut pairs = vec![("cpu", Quantity::whole(cores)), ("memory", format!("{memory}Gi").parse()?)];
    if cards > 0 {
        pairs.push((CARDS, Quantity::whole(cards)));
    }
    Ok(pairs.into_iter().collect())
}

/// A job that was created at this time.
pub(super) fn random(number: u64, created: UnixTime, random: &mut Random) -> Result<PlannedJob> {
    let min = random.between(2, 16);
    let max = if random.once_in(FIXED) { min } else { min + random.between(1, 60) };
    let servers = random.between(1, 4);
    let cards = if random.once_in(WITH_CARDS) { random.between(1, 2) } else { 0 };
    let zone = random.once_in(WITH_ZONE).then(|| random.one_of(&ZONES));
    let cores = random.one_of(&[1, 2, 2, 4]);
    let priority = if random.once_in(10) { 100 } else { 0 };
    let role = |name: &str, min: u32, max: u32, requests: Resources, cards: u32| -> Result<SizedRole> {
        let node_selector = zone.map(|zone| BTreeMap::from([(ZONE.to_owned(), zone.to_owned())])).unwrap_or_default();
        let toleration = Toleration { key: Some(CARDS.to_owned()), value: None, effect: None };
        let tolerations = if cards > 0 { vec![toleration] } else { Vec::new() };
        let pod = PodShape { requests, node_selector, tolerations };
        Ok(SizedRole { name: name.parse()?, min, max, pod, target: 0, finished: BTreeSet::new() })
    };
    let roles = vec![
        role("master", 1, 1, resources(1, 1, 0)?, 0)?,
        role("pserver", servers, servers, resources(2, 8, 0)?, 0)?,
        role("trainer", min, max, resources(cores, cores * random.one_of(&[2, 4]), cards)?, cards)?,
    ];
    let key = format!("team-{:02}/job-{number:05}", number % 20).into();
    let sized = SizedJob { key, priority, created, roles, growth_paused: false };
    Ok(PlannedJob { sized, promised: Vec::new(), refused: None })
}
