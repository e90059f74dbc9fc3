//! What holds of every map and all servers: spread evenly, with hardly anything moved that need not be, and at rest on
//! arrival.

use flexor_model::PsEpoch;
use proptest::prelude::*;

use super::super::map::{Origin, Source};
use super::*;
use crate::dice::Dice;

fn server(number: usize) -> ServerId {
    ServerId::new(format!("ps-{number}"), 1)
}

/// Seats of servers, some of which are not here; a partition that nobody owns has no copy either.
fn seats(most: usize) -> impl Strategy<Value = Vec<(usize, usize)>> {
    prop::collection::vec((0_usize..8, 0_usize..8), 0..most)
}

fn map(seats: &[(usize, usize)]) -> Map {
    let origin = Origin { number: 1, source: Source::Initial };
    let seat = |(owner, backup): &(usize, usize)| {
        let owner = Some(*owner).filter(|owner| *owner < 7).map(server);
        let backup = Some(*backup).filter(|backup| *backup < 7).map(server);
        let backup = backup.filter(|backup| owner.as_ref().is_some_and(|owner| owner != backup));
        Seat { owner, backup, origin, since: PsEpoch(0) }
    };
    Map { epoch: PsEpoch(1), seats: seats.iter().map(seat).collect() }
}

fn here(count: usize) -> Vec<ServerId> {
    (0..count).map(server).collect()
}

/// Whether nobody has two more than another.
fn is_even<'a>(kept: impl Iterator<Item = &'a ServerId>, servers: &[ServerId]) -> bool {
    let mut has: BTreeMap<&ServerId, usize> = servers.iter().map(|server| (server, 0)).collect();
    kept.for_each(|server| *has.get_mut(server).unwrap() += 1);
    has.values().max().unwrap() - has.values().min().unwrap() <= 1
}

/// The partitions of which a copy has to be made, when owners are where they should be.
fn copied(map: &Map, aims: &[Aim]) -> Vec<usize> {
    let is_copied = |(seat, aim): (&Seat, &Aim)| seat.backup_beside(&aim.owner) != aim.backup.as_ref();
    let places = map.seats.iter().zip(aims).enumerate();
    places.filter(|(_, place)| is_copied(*place)).map(|(index, _)| index).collect()
}

/// Takes the next step of a partition, if there is one: first its owner changes, then its copy.
fn step(seat: &mut Seat, aim: &Aim) -> bool {
    let before = seat.clone();
    if seat.owner.as_ref() != Some(&aim.owner) {
        let backup = seat.backup_beside(&aim.owner).cloned();
        *seat = Seat { owner: Some(aim.owner.clone()), backup, ..before.clone() };
    } else {
        seat.backup.clone_from(&aim.backup);
    }
    *seat != before
}

/// How many copies are missing, and the sum of the squares of how many each server has, when owners are where they should
/// be.
fn unevenness(map: &Map, aims: &[Aim], servers: &[ServerId]) -> (usize, usize) {
    let copies = map.seats.iter().zip(aims).filter_map(|(seat, aim)| seat.backup_beside(&aim.owner));
    let mut has: BTreeMap<&ServerId, usize> = servers.iter().map(|server| (server, 0)).collect();
    copies.for_each(|server| {
        has.entry(server).and_modify(|count| *count += 1);
    });
    (map.seats.len() - has.values().sum::<usize>(), has.values().map(|count| count * count).sum())
}

/// The fewest copies that have to be made for an even spread, of all that there are.
fn fewest(map: &Map, aims: &[Aim], servers: &[ServerId]) -> usize {
    let most = map.seats.len().div_ceil(servers.len());
    // The fewest for every way in which the first partitions can be spread.
    let mut ways = BTreeMap::from([(vec![0_usize; servers.len()], 0_usize)]);
    for (seat, aim) in map.seats.iter().zip(aims) {
        let copy = seat.backup_beside(&aim.owner);
        let mut longer = BTreeMap::new();
        for (loads, cost) in ways {
            for (index, server) in servers.iter().enumerate().filter(|(_, server)| **server != aim.owner) {
                let mut loads = loads.clone();
                loads[index] += 1;
                let cost = cost + usize::from(copy != Some(server));
                if loads[index] <= most {
                    longer.entry(loads).and_modify(|known: &mut usize| *known = cost.min(*known)).or_insert(cost);
                }
            }
        }
        ways = longer;
    }
    let even = ways.into_iter().filter(|(loads, _)| loads.iter().max().unwrap() - loads.iter().min().unwrap() <= 1);
    even.map(|(_, cost)| cost).min().expect("copies can be spread evenly")
}

