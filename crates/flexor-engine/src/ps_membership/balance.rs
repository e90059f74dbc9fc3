//! Target placement: spreads primaries and backups evenly over the servers, with few changes to the current map.
//!
//! This module decides the destination only. [`super::transfers`] moves partitions there, and asks again after each move.

mod backups;
#[cfg(test)]
mod properties;

use std::collections::BTreeMap;

use super::partition_map::{PartitionMap, PartitionReplicas};
use super::server::ServerId;

/// Target servers of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TargetReplicas {
    pub(super) primary: ServerId,
    pub(super) backup: Option<ServerId>,
}

/// Target servers of every partition. `servers` are in natural order, and there is at least one.
pub(super) fn targets(map: &PartitionMap, servers: &[ServerId], replication_factor: u32) -> Vec<TargetReplicas> {
    let primaries = primaries(map, servers);
    let backups = if replication_factor > 1 && servers.len() > 1 {
        // The backups once all primaries are on their target servers.
        let current = map.partitions.iter().zip(&primaries);
        let current: Vec<_> = current.map(|(replicas, primary)| replicas.backup_beside(primary)).collect();
        backups::spread(&current, &primaries, servers).into_iter().map(Some).collect()
    } else {
        vec![None; primaries.len()]
    };
    primaries.into_iter().zip(backups).map(|(primary, backup)| TargetReplicas { primary, backup }).collect()
}

/// The most partitions that each server should be primary of. The remainder goes to the servers with the most already.
fn quotas(partitions: usize, servers: &[ServerId], has: &BTreeMap<&ServerId, usize>) -> BTreeMap<ServerId, usize> {
    let (each, rest) = (partitions / servers.len(), partitions % servers.len());
    let mut by_load: Vec<&ServerId> = servers.iter().collect();
    by_load.sort_by_key(|server| std::cmp::Reverse(has.get(server).copied().unwrap_or(0)));
    let quota = |index: usize| each + usize::from(index < rest);
    by_load.into_iter().enumerate().map(|(index, server)| (server.clone(), quota(index))).collect()
}

fn primaries(map: &PartitionMap, servers: &[ServerId]) -> Vec<ServerId> {
    let mut has: BTreeMap<&ServerId, usize> = servers.iter().map(|server| (server, 0)).collect();
    for primary in map.partitions.iter().filter_map(|replicas| replicas.primary.as_ref()) {
        has.entry(primary).and_modify(|count| *count += 1);
    }
    let mut room = quotas(map.partitions.len(), servers, &has);
    let mut take = |server: &ServerId| match room.get_mut(server) {
        Some(left) if *left > 0 => {
            *left -= 1;
            true
        }
        Some(_) | None => false,
    };
    // First partitions that stay, then those that can move to their backup, then the others wherever there is room.
    let stays = |replicas: &PartitionReplicas, take: &mut dyn FnMut(&ServerId) -> bool| {
        replicas.primary.clone().filter(|primary| take(primary))
    };
    let mut primaries: Vec<Option<ServerId>> =
        map.partitions.iter().map(|replicas| stays(replicas, &mut take)).collect();
    for (primary, replicas) in primaries.iter_mut().zip(&map.partitions).filter(|(primary, _)| primary.is_none()) {
        *primary = replicas.backup.clone().filter(|backup| take(backup));
    }
    primaries.into_iter().map(|primary| primary.unwrap_or_else(|| take_roomiest(&mut room))).collect()
}

/// Takes one unit of quota from the server with the most left; of several, from the first.
fn take_roomiest(room: &mut BTreeMap<ServerId, usize>) -> ServerId {
    let most = room.values().copied().max().unwrap_or(0);
    let (server, left) = room.iter_mut().find(|(_, left)| **left == most).expect("there is a server");
    *left = left.saturating_sub(1);
    server.clone()
}

#[cfg(test)]
mod tests {
    use flexor_model::MapEpoch;

    use super::super::partition_map::{PartitionGeneration, Source};
    use super::*;

