//! The planner itself: its stages, one after the other, until none of them changes anything.
//!
//! Each stage ends by itself, and so do the rounds. A base is placed once per plan. Surplus only takes room that is
//! free now, and the budget limits swaps.

use crate::base::{self, Held};
use crate::state::{EndCause, State};
use crate::{ClusterPlan, JobKey, Node, Pod, Promise, SizedJob, intake, outcome, redemption, settle, surplus};

/// Everything that a plan depends on. The order of the lists does not matter.
#[derive(Debug, Clone, Copy)]
pub struct PlanInput<'a> {
    pub nodes: &'a [Node],
    /// All pods that hold room, of planned jobs and of others.
    pub pods: &'a [Pod],
    /// The jobs to plan.
    pub jobs: &'a [SizedJob],
    /// The promises of the last plan.
    pub promises: &'a [Promise],
    /// The most swaps, from [`crate::SwapBudget::available`].
    pub swaps: u32,
}

/// Decides sizes, pods to create and remove, and jobs to hold.
///
/// The same input gives the same plan. A plan that has been carried out gives an empty plan, if nothing else happened.
pub fn plan(input: &PlanInput<'_>) -> ClusterPlan {
    let mut state = intake::read(input);
    let not_started = not_started(&state);
    let mut held = Held::new();
    let mut swaps = 0;
    loop {
        let placed = base::place(&mut state, &mut held);
        let redeemed = redemption::redeem(&mut state);
        let grown = surplus::grow(&mut state);
        let swapped = settle::swap(&mut state, input.swaps - swaps);
        swaps += swapped;
        // Growth and redemption only take room. Another round could change held jobs alone: with less room, a gang is
        // tried on other nodes.
        let again = placed || swapped > 0 || ((redeemed || grown) && !held.is_empty());
        if !again {
            return outcome::read(&state, held, not_started, swaps);
        }
    }
}

/// The jobs that lost surplus at intake because it did not start.
fn not_started(state: &State) -> Vec<JobKey> {
    let ended = state.ended.iter().filter(|ended| ended.cause == EndCause::NotStarted);
    let mut jobs: Vec<JobKey> = ended.map(|e| state.jobs[state.group(e.pod.0).job].key.clone()).collect();
    jobs.sort();
    jobs.dedup();
    jobs
}
