//! Target backups: evenly spread, never on the primary, with few changes.
//!
//! Every existing backup stays. Each missing one goes to the server with the fewest backups that is not the primary. While
//! one server has two more backups than another, one backup moves from the fullest to the emptiest.
//!
//! *Such a move always exists.* With P partitions on S servers no server is primary of more than c = ⌈P/S⌉. Suppose B has
//! the fewest backups and no backup of the fullest servers can move to B. Then B is primary of all of them, so the maximum
//! is at most c, and it is at least c because the average exceeds c − 1. B is primary of at most c partitions, so only one
//! server has c backups, and all servers together have at most c + (S − 2)(c − 1) + (c − 2) = S(c − 1) < P. But all P
//! backups are placed.
//!
//! *It terminates:* each move lowers the sum of the squares of the counts. No server both gives and takes. So once no
//! backup is missing, every started transfer lowers the sum, whichever it is.
//!
//! The result is not always the nearest even spread: chains of exchanges are not searched.

use std::collections::BTreeMap;

use super::super::server::ServerId;

/// Target backup of each partition. There are at least two servers, and `primaries` are evenly spread.
pub(super) fn spread(current: &[Option<&ServerId>], primaries: &[ServerId], servers: &[ServerId]) -> Vec<ServerId> {
    let indexes: BTreeMap<&ServerId, ServerIndex> = servers.iter().zip((0..).map(ServerIndex)).collect();
    let current: Vec<Option<ServerIndex>> = current.iter().map(|backup| indexes.get((*backup)?).copied()).collect();
    let mut loads = vec![0_usize; servers.len()];
    current.iter().flatten().for_each(|server| loads[server.0] += 1);
    let mut placements: Vec<BackupPlacement> = Vec::with_capacity(primaries.len());
    for (primary, current) in primaries.iter().map(|primary| indexes[primary]).zip(current) {
        let backup = current.unwrap_or_else(|| {
            let others = (0..loads.len()).map(ServerIndex).filter(|server| *server != primary);
            let backup = others.min_by_key(|server| loads[server.0]).expect("there are two servers");
            loads[backup.0] += 1;
            backup
        });
        placements.push(BackupPlacement { primary, backup, stays: current.is_some() });
    }
    while let Some((least, most)) = uneven(&loads) {
        let emptiest: Vec<ServerIndex> =
            (0..loads.len()).map(ServerIndex).filter(|server| loads[server.0] == least).collect();
        let fullest = placements.iter_mut().filter(|placement| loads[placement.backup.0] == most);
        let movable = fullest
            .filter_map(|placement| Some((emptiest.iter().find(|server| **server != placement.primary)?, placement)));
        // Backups that have to be transferred anyway move first.
        let first = movable.min_by_key(|(_, placement)| placement.stays);
        let (to, placement) = first.expect("evenly spread primaries allow evenly spread backups");
        loads[placement.backup.0] -= 1;
        loads[to.0] += 1;
        (placement.backup, placement.stays) = (*to, false);
    }
    placements.into_iter().map(|placement| servers[placement.backup.0].clone()).collect()
}

/// Index into the list of servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ServerIndex(usize);

struct BackupPlacement {
    primary: ServerIndex,
    /// Never the primary.
    backup: ServerIndex,
    /// The backup is on this server already.
    stays: bool,
}

/// The lowest and the highest load, where they are two apart.
fn uneven(loads: &[usize]) -> Option<(usize, usize)> {
    let (least, most) = (*loads.iter().min()?, *loads.iter().max()?);
    (most >= least + 2).then_some((least, most))
}
