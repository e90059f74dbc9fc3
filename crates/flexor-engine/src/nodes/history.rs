//! What has to be remembered of a node, and nothing more.

use std::time::Duration;

use flexor_model::Quantity;
use serde::{Deserialize, Serialize};

use super::{BackOff, Decision};

/// What its owner remembers of a node across its lives.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeHistory {
    /// How many relaunches were counted so far: of this node, or of the whole role where the role has one budget.
    pub counted: u32,
    /// How many runs in a row ended before they were good ones, the one that has just ended not included.
    pub short_runs: u32,
    /// The memory that the main container of its pod asks for, or of its next one once it has ended for want of it. None
    /// where nothing limits it. Whoever makes a pod that asks for another writes that down.
    pub memory: Option<Quantity>,
}

impl NodeHistory {
    /// The history once a decision about a run of this length is carried out: what is written down first.
    #[must_use]
    pub fn after(&self, decision: &Decision, ran: Duration, back_off: &BackOff) -> Self {
        let short_runs = back_off.short_runs(self.short_runs, ran);
        match decision {
            Decision::Relaunch(relaunch) => Self {
                counted: self.counted.saturating_add(u32::from(relaunch.counted)),
                short_runs,
                memory: relaunch.memory.or(self.memory),
            },
            Decision::Final(_) => Self { short_runs, ..self.clone() },
        }
    }
}
