//! The rules that hold for one node: its limit, its back-off, and whether the job can do without it.

use flexor_model::{CriticalNodes, FailureBudget, Quantity, Rank, Resources, Role, RoleKind, Strategy};

use super::BackOff;

/// The rules for one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// How many relaunches are allowed that count.
    pub limit: u32,
    /// Whether the job fails once the node cannot be brought back.
    pub critical: bool,
    /// How long it waits before it is started again.
    pub back_off: BackOff,
    /// Memory that a relaunch after a lack of it asks for at least: what the template or a plan says by now.
    pub least_memory: Option<Quantity>,
}

impl Rules {
    /// What a role's description says about its node of this rank; `planned` is what a plan has its pods ask for.
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

/// The memory that the main container of a role's pods asks for: what a plan says, else the template.
pub fn memory_asked(role: &Role, planned: &Resources) -> Option<Quantity> {
    planned.memory().or_else(|| role.template.main().requests().memory())
}

/// Which nodes a job cannot do without unless its manifest says otherwise.
fn is_usually_critical(kind: RoleKind, rank: Rank, strategy: Strategy) -> bool {
    match kind {
        RoleKind::Master | RoleKind::ParameterServer | RoleKind::Chief | RoleKind::Evaluator => true,
        // The first worker of a parameter-server job stands for all; elsewhere those that are left go on.
        RoleKind::Worker => strategy == Strategy::ParameterServer && rank == Rank(0),
        RoleKind::Other => false,
    }
}
