//! Properties of target placement for every map and set of servers: even spread, few changes, and termination.

use flexor_model::MapEpoch;
use proptest::prelude::*;

use super::super::partition_map::{PartitionGeneration, Source};
use super::*;
use crate::dice::Dice;

fn server(number: usize) -> ServerId {
    ServerId::new(format!("ps-{number}"), 1)
}

/// Primary and backup of partitions, on servers of which some are gone. A partition without a primary has no backup.
fn assignments(most: usize) -> impl Strategy<Value = Vec<(usize, usize)>> {
    prop::collection::vec((0_usize..8, 0_usize..8), 0..most)
}

fn map(assignments: &[(usize, usize)]) -> PartitionMap {
    let generation = PartitionGeneration { number: 1, source: Source::Initial };
    let replicas = |(primary, backup): &(usize, usize)| {
        let primary = Some(*primary).filter(|primary| *primary < 7).map(server);
        let backup = Some(*backup).filter(|backup| *backup < 7).map(server);
        let backup = backup.filter(|backup| primary.as_ref().is_some_and(|primary| primary != backup));
        PartitionReplicas { primary, backup, generation, primary_since: MapEpoch(0) }
    };
    PartitionMap { epoch: MapEpoch(1), partitions: assignments.iter().map(replicas).collect() }
}

fn servers(count: usize) -> Vec<ServerId> {
    (0..count).map(server).collect()
}

/// Whether no server has two more than another.
fn is_even<'a>(placed: impl Iterator<Item = &'a ServerId>, servers: &[ServerId]) -> bool {
    let mut has: BTreeMap<&ServerId, usize> = servers.iter().map(|server| (server, 0)).collect();
    placed.for_each(|server| *has.get_mut(server).unwrap() += 1);
    has.values().max().unwrap() - has.values().min().unwrap() <= 1
}

/// Partitions whose backup has to be transferred once primaries are on their targets.
fn transferred(map: &PartitionMap, targets: &[TargetReplicas]) -> Vec<usize> {
    let is_transferred = |(replicas, target): (&PartitionReplicas, &TargetReplicas)| {
        replicas.backup_beside(&target.primary) != target.backup.as_ref()
    };
    let pairs = map.partitions.iter().zip(targets).enumerate();
    pairs.filter(|(_, pair)| is_transferred(*pair)).map(|(index, _)| index).collect()
}

/// Takes the next step of a partition, if there is one: first its primary moves, then its backup.
fn step(replicas: &mut PartitionReplicas, target: &TargetReplicas) -> bool {
    let before = replicas.clone();
    if replicas.primary.as_ref() != Some(&target.primary) {
        let backup = replicas.backup_beside(&target.primary).cloned();
        *replicas = PartitionReplicas { primary: Some(target.primary.clone()), backup, ..before.clone() };
    } else {
        replicas.backup.clone_from(&target.backup);
    }
    *replicas != before
}

/// The number of missing backups, and the sum of the squares of the backups per server, once primaries are on their
/// targets.
fn unevenness(map: &PartitionMap, targets: &[TargetReplicas], servers: &[ServerId]) -> (usize, usize) {
    let backups =
        map.partitions.iter().zip(targets).filter_map(|(replicas, target)| replicas.backup_beside(&target.primary));
    let mut has: BTreeMap<&ServerId, usize> = servers.iter().map(|server| (server, 0)).collect();
    backups.for_each(|server| {
        has.entry(server).and_modify(|count| *count += 1);
    });
    (map.partitions.len() - has.values().sum::<usize>(), has.values().map(|count| count * count).sum())
}

/// The fewest backup transfers that lead to an even spread, by exhaustive search.
fn fewest(map: &PartitionMap, targets: &[TargetReplicas], servers: &[ServerId]) -> usize {
    let most = map.partitions.len().div_ceil(servers.len());
    // The fewest for each distribution of the first partitions.
    let mut distributions = BTreeMap::from([(vec![0_usize; servers.len()], 0_usize)]);
    for (replicas, target) in map.partitions.iter().zip(targets) {
        let backup = replicas.backup_beside(&target.primary);
        let mut extended = BTreeMap::new();
        for (loads, cost) in distributions {
            for (index, server) in servers.iter().enumerate().filter(|(_, server)| **server != target.primary) {
                let mut loads = loads.clone();
                loads[index] += 1;
                let cost = cost + usize::from(backup != Some(server));
                if loads[index] <= most {
                    extended.entry(loads).and_modify(|known: &mut usize| *known = cost.min(*known)).or_insert(cost);
                }
            }
        }
        distributions = extended;
    }
    let even =
        distributions.into_iter().filter(|(loads, _)| loads.iter().max().unwrap() - loads.iter().min().unwrap() <= 1);
    even.map(|(_, cost)| cost).min().expect("backups can be spread evenly")
}

