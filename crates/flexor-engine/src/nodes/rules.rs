//! The rules for one slot: its failure limit, its back-off, and whether it is critical.

use flexor_model::{CriticalNodes, FailureBudget, Quantity, Rank, Resources, Role, RoleKind, Strategy};

use super::BackOff;

/// The rules for one slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// How many charged relaunches are allowed.
    pub limit: u32,
    /// Whether the job fails once the pod is not relaunched.
    pub critical: bool,
    /// The waits before relaunches.
    pub back_off: BackOff,
    /// The least memory of a relaunch after an OOM: what the template or a plan says by now.
    pub least_memory: Option<Quantity>,
}

impl Rules {
    /// The rules of a role for this rank; `planned` is what a plan has its pods request.
    pub fn of(role: &Role, rank: Rank, strategy: Strategy, planned: &Resources) -> Self {
        let budget = match role.failures {
            FailureBudget::PerNode(limit) | FailureBudget::PerRole(limit) => limit,
        };
        let (critical, limit) = match &role.critical {
            CriticalNodes::Usual => (is_usually_critical(role.kind, rank, strategy), budget),
            CriticalNodes::None => (false, budget),
            CriticalNodes::All => (true, budget),
            CriticalNodes::Ranks(limits) => {
                limits.get(&rank).map_or((false, budget), |limit_of_rank| (true, *limit_of_rank))
            }
        };
        Self { limit, critical, back_off: BackOff::default(), least_memory: memory_asked(role, planned) }
    }
}

/// The memory that the main container of a role's pods requests: what a plan says, else the template.
pub fn memory_asked(role: &Role, planned: &Resources) -> Option<Quantity> {
    planned.memory().or_else(|| role.template.main().requests().memory())
}

/// Which ranks are critical unless the manifest says otherwise.
fn is_usually_critical(kind: RoleKind, rank: Rank, strategy: Strategy) -> bool {
    match kind {
        RoleKind::Master | RoleKind::ParameterServer | RoleKind::Chief | RoleKind::Evaluator => true,
        // The first worker of a parameter-server job stands for all; elsewhere those that are left go on.
        RoleKind::Worker => strategy == Strategy::ParameterServer && rank == Rank(0),
        RoleKind::Other => false,
    }
}
