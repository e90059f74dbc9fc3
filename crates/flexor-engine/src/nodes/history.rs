//! What the relaunch rules remember of a slot.

use std::time::Duration;

use flexor_model::Quantity;
use serde::{Deserialize, Serialize};

use super::{BackOff, Decision};

/// What is remembered of a slot across the incarnations of its pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeHistory {
    /// How many relaunches were charged: of this slot, or of the whole role where the role has one budget.
    pub counted: u32,
    /// How many runs in a row were short, without the one that has just ended.
    pub short_runs: u32,
    /// The memory that the main container of its pod requests; after an OOM, that of the next pod. None if nothing limits
    /// it. The controller updates it when it creates a pod with another request.
    pub memory: Option<Quantity>,
}

impl NodeHistory {
    /// The history after a decision about a run of this length, to be stored before the decision is carried out.
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
