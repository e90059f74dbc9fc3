//! Who should keep the copies: each server the same number, nobody one of what it owns, and few in other hands than they
//! are.
//!
//! Every copy stays, each that is missing goes to who has least and is not its owner, and while somebody has two more than
//! another one copy goes from the fullest to the emptiest.
//!
//! *There is always one that can.* Of P partitions on S servers nobody owns more than c = ⌈P/S⌉. Say B has least, and no
//! copy of those who have most can go to it: it owns all of them, so that the most is no more than c, and no less as the
//! average is more than c − 1. B owns no more than the c copies of one server, so only one has c, and all together have no
//! more than c + (S − 2)(c − 1) + (c − 2) = S(c − 1) < P. But all P are placed.
//!
//! *It ends*, as the sum of the squares of what each has falls with every one that goes. Nobody both gives and takes: so,
//! once nothing is missing, the sum falls with each that is begun, whichever of them they are.
//!
//! It is not always the nearest even spread: the chains of exchanges that this would take are not sought.

use std::collections::BTreeMap;

use super::super::server::ServerId;

/// Who should keep the copy of each partition. There are at least two servers, and partitions are evenly owned.
pub(super) fn spread(copies: &[Option<&ServerId>], owners: &[ServerId], servers: &[ServerId]) -> Vec<ServerId> {
    let hosts: BTreeMap<&ServerId, Host> = servers.iter().zip((0..).map(Host)).collect();
    let kept: Vec<Option<Host>> = copies.iter().map(|copy| hosts.get((*copy)?).copied()).collect();
    let mut loads = vec![0_usize; servers.len()];
    kept.iter().flatten().for_each(|host| loads[host.0] += 1);
    let mut places: Vec<Place> = Vec::with_capacity(owners.len());
    for (owner, kept) in owners.iter().map(|owner| hosts[owner]).zip(kept) {
        let host = kept.unwrap_or_else(|| {
            let others = (0..loads.len()).map(Host).filter(|host| *host != owner);
            let host = others.min_by_key(|host| loads[host.0]).expect("there are two servers");
            loads[host.0] += 1;
            host
        });
        places.push(Place { owner, host, stays: kept.is_some() });
    }
    while let Some((least, most)) = uneven(&loads) {
        let empty: Vec<Host> = (0..loads.len()).map(Host).filter(|host| loads[host.0] == least).collect();
        let full = places.iter_mut().filter(|place| loads[place.host.0] == most);
        let can_go = full.filter_map(|place| Some((empty.iter().find(|host| **host != place.owner)?, place)));
        // What has to be made anyway goes first.
        let first = can_go.min_by_key(|(_, place)| place.stays);
        let (to, place) = first.expect("where partitions are evenly owned their copies can be evenly kept");
        loads[place.host.0] -= 1;
        loads[to.0] += 1;
        (place.host, place.stays) = (*to, false);
    }
    places.into_iter().map(|place| servers[place.host.0].clone()).collect()
}

/// A server, by its place in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Host(usize);

struct Place {
    owner: Host,
    /// Who should keep the copy; never the owner.
    host: Host,
    /// It is there already.
    stays: bool,
}

/// The least and the most that anybody has, where they are two apart.
fn uneven(loads: &[usize]) -> Option<(usize, usize)> {
    let (least, most) = (*loads.iter().min()?, *loads.iter().max()?);
    (most >= least + 2).then_some((least, most))
}
