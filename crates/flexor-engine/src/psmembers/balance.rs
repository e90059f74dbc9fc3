//! Who should keep which partition: each server the same number, and little in other hands than now.
//!
//! A decision about where to go, not about how: [`super::moves`] takes the steps, and asks again after each of them.

mod copies;
#[cfg(test)]
mod properties;

use std::collections::BTreeMap;

use super::map::{Map, Seat};
use super::server::ServerId;

/// Where a partition should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Aim {
    pub(super) owner: ServerId,
    pub(super) backup: Option<ServerId>,
}

/// Where every partition should be, with these servers. They are in their natural order, and there is at least one.
pub(super) fn aims(map: &Map, servers: &[ServerId], copies: u32) -> Vec<Aim> {
    let owners = owners(map, servers);
    let backups = if copies > 1 && servers.len() > 1 {
        // What is a copy when owners are where they should be.
        let copies: Vec<Option<&ServerId>> =
            map.seats.iter().zip(&owners).map(|(seat, owner)| seat.backup_beside(owner)).collect();
        copies::spread(&copies, &owners, servers).into_iter().map(Some).collect()
    } else {
        vec![None; owners.len()]
    };
    owners.into_iter().zip(backups).map(|(owner, backup)| Aim { owner, backup }).collect()
}

/// How many partitions each server should have at most. What does not divide goes to those who have most already.
fn quotas(partitions: usize, servers: &[ServerId], has: &BTreeMap<&ServerId, usize>) -> BTreeMap<ServerId, usize> {
    let (each, rest) = (partitions / servers.len(), partitions % servers.len());
    let mut by_load: Vec<&ServerId> = servers.iter().collect();
    by_load.sort_by_key(|server| std::cmp::Reverse(has.get(server).copied().unwrap_or(0)));
    let quota = |place: usize| each + usize::from(place < rest);
    by_load.into_iter().enumerate().map(|(place, server)| (server.clone(), quota(place))).collect()
}

fn owners(map: &Map, servers: &[ServerId]) -> Vec<ServerId> {
    let mut has: BTreeMap<&ServerId, usize> = servers.iter().map(|server| (server, 0)).collect();
    for owner in map.seats.iter().filter_map(|seat| seat.owner.as_ref()) {
        has.entry(owner).and_modify(|count| *count += 1);
    }
    let mut room = quotas(map.seats.len(), servers, &has);
    let mut take = |server: &ServerId| match room.get_mut(server) {
        Some(left) if *left > 0 => {
            *left -= 1;
            true
        }
        Some(_) | None => false,
    };
    // First those who stay, then those whose data is where they go, then the others wherever there is room.
    let stays = |seat: &Seat, take: &mut dyn FnMut(&ServerId) -> bool| seat.owner.clone().filter(|owner| take(owner));
    let mut owners: Vec<Option<ServerId>> = map.seats.iter().map(|seat| stays(seat, &mut take)).collect();
    for (owner, seat) in owners.iter_mut().zip(&map.seats).filter(|(owner, _)| owner.is_none()) {
        *owner = seat.backup.clone().filter(|backup| take(backup));
    }
    owners.into_iter().map(|owner| owner.unwrap_or_else(|| roomiest(&mut room))).collect()
}

/// Takes a place at the server with the most room; of several, the first.
fn roomiest(room: &mut BTreeMap<ServerId, usize>) -> ServerId {
    let most = room.values().copied().max().unwrap_or(0);
    let (server, left) = room.iter_mut().find(|(_, left)| **left == most).expect("there is a server");
    *left = left.saturating_sub(1);
    server.clone()
}

#[cfg(test)]
mod tests {
    use flexor_model::PsEpoch;

    use super::super::map::{Origin, Source};
    use super::*;

    fn server(name: &str) -> ServerId {
        ServerId::new(name, 1)
    }

    fn map(owners: &[(&str, Option<&str>)]) -> Map {
        let origin = Origin { number: 1, source: Source::Initial };
        let seat = |(owner, backup): &(&str, Option<&str>)| Seat {
            owner: Some(server(owner)),
            backup: backup.map(server),
            origin,
            since: PsEpoch(0),
        };
        Map { epoch: PsEpoch(1), seats: owners.iter().map(seat).collect() }
    }

    fn moved(map: &Map, aims: &[Aim]) -> usize {
        map.seats.iter().zip(aims).filter(|(seat, aim)| seat.owner.as_ref() != Some(&aim.owner)).count()
    }

    #[test]
    fn a_newcomer_takes_its_share_and_nothing_else_moves() {
        let map = map(&[("a", None); 8].into_iter().chain([("b", None); 8]).collect::<Vec<_>>());
        let aims = aims(&map, &[server("a"), server("b"), server("c")], 1);
        let of = |name| aims.iter().filter(|aim| aim.owner == server(name)).count();
        assert_eq!((of("a"), of("b"), of("c")), (6, 5, 5));
        assert_eq!(moved(&map, &aims), 5);
    }

    #[test]
    fn who_stays_keeps_all_it_has_when_another_leaves() {
        let map = map(&[("a", None); 5].into_iter().chain([("b", None); 5]).collect::<Vec<_>>());
        let aims = aims(&map, &[server("a")], 1);
        assert_eq!(moved(&map, &aims), 5);
        assert!(aims.iter().all(|aim| aim.owner == server("a") && aim.backup.is_none()));
    }

    #[test]
    fn a_partition_goes_first_to_where_its_copy_is() {
        let map = map(&[("a", Some("b")), ("a", Some("c")), ("b", Some("c")), ("c", Some("b"))]);
        let aims = aims(&map, &[server("b"), server("c")], 2);
        let owners: Vec<&str> = aims.iter().map(|aim| &*aim.owner.name).collect();
        assert_eq!(owners, ["b", "c", "b", "c"]);
        assert!(aims.iter().all(|aim| aim.backup.as_ref().is_some_and(|backup| *backup != aim.owner)));
    }

    #[test]
    fn copies_are_spread_as_well() {
        let map = map(&[("a", None); 12]);
        let aims = aims(&map, &[server("a"), server("b"), server("c")], 2);
        for name in ["a", "b", "c"] {
            let kept = aims.iter().filter(|aim| aim.backup == Some(server(name))).count();
            assert_eq!(kept, 4, "{name} keeps {kept} copies");
        }
    }

    #[test]
    fn copies_that_kills_have_heaped_up_are_spread_again() {
        // The third came again a while ago: it owns its share, and has hardly any copies.
        let seats = [[("a", Some("b")); 5], [("b", Some("a")); 5], [("c", Some("a")); 5]].concat();
        let map = map(&seats);
        let aims = aims(&map, &[server("a"), server("b"), server("c")], 2);
        let copied = map.seats.iter().zip(&aims).filter(|(seat, aim)| seat.backup != aim.backup).count();
        assert_eq!((moved(&map, &aims), copied), (0, 5), "those that the first has too many");
        let of = |name| aims.iter().filter(|aim| aim.backup == Some(server(name))).count();
        assert_eq!((of("a"), of("b"), of("c")), (5, 5, 5));
    }

    #[test]
    fn of_two_servers_each_has_the_copies_of_the_other() {
        let map = map(&[("a", None), ("a", None), ("b", None)]);
        let aims = aims(&map, &[server("a"), server("b")], 2);
        let backups: Vec<&str> =
            aims.iter().filter_map(|aim| aim.backup.as_ref()).map(|backup| &*backup.name).collect();
        assert_eq!(backups, ["b", "b", "a"]);
    }
}
