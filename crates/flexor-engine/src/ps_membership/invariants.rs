//! Invariants of the membership, for debug assertions, property tests and simulation.

use super::{PartitionMap, PsMembership};

/// Describes a violated invariant, if there is one.
pub fn broken(members: &PsMembership) -> Option<String> {
    in_map(&members.map).or_else(|| in_transfers(members))
}

fn in_map(map: &PartitionMap) -> Option<String> {
    if (map.epoch.0 == 0) != map.partitions.is_empty() {
        return Some(format!("map {} has {} partitions", map.epoch.0, map.partitions.len()));
    }
    for (partition, replicas) in map.iter() {
        if replicas.primary.is_some() && replicas.primary == replicas.backup {
            return Some(format!("{partition} has the same server as primary and backup"));
        }
        if replicas.primary.is_none() && replicas.backup.is_some() {
            return Some(format!("{partition} has a backup and no primary"));
        }
    }
    None
}

fn in_transfers(members: &PsMembership) -> Option<String> {
    for (partition, transfer) in &members.transfers {
        let Some(replicas) = members.map.replicas(*partition) else {
            return Some(format!("{partition} is transferred and not in the map"));
        };
        if replicas.primary.as_ref() != Some(&transfer.from) {
            return Some(format!("{partition} is transferred from {}, which is not its primary", transfer.from));
        }
        if transfer.from == transfer.to {
            return Some(format!("{partition} is transferred to its primary"));
        }
    }
    None
}
