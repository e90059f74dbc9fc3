//! How the processes of a world are numbered: nodes by rank, the processes of a node in a row.
//!
//! Launchers say how many processes they start when they join. That is not written down: whoever is in a later world has
//! joined again and said it again.

use std::collections::HashMap;
use std::sync::Arc;

use flexor_engine::rendezvous::World;
use flexor_model::Round;

/// Who starts how many, and the numbers that follow from it for the last world that was asked about.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    processes: HashMap<Arc<str>, u32>,
    last: Option<Numbered>,
}

#[derive(Debug)]
struct Numbered {
    round: Round,
    /// By rank of the node.
    first: Vec<u32>,
    total: u32,
}

impl Layout {
    /// A node will start so many processes.
    pub(crate) fn says(&mut self, node: &Arc<str>, processes: u32) {
        self.processes.insert(Arc::clone(node), processes.max(1));
    }

    /// The number of the first process of the node with this rank, and how many there are in all.
    pub(crate) fn of(&mut self, world: &World, rank: u32) -> (u32, u32) {
        if self.last.as_ref().is_none_or(|last| last.round != world.round || last.first.len() != world.members.len()) {
            let mut total: u32 = 0;
            let mut first = Vec::with_capacity(world.members.len());
            for member in &world.members {
                first.push(total);
                total = total.saturating_add(self.processes.get(&member.name).copied().unwrap_or(1));
            }
            self.last = Some(Numbered { round: world.round, first, total });
            // Whoever is not in the world says it again when it joins.
            let members: std::collections::HashSet<&Arc<str>> = world.members.iter().map(|id| &id.name).collect();
            self.processes.retain(|name, _| members.contains(name));
        }
        let numbered = self.last.as_ref();
        let first = numbered.and_then(|last| last.first.get(rank as usize)).copied().unwrap_or(0);
        (first, numbered.map_or(0, |last| last.total))
    }
}

#[cfg(test)]
mod tests {
    use flexor_engine::rendezvous::MemberId;

    use super::*;

    #[test]
    fn processes_are_numbered_in_the_order_of_the_nodes() {
        let mut layout = Layout::default();
        let names: [Arc<str>; 3] = ["a".into(), "b".into(), "c".into()];
        layout.says(&names[0], 2);
        layout.says(&names[2], 4);
        let world = World { round: Round(3), members: names.map(|name| MemberId::new(name, 0)).to_vec() };
        assert_eq!(
            [0, 1, 2].map(|rank| layout.of(&world, rank)),
            [(0, 7), (2, 7), (3, 7)],
            "one who says nothing starts one"
        );
    }
}
