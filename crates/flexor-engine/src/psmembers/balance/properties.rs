//! What holds of every map and all servers: spread evenly, with nothing moved that need not be, and at rest on arrival.

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

/// The fewest copies that have to be made for an even spread, of all that there are.
fn fewest(map: &Map, aims: &[Aim], servers: &[ServerId]) -> usize {
    fn try_all(left: &[(Option<&ServerId>, &ServerId)], taken: &mut Vec<ServerId>, servers: &[ServerId]) -> usize {
        let Some(((copy, owner), left)) = left.split_first() else {
            return if is_even(taken.iter(), servers) { 0 } else { usize::MAX };
        };
        let mut fewest = usize::MAX;
        for server in servers.iter().filter(|server| server != owner) {
            taken.push(server.clone());
            let cost = usize::from(*copy != Some(server));
            fewest = fewest.min(try_all(left, taken, servers).saturating_add(cost));
            taken.pop();
        }
        fewest
    }
    let places = map.seats.iter().zip(aims);
    let places: Vec<_> = places.map(|(seat, aim)| (seat.backup_beside(&aim.owner), &aim.owner)).collect();
    try_all(&places, &mut Vec::new(), servers)
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
    fn no_more_copies_are_made_than_have_to_be(seats in seats(6), count in 2_usize..5) {
        let (map, servers) = (map(&seats), here(count));
        let aims = aims(&map, &servers, 2);
        prop_assert_eq!(copied(&map, &aims).len(), fewest(&map, &aims, &servers));
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
    fn each_copy_is_made_once_whatever_arrives_first(seats in seats(64), count in 2_usize..7, seed in any::<u64>()) {
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
        let mut left = copied(&map, &owners);
        while !left.is_empty() {
            let arrives = left[dice.roll(left.len() as u64) as usize];
            let now = aims(&map, &servers, 2);
            step(&mut map.seats[arrives], &now[arrives]);
            let after = copied(&map, &aims(&map, &servers, 2));
            prop_assert!(after.len() < left.len() && !after.contains(&arrives), "nothing is made twice");
            left = after;
        }
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
