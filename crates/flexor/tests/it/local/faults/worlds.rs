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

/// The worlds that agents have observed. Clones share their content.
#[derive(Debug, Clone, Default)]
pub struct Worlds(Arc<Mutex<BTreeMap<u64, Vec<NodeDesc>>>>);

impl Worlds {
    /// Records a world that an agent observed. All agents must observe the same world for a round.
    pub fn note(&self, world: &World) {
        let mut worlds = self.0.lock().unwrap();
        let known = worlds.entry(world.round).or_insert_with(|| world.members.clone());
        assert_eq!(*known, world.members, "two worlds for round {}", world.round);
    }

    /// How many rounds agents have observed.
    pub fn rounds(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}
