//! A complete world: its nodes by rank, and how their processes are numbered.

use std::ops::Range;

use flexor_model::{Rank, Round};
use serde::{Deserialize, Serialize};

use super::{MemberId, Processes};

/// A complete world.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Stored")]
pub struct World {
    /// The number of its round.
    pub round: Round,
    /// Everyone in it, by rank from 0, those that were lost or left since included.
    pub members: Vec<MemberId>,
    /// What each of them brought, in the same order.
    pub processes: Vec<Processes>,
    /// The number of the first process of each, and of all: asked for by every node of a world at once.
    #[serde(skip)]
    firsts: Vec<u32>,
}

#[derive(Deserialize)]
struct Stored {
    round: Round,
    members: Vec<MemberId>,
    processes: Vec<Processes>,
}

impl From<Stored> for World {
    fn from(Stored { round, members, processes }: Stored) -> Self {
        Self::new(round, members, processes)
    }
}

impl World {
    /// A world of these members, by rank, with what each brings.
    pub(super) fn new(round: Round, members: Vec<MemberId>, processes: Vec<Processes>) -> Self {
        let counts = processes.iter().map(|processes| processes.count);
        let sums = counts.scan(0_u32, |sum, count| {
            *sum = sum.saturating_add(count);
            Some(*sum)
        });
        let firsts = std::iter::once(0).chain(sums).collect();
        Self { round, members, processes, firsts }
    }

    /// The rank of a member.
    pub fn rank_of(&self, id: &MemberId) -> Option<Rank> {
        let index = self.members.iter().position(|member| member == id)?;
        u32::try_from(index).ok().map(Rank)
    }

    /// The numbers of a node's processes among all: those of a node stand together, nodes stand by rank.
    pub fn processes_of(&self, rank: Rank) -> Range<u32> {
        let at = |index: usize| self.firsts.get(index).copied().unwrap_or_else(|| self.size());
        at(rank.0 as usize)..at(rank.0 as usize + 1)
    }

    /// How many processes there are.
    pub fn size(&self) -> u32 {
        self.firsts.last().copied().unwrap_or(0)
    }

    /// The processes that ran before this world, by their number in it. Where there are any, 0 is one of them.
    pub fn survivors(&self) -> Vec<u32> {
        let survive = self.processes.iter().zip(0..).filter(|(processes, _)| processes.survive);
        survive.flat_map(|(_, rank)| self.processes_of(Rank(rank))).collect()
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
        assert_eq!((world.size(), world.survivors()), (7, vec![0, 1]));
    }
}
