//! From an exit to what follows: relaunched or not, when, with how much memory, and why.

use std::time::Duration;

use flexor_model::{Quantity, Reason};

use super::{Cost, Exit, ExitKind, NodeHistory, Rules};
use crate::Cause;

/// What follows from an exit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The pod is relaunched.
    Relaunch(Relaunch),
    /// The pod is not relaunched.
    Final(Final),
}

/// How a pod is relaunched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relaunch {
    /// Whether it is charged against the limit.
    pub counted: bool,
    /// The wait before it.
    pub after: Duration,
    /// The memory to request, if it grows.
    pub memory: Option<Quantity>,
    /// Why it was decided.
    pub cause: Cause,
}

/// Why a pod is not relaunched, and what that means for the job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Final {
    /// What it means for the job.
    pub outcome: Outcome,
    /// Why it was decided.
    pub cause: Cause,
}

/// What the last exit of a pod means for the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Its work is done.
    Succeeded,
    /// The controller removed it, and it is not replaced.
    Removed,
    /// It failed for good. The job goes on without it as long as it can.
    NodeFailed,
    /// It failed for good, and the job fails too.
    JobFailed,
}

impl Decision {
    /// Why it was decided.
    pub fn cause(&self) -> &Cause {
        match self {
            Decision::Relaunch(relaunch) => &relaunch.cause,
            Decision::Final(last) => &last.cause,
        }
    }
}

/// Decides what follows from an exit after a run of this length.
pub fn decide(history: &NodeHistory, exit: &Exit, ran: Duration, rules: &Rules) -> Decision {
    let short_runs = rules.back_off.short_runs(history.short_runs, ran);
    match exit.kind.cost() {
        Cost::Nothing => done(exit),
        Cost::Free => {
            let after = rules.back_off.wait_of_lost(short_runs, ran);
            relaunch(exit, after, None, format!("{}; this costs no retry", exit.detail))
        }
        Cost::Charged if history.counted < rules.limit => {
            let retry = history.counted + 1;
            let memory = more_memory(history, exit, rules);
            let detail = match memory {
                Some(memory) => format!("{}; retry {retry} of {} with {memory} of memory", exit.detail, rules.limit),
                None => format!("{}; retry {retry} of {}", exit.detail, rules.limit),
            };
            relaunch(exit, rules.back_off.wait(short_runs.max(1)), memory, detail)
        }
        Cost::Charged => {
            let why = match rules.limit {
                0 => "no retries are allowed".to_owned(),
                limit => format!("all retries are used up, {limit} of {limit}"),
            };
            let why = match exit.kind {
                ExitKind::OutOfMemory => format!("{why}; let it request more memory"),
                ExitKind::ProgramError if !exit.has_root_cause => format!("{why}; its log says more"),
                _ => why,
            };
            failed_for_good(exit, rules, Reason::RetriesExhausted, &why)
        }
        Cost::FailNode => failed_for_good(exit, rules, exit.kind.reason(), "trying again would change nothing"),
        Cost::FailJob => {
            let cause = Cause::new(exit.kind.reason(), exit.detail.clone());
            Decision::Final(Final { outcome: Outcome::JobFailed, cause })
        }
    }
}

fn done(exit: &Exit) -> Decision {
    let outcome = if exit.kind == ExitKind::Removed { Outcome::Removed } else { Outcome::Succeeded };
    Decision::Final(Final { outcome, cause: Cause::new(exit.kind.reason(), exit.detail.clone()) })
}

fn relaunch(exit: &Exit, after: Duration, memory: Option<Quantity>, detail: String) -> Decision {
    let counted = exit.kind.cost() == Cost::Charged;
    Decision::Relaunch(Relaunch { counted, after, memory, cause: Cause::new(exit.kind.reason(), detail) })
}

/// The job fails if the pod is critical; else it goes on without the pod for `reason`.
fn failed_for_good(exit: &Exit, rules: &Rules, reason: Reason, why: &str) -> Decision {
    let (outcome, reason) = match rules.critical {
        true => (Outcome::JobFailed, Reason::CriticalNodeFailed),
        false => (Outcome::NodeFailed, reason),
    };
    let message = match reason == exit.kind.reason() {
        true => format!("{}; {why}", exit.detail),
        false => format!("{exit}; {why}"),
    };
    Decision::Final(Final { outcome, cause: Cause::new(reason, message) })
}

/// Twice the memory that was not enough, without a ceiling: a pod that no machine can hold stays pending and says so.
fn more_memory(history: &NodeHistory, exit: &Exit, rules: &Rules) -> Option<Quantity> {
    let memory = history.memory.filter(|_| exit.kind == ExitKind::OutOfMemory)?;
    let wanted = memory.plus(memory).max(rules.least_memory.unwrap_or(memory));
    (wanted > memory).then_some(wanted)
}