    fn server(name: &str) -> ServerId {
        ServerId::new(name, 1)
    }

    fn map(primaries: &[(&str, Option<&str>)]) -> PartitionMap {
        let generation = PartitionGeneration { number: 1, source: Source::Initial };
        let replicas = |(primary, backup): &(&str, Option<&str>)| PartitionReplicas {
            primary: Some(server(primary)),
            backup: backup.map(server),
            generation,
            primary_since: MapEpoch(0),
        };
        PartitionMap { epoch: MapEpoch(1), partitions: primaries.iter().map(replicas).collect() }
    }

    fn moved(map: &PartitionMap, targets: &[TargetReplicas]) -> usize {
        map.partitions
            .iter()
            .zip(targets)
            .filter(|(replicas, target)| replicas.primary.as_ref() != Some(&target.primary))
            .count()
    }

    #[test]
    fn a_new_server_takes_its_share_and_nothing_else_moves() {
        let map = map(&[("a", None); 8].into_iter().chain([("b", None); 8]).collect::<Vec<_>>());
        let targets = targets(&map, &[server("a"), server("b"), server("c")], 1);
        let of = |name| targets.iter().filter(|target| target.primary == server(name)).count();
        assert_eq!((of("a"), of("b"), of("c")), (6, 5, 5));
        assert_eq!(moved(&map, &targets), 5);
    }

    #[test]
    fn a_staying_server_keeps_all_it_has_when_another_leaves() {
        let map = map(&[("a", None); 5].into_iter().chain([("b", None); 5]).collect::<Vec<_>>());
        let targets = targets(&map, &[server("a")], 1);
        assert_eq!(moved(&map, &targets), 5);
        assert!(targets.iter().all(|target| target.primary == server("a") && target.backup.is_none()));
    }

    #[test]
    fn a_partition_moves_to_its_backup_first() {
        let map = map(&[("a", Some("b")), ("a", Some("c")), ("b", Some("c")), ("c", Some("b"))]);
        let targets = targets(&map, &[server("b"), server("c")], 2);
        let primaries: Vec<&str> = targets.iter().map(|target| &*target.primary.name).collect();
        assert_eq!(primaries, ["b", "c", "b", "c"]);
        assert!(targets.iter().all(|target| target.backup.as_ref().is_some_and(|backup| *backup != target.primary)));
    }

    #[test]
    fn backups_are_spread_evenly() {
        let map = map(&[("a", None); 12]);
        let targets = targets(&map, &[server("a"), server("b"), server("c")], 2);
        for name in ["a", "b", "c"] {
            let kept = targets.iter().filter(|target| target.backup == Some(server(name))).count();
            assert_eq!(kept, 4, "{name} keeps {kept} backups");
        }
    }

    #[test]
    fn backups_are_spread_again_after_failovers() {
        // The third server rejoined a while ago: it has its share of primaries and no backups.
        let assignments = [[("a", Some("b")); 5], [("b", Some("a")); 5], [("c", Some("a")); 5]].concat();
        let map = map(&assignments);
        let targets = targets(&map, &[server("a"), server("b"), server("c")], 2);
        let copied =
            map.partitions.iter().zip(&targets).filter(|(replicas, target)| replicas.backup != target.backup).count();
        assert_eq!((moved(&map, &targets), copied), (0, 5), "those that the first has too many");
        let of = |name| targets.iter().filter(|target| target.backup == Some(server(name))).count();
        assert_eq!((of("a"), of("b"), of("c")), (5, 5, 5));
    }

    #[test]
    fn two_servers_back_each_other_up() {
        let map = map(&[("a", None), ("a", None), ("b", None)]);
        let targets = targets(&map, &[server("a"), server("b")], 2);
        let backups: Vec<&str> =
            targets.iter().filter_map(|target| target.backup.as_ref()).map(|backup| &*backup.name).collect();
        assert_eq!(backups, ["b", "b", "a"]);
    }
}
