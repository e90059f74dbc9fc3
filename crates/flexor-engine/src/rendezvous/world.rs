//! A complete world: its nodes by rank, and the numbers of their processes.

use std::ops::Range;

use flexor_model::{Rank, Round};
use serde::{Deserialize, Serialize};

use super::{MemberId, Processes};

/// The world of one complete round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "WorldRecord")]
pub struct World {
    pub round: Round,
    /// All members by rank from 0, including those that have been lost or have left since.
    pub members: Vec<MemberId>,
    /// The processes of each member, in the same order.
    pub processes: Vec<Processes>,
    /// The number of the first process of each member, then the number of all processes. Computed once, because all nodes
    /// of a world read it at the same time.
    #[serde(skip)]
    first_processes: Vec<u32>,
    /// The processes that survived; computed once for the same reason.
    #[serde(skip)]
    survivors: Vec<u32>,
}

#[derive(Deserialize)]
struct WorldRecord {
    round: Round,
    members: Vec<MemberId>,
    processes: Vec<Processes>,
}

impl From<WorldRecord> for World {
    fn from(WorldRecord { round, members, processes }: WorldRecord) -> Self {
        Self::new(round, members, processes)
    }
}

impl World {
    /// Creates a world of `members`, by rank, with the processes of each.
    pub(super) fn new(round: Round, members: Vec<MemberId>, processes: Vec<Processes>) -> Self {
        let counts = processes.iter().map(|processes| processes.count);
        let sums = counts.scan(0_u32, |sum, count| {
            *sum = sum.saturating_add(count);
            Some(*sum)
        });
        let first_processes = std::iter::once(0).chain(sums).collect();
        let mut world = Self { round, members, processes, first_processes, survivors: Vec::new() };
        let survive = world.processes.iter().zip(0..).filter(|(processes, _)| processes.survive);
        world.survivors = survive.flat_map(|(_, rank)| world.processes_of(Rank(rank))).collect();
        world
    }

    /// The rank of a member, by a linear search.
    pub fn rank_of(&self, id: &MemberId) -> Option<Rank> {
        let index = self.members.iter().position(|member| member == id)?;
        u32::try_from(index).ok().map(Rank)
    }

    /// The numbers of a node's processes. The processes of a node have consecutive numbers; nodes are ordered by rank.
    pub fn processes_of(&self, rank: Rank) -> Range<u32> {
        let at = |index: usize| self.first_processes.get(index).copied().unwrap_or_else(|| self.size());
        at(rank.0 as usize)..at(rank.0 as usize + 1)
    }

    /// The number of processes.
    pub fn size(&self) -> u32 {
        self.first_processes.last().copied().unwrap_or(0)
    }

    /// The numbers of the processes that ran before this world and keep running. If there are any, 0 is among them.
    pub fn survivors(&self) -> &[u32] {
        &self.survivors
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_numbered_in_the_order_of_the_nodes() {
        let members = ["a", "b", "c"].map(|name| MemberId::new(name, 0)).to_vec();
        let processes = [(2, true), (1, false), (4, false)].map(|(count, survive)| Processes { count, survive });
        let world = World::new(Round(3), members, processes.to_vec());
        assert_eq!([0, 1, 2].map(|rank| world.processes_of(Rank(rank))), [0..2, 2..3, 3..7]);
        assert_eq!((world.size(), world.survivors()), (7, &[0, 1][..]));
    }
}
