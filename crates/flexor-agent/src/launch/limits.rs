//! The limits of a job, and those that a node's command line requests. The master's limits hold; a node warns where its
//! command line requested others.

use std::ops::RangeInclusive;

use flexor_wire::master::v1 as wire;

/// What a job allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Nodes per world.
    pub nodes: RangeInclusive<u32>,
    /// How often the program may fail.
    pub max_restarts: u32,
}

/// What a node's command line requests; none where it says nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestedLimits {
    /// Nodes per world.
    pub nodes: Option<RangeInclusive<u32>>,
    /// How often the program may fail.
    pub max_restarts: Option<u32>,
    /// The job to take part in, by its name or uid.
    pub job: Option<String>,
}

impl Limits {
    pub(super) fn of(world: &wire::World) -> Self {
        Self { nodes: world.min_nodes..=world.max_nodes, max_restarts: world.max_restarts }
    }
}

impl RequestedLimits {
    /// One text for each requested limit that differs from the job's.
    pub(super) fn overridden_by(&self, limits: &Limits) -> Vec<String> {
        let range = |nodes: &RangeInclusive<u32>| format!("{}:{}", nodes.start(), nodes.end());
        let nodes = self.nodes.as_ref().filter(|requested| **requested != limits.nodes);
        let restarts = self.max_restarts.filter(|requested| *requested != limits.max_restarts);
        let nodes =
            nodes.map(|requested| format!("--nnodes {}, the job has {}", range(requested), range(&limits.nodes)));
        let restarts =
            restarts.map(|requested| format!("--max-restarts {requested}, the job has {}", limits.max_restarts));
        nodes.into_iter().chain(restarts).collect()
    }
}
