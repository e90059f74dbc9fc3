//! Reads the worlds that workers received, and checks each world's invariants.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use serde::Deserialize;

use super::super::faults::deadline::eventually_or_explain;
use super::super::launch::folder::Folder;

/// The world that one worker received.
#[derive(Debug, Clone, Deserialize)]
pub struct WorldReport {
    pub pid: i32,
    pub world: World,
}

/// The fields of a world, as the protocol names them; another one is an error.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct World {
    pub round: u64,
    pub rank: u32,
    pub world_size: u32,
    pub local_rank: u32,
    pub master_addr: IpAddr,
    pub master_port: u16,
    pub survivors: Vec<u32>,
    pub store_prefix: String,
}

impl WorldReport {
    /// The address of the world's store, as this worker received it.
    pub fn store(&self) -> SocketAddr {
        SocketAddr::new(self.world.master_addr, self.world.master_port)
    }
}

/// The reports about the latest world, by rank, as soon as they fulfil the condition.
pub fn await_world(folder: &Folder, is_wanted: impl Fn(&[WorldReport]) -> bool) -> Vec<WorldReport> {
    let look = || Some(latest(folder)).filter(|world| !world.is_empty() && is_wanted(world));
    eventually_or_explain("another world", look, || folder.read("told"))
}

/// Checks that all workers received the same world, each with its own rank, and the list of survivors.
pub fn assert_world(world: &[WorldReport], before: &BTreeSet<i32>) {
    let ranks: Vec<u32> = world.iter().map(|report| report.world.rank).collect();
    assert_eq!(ranks, (0..).take(world.len()).collect::<Vec<u32>>(), "{world:?}");
    let survived = |report: &&WorldReport| before.contains(&report.pid);
    let survivors: Vec<u32> = world.iter().filter(survived).map(|report| report.world.rank).collect();
    for WorldReport { world: one, .. } in world {
        let first = &world[0].world;
        assert_eq!((one.round, &one.store_prefix), (first.round, &first.store_prefix), "{world:?}");
        assert_eq!((one.world_size as usize, &one.survivors), (world.len(), &survivors), "{world:?}");
        assert!(one.local_rank <= one.rank && one.master_port != 0, "{world:?}");
    }
    assert!(survivors.is_empty() || survivors[0] == 0, "rank 0 is a survivor: {world:?}");
}

fn latest(folder: &Folder) -> Vec<WorldReport> {
    let reports: Vec<WorldReport> =
        folder.lines("told").iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let last = reports.iter().map(|report| report.world.round).max();
    let mut world: Vec<WorldReport> = reports.into_iter().filter(|report| Some(report.world.round) == last).collect();
    world.sort_by_key(|report| report.world.rank);
    world
}
