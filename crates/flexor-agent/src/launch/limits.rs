//! What a job allows, and what was asked for on a node: the master decides, and whoever asked for something else hears
//! of it.

use std::ops::RangeInclusive;

use flexor_wire::master::v1 as wire;

/// What a job allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// How many nodes a world may have.
    pub nodes: RangeInclusive<u32>,
    /// How often the program may fail.
    pub max_restarts: u32,
}

/// What was asked for, where something was.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Asked {
    /// How many nodes a world may have.
    pub nodes: Option<RangeInclusive<u32>>,
    /// How often the program may fail.
    pub max_restarts: Option<u32>,
    /// The job to take part in, by its name or its unique id.
    pub job: Option<String>,
}

impl Limits {
    /// Those that the master tells.
    pub(super) fn of(world: &wire::World) -> Self {
        Self { nodes: world.min_nodes..=world.max_nodes, max_restarts: world.max_restarts }
    }
}

impl Asked {
    /// What was asked for and is not so, in words.
    pub(super) fn unheeded(&self, limits: &Limits) -> Vec<String> {
        let range = |nodes: &RangeInclusive<u32>| format!("{}:{}", nodes.start(), nodes.end());
        let nodes = self.nodes.as_ref().filter(|asked| **asked != limits.nodes);
        let restarts = self.max_restarts.filter(|asked| *asked != limits.max_restarts);
        let nodes = nodes.map(|asked| format!("--nnodes {}, the job has {}", range(asked), range(&limits.nodes)));
        let restarts = restarts.map(|asked| format!("--max-restarts {asked}, the job has {}", limits.max_restarts));
        nodes.into_iter().chain(restarts).collect()
    }
}
