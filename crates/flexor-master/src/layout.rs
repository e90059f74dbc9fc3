//! How the processes of a world are numbered: nodes by rank, the processes of a node in a row.
//!
//! Launchers say how many processes they start, or that they go on with those they have, when they join. That is not
//! written down: whoever is in a later world has joined again and said it again.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use flexor_engine::rendezvous::World;
use flexor_model::Round;

/// Who has how many, and the numbers that follow from it for the last world that was asked about.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    processes: HashMap<Arc<str>, Processes>,
    last: Option<Numbered>,
}

#[derive(Debug, Clone, Copy)]
struct Processes {
    count: u32,
    /// They run already.
    survive: bool,
}

/// The processes of a world.
#[derive(Debug)]
pub(crate) struct Numbered {
    round: Round,
    /// The number of the first process of each node, by rank.
    pub(crate) first: Vec<u32>,
    /// How many there are.
    pub(crate) total: u32,
    /// Those that ran before.
    pub(crate) survivors: Vec<u32>,
}

impl Layout {
    /// A node will start so many processes, or goes on with them.
    pub(crate) fn says(&mut self, node: &Arc<str>, count: u32, survive: bool) {
        self.processes.insert(Arc::clone(node), Processes { count: count.max(1), survive });
    }

    /// The processes of this world.
    pub(crate) fn of(&mut self, world: &World) -> &Numbered {
        let is_known = |last: &Numbered| last.round == world.round && last.first.len() == world.members.len();
        if !self.last.as_ref().is_some_and(is_known) {
            let members: HashSet<&Arc<str>> = world.members.iter().map(|id| &id.name).collect();
            let numbered = self.number(world);
            // Whoever is not in the world says it again when it joins.
            self.processes.retain(|name, _| members.contains(name));
            self.last = Some(numbered);
        }
        self.last.get_or_insert_with(|| Numbered {
            round: world.round,
            first: Vec::new(),
            total: 0,
            survivors: Vec::new(),
        })
    }

    fn number(&self, world: &World) -> Numbered {
        let mut numbered = Numbered { round: world.round, first: Vec::new(), total: 0, survivors: Vec::new() };
        for member in &world.members {
            let one = Processes { count: 1, survive: false };
            let Processes { count, survive } = self.processes.get(&member.name).copied().unwrap_or(one);
            let (first, end) = (numbered.total, numbered.total.saturating_add(count));
            numbered.first.push(first);
            numbered.total = end;
            if survive {
                numbered.survivors.extend(first..end);
            }
        }
        numbered
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
        layout.says(&names[0], 2, true);
        layout.says(&names[2], 4, false);
        let world = World { round: Round(3), members: names.map(|name| MemberId::new(name, 0)).to_vec() };
        let numbered = layout.of(&world);
        assert_eq!((&numbered.first[..], numbered.total), (&[0, 2, 3][..], 7), "one who says nothing starts one");
        assert_eq!(numbered.survivors, [0, 1]);
    }
}
