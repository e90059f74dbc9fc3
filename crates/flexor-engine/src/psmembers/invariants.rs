//! What is always true of the servers.

use super::{Map, PsMembers};

/// What is broken, if anything is.
pub fn broken(members: &PsMembers) -> Option<String> {
    let map = &members.map;
    in_map(map).or_else(|| in_moves(members))
}

fn in_map(map: &Map) -> Option<String> {
    if (map.epoch.0 == 0) != map.seats.is_empty() {
        return Some(format!("map {} has {} seats", map.epoch.0, map.seats.len()));
    }
    for (partition, seat) in map.iter() {
        if seat.owner.is_some() && seat.owner == seat.backup {
            return Some(format!("{partition} is kept twice by the same server"));
        }
        if seat.owner.is_none() && seat.backup.is_some() {
            return Some(format!("{partition} has a backup and no owner"));
        }
    }
    None
}

fn in_moves(members: &PsMembers) -> Option<String> {
    for (partition, step) in &members.moves {
        let Some(seat) = members.map.seat(*partition) else {
            return Some(format!("{partition} moves and is not mapped"));
        };
        if seat.owner.as_ref() != Some(&step.from) {
            return Some(format!("{partition} is moved by {}, which does not own it", step.from));
        }
        if step.from == step.to {
            return Some(format!("{partition} moves to where it is"));
        }
    }
    None
}