#[test]
fn few_copies_are_made_that_need_not_be() {
    let mut dice = Dice(1);
    let (states, mut more) = (2_000, 0);
    for _ in 0..states {
        let (partitions, servers) = (dice.roll(11), here(2 + dice.roll(4) as usize));
        let seats: Vec<_> = (0..partitions).map(|_| (dice.roll(8) as usize, dice.roll(8) as usize)).collect();
        let map = map(&seats);
        let aims = aims(&map, &servers, 2);
        let (made, fewest) = (copied(&map, &aims).len(), fewest(&map, &aims, &servers));
        assert!(made <= fewest + 1, "{made} are made where {fewest} would do: {map:?}");
        more += usize::from(made > fewest);
    }
    assert!(more * 100 <= states, "{more} of {states} times one is made that need not be");
}

proptest! {
    #[test]
    fn owners_and_copies_are_spread_evenly_over_different_servers(seats in seats(64), count in 2_usize..7) {
        let (map, servers) = (map(&seats), here(count));
        let aims = aims(&map, &servers, 2);
        prop_assert_eq!(aims.len(), map.seats.len());
        prop_assert!(aims.iter().all(|aim| aim.backup.as_ref().is_some_and(|backup| *backup != aim.owner)));
        prop_assert!(is_even(aims.iter().map(|aim| &aim.owner), &servers));
        prop_assert!(is_even(aims.iter().filter_map(|aim| aim.backup.as_ref()), &servers));
    }

    #[test]
    fn nothing_moves_where_all_is_even(seats in seats(64), count in 2_usize..7) {
        let (mut map, servers) = (map(&seats), here(count));
        let aimed = aims(&map, &servers, 2);
        for (seat, aim) in map.seats.iter_mut().zip(&aimed) {
            (seat.owner, seat.backup) = (Some(aim.owner.clone()), aim.backup.clone());
        }
        prop_assert_eq!(aims(&map, &servers, 2), aimed);
    }

    #[test]
    fn each_copy_fills_a_gap_or_makes_the_spread_more_even(seats in seats(64), count in 2_usize..7, seed in any::<u64>()) {
        let (mut map, servers, mut dice) = (map(&seats), here(count), Dice(seed));
        let mut owners = aims(&map, &servers, 2);
        // Owners first: who they are to be may change while they move.
        while map.seats.iter().zip(&owners).any(|(seat, aim)| seat.owner.as_ref() != Some(&aim.owner)) {
            for (seat, aim) in map.seats.iter_mut().zip(&owners) {
                if seat.owner.as_ref() != Some(&aim.owner) && dice.roll(2) == 0 {
                    step(seat, aim);
                }
            }
            owners = aims(&map, &servers, 2);
        }
        // Then what is missing, and the others in any order.
        loop {
            let now = aims(&map, &servers, 2);
            let left = copied(&map, &now);
            let is_missing = |index: &usize| map.seats[*index].backup.as_ref().is_none_or(|backup| !servers.contains(backup));
            let missing: Vec<usize> = left.iter().copied().filter(is_missing).collect();
            let next = if missing.is_empty() { left } else { missing };
            if next.is_empty() {
                break;
            }
            let before = unevenness(&map, &now, &servers);
            let arrives = next[dice.roll(next.len() as u64) as usize];
            step(&mut map.seats[arrives], &now[arrives]);
            prop_assert!(unevenness(&map, &now, &servers) < before);
        }
        prop_assert!(is_even(map.seats.iter().filter_map(|seat| seat.backup.as_ref()), &servers));
    }

    #[test]
    fn moves_come_to_an_end_in_any_order(seats in seats(40), count in 2_usize..7, seed in any::<u64>()) {
        let (mut map, servers, mut dice) = (map(&seats), here(count), Dice(seed));
        for _ in 0..4 * map.seats.len() + 1 {
            let aims = aims(&map, &servers, 2);
            let places = map.seats.iter_mut().zip(&aims).map(|(seat, aim)| (dice.roll(1 << 20), seat, aim));
            let mut places: Vec<_> = places.collect();
            places.sort_by_key(|(order, ..)| *order);
            if !places.into_iter().any(|(_, seat, aim)| step(seat, aim)) {
                return Ok(());
            }
        }
        prop_assert!(false, "it never comes to rest: {:?}", map);
    }
}
