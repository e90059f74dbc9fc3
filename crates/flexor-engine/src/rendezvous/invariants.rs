//! The invariants that hold after every event, for debug builds, property tests and simulations.

use std::collections::BTreeSet;

use super::member::Census;
use super::{MemberState, Rendezvous};

/// Describes the first invariant that is violated.
pub fn broken(rendezvous: &Rendezvous) -> Option<String> {
    // Debug builds check after every event. In a load test with many members that would be quadratic.
    if rendezvous.members.len() > 512 {
        return None;
    }
    let mut census = Census::default();
    for (_, state) in rendezvous.members() {
        census.add(state);
    }
    if census != rendezvous.census {
        return Some(format!("the census says {:?}, counted are {census:?}", rendezvous.census));
    }
    let Some(world) = &rendezvous.world else {
        return (census.world > 0).then(|| "someone is in a world that does not exist".to_owned());
    };
    let distinct: BTreeSet<_> = world.members.iter().collect();
    if distinct.len() != world.members.len() {
        return Some("a node has two ranks".to_owned());
    }
    if world.processes.len() != world.members.len() {
        return Some("the processes of some members of the world are unknown".to_owned());
    }
    if world.processes.iter().any(|processes| processes.survive) && !world.processes[0].survive {
        return Some("rank 0 has no surviving processes, although other ranks have".to_owned());
    }
    let outsider = rendezvous.members().find(|(id, state)| *state == MemberState::InWorld && !distinct.contains(id));
    if let Some((id, _)) = outsider {
        return Some(format!("{id} is in the world but has no rank"));
    }
    let alive = rendezvous.members.values().filter(|(_, member)| member.survivor).count();
    if alive != rendezvous.survivors as usize {
        return Some(format!("{alive} of the last world are alive, {} are counted", rendezvous.survivors));
    }
    let finished = rendezvous.members.values().filter(|(_, member)| member.finished).count();
    if finished != rendezvous.finished as usize {
        return Some(format!("{finished} members have finished, {} are counted", rendezvous.finished));
    }
    let size = u32::try_from(world.members.len()).ok();
    if size != size.and_then(|size| rendezvous.settings.world_of(size)) {
        return Some(format!("a world of {size:?} breaks the limits"));
    }
    None
}