#[test]
fn few_backups_move_without_need() {
    let mut dice = Dice(1);
    let (states, mut more) = (2_000, 0);
    for _ in 0..states {
        let (partitions, servers) = (dice.roll(11), servers(2 + dice.roll(4) as usize));
        let assignments: Vec<_> = (0..partitions).map(|_| (dice.roll(8) as usize, dice.roll(8) as usize)).collect();
        let map = map(&assignments);
        let targets = targets(&map, &servers, 2);
        let (made, fewest) = (transferred(&map, &targets).len(), fewest(&map, &targets, &servers));
        assert!(made <= fewest + 1, "{made} backups move where {fewest} would do: {map:?}");
        more += usize::from(made > fewest);
    }
    assert!(more * 100 <= states, "{more} of {states} times one backup moves without need");
}

proptest! {
    #[test]
    fn primaries_and_backups_are_spread_evenly_over_different_servers(assignments in assignments(64), count in 2_usize..7) {
        let (map, servers) = (map(&assignments), servers(count));
        let targets = targets(&map, &servers, 2);
        prop_assert_eq!(targets.len(), map.partitions.len());
        prop_assert!(targets.iter().all(|target| target.backup.as_ref().is_some_and(|backup| *backup != target.primary)));
        prop_assert!(is_even(targets.iter().map(|target| &target.primary), &servers));
        prop_assert!(is_even(targets.iter().filter_map(|target| target.backup.as_ref()), &servers));
    }

    #[test]
    fn nothing_moves_when_the_spread_is_even(assignments in assignments(64), count in 2_usize..7) {
        let (mut map, servers) = (map(&assignments), servers(count));
        let aimed = targets(&map, &servers, 2);
        for (replicas, target) in map.partitions.iter_mut().zip(&aimed) {
            (replicas.primary, replicas.backup) = (Some(target.primary.clone()), target.backup.clone());
        }
        prop_assert_eq!(targets(&map, &servers, 2), aimed);
    }

    #[test]
    fn each_backup_transfer_fills_a_gap_or_evens_the_spread(assignments in assignments(64), count in 2_usize..7, seed in any::<u64>()) {
        let (mut map, servers, mut dice) = (map(&assignments), servers(count), Dice(seed));
        let mut primaries = targets(&map, &servers, 2);
        // Primaries first: their targets may change while they move.
        while map.partitions.iter().zip(&primaries).any(|(replicas, target)| replicas.primary.as_ref() != Some(&target.primary)) {
            for (replicas, target) in map.partitions.iter_mut().zip(&primaries) {
                if replicas.primary.as_ref() != Some(&target.primary) && dice.roll(2) == 0 {
                    step(replicas, target);
                }
            }
            primaries = targets(&map, &servers, 2);
        }
        // Then missing backups, and after them the others in any order.
        loop {
            let now = targets(&map, &servers, 2);
            let left = transferred(&map, &now);
            let is_missing = |index: &usize| map.partitions[*index].backup.as_ref().is_none_or(|backup| !servers.contains(backup));
            let missing: Vec<usize> = left.iter().copied().filter(is_missing).collect();
            let next = if missing.is_empty() { left } else { missing };
            if next.is_empty() {
                break;
            }
            let before = unevenness(&map, &now, &servers);
            let arrives = next[dice.roll(next.len() as u64) as usize];
            step(&mut map.partitions[arrives], &now[arrives]);
            prop_assert!(unevenness(&map, &now, &servers) < before);
        }
        prop_assert!(is_even(map.partitions.iter().filter_map(|replicas| replicas.backup.as_ref()), &servers));
    }

    #[test]
    fn rebalancing_terminates_in_any_order(assignments in assignments(40), count in 2_usize..7, seed in any::<u64>()) {
        let (mut map, servers, mut dice) = (map(&assignments), servers(count), Dice(seed));
        for _ in 0..4 * map.partitions.len() + 1 {
            let targets = targets(&map, &servers, 2);
            let pairs = map.partitions.iter_mut().zip(&targets).map(|(replicas, target)| (dice.roll(1 << 20), replicas, target));
            let mut pairs: Vec<_> = pairs.collect();
            pairs.sort_by_key(|(order, ..)| *order);
            if !pairs.into_iter().any(|(_, replicas, target)| step(replicas, target)) {
                return Ok(());
            }
        }
        prop_assert!(false, "rebalancing never ends: {:?}", map);
    }
}
