//! Records every world that agents observe and checks that they agree.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use flexor_store::state::NodeDesc;

/// A world as one of its members was shown it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct World {
    pub round: u64,
    pub rank: u64,
    /// Everyone, by rank.
    pub members: Vec<NodeDesc>,
}

/// The worlds that were seen by anybody. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Worlds(Arc<Mutex<BTreeMap<u64, Vec<NodeDesc>>>>);

impl Worlds {
    /// Takes down what an agent was shown. There is one world for a round, whoever looks and whenever.
    pub fn note(&self, world: &World) {
        let mut worlds = self.0.lock().unwrap();
        let known = worlds.entry(world.round).or_insert_with(|| world.members.clone());
        assert_eq!(*known, world.members, "two worlds for round {}", world.round);
    }

    /// How many rounds completed, as far as anybody saw.
    pub fn rounds(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}
