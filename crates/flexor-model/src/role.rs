//! One role of a job: pods that are alike and scale together.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{EnvRule, NamedPort, PodTemplate, Rank, RoleName, RoleNaming, RolePriority, RoleSize, ServiceRule};

/// A role.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Role {
    /// Its name as the dialect's users write it.
    pub name: RoleName,
    /// What it does.
    pub kind: RoleKind,
    /// How large it is.
    pub size: RoleSize,
    /// What its pods run.
    pub program: Program,
    /// What its pods are made from; what they ask for stands in there.
    pub template: PodTemplate,
    /// How important its pods are to the scheduler.
    pub priority: RolePriority,
    /// How many failures of the program are forgiven. Losses of infrastructure are never counted.
    pub failures: FailureBudget,
    /// Without which of its nodes the job fails.
    pub critical: CriticalNodes,
    /// How its pods are called.
    pub naming: RoleNaming,
    /// The service in front of its pods, where there is one.
    pub service: Option<ServiceRule>,
    /// Ports that the main container declares.
    pub ports: Vec<NamedPort>,
    /// Variables added to the main container, before those of the user's template, which win.
    pub env: Vec<EnvRule>,
}

/// What a role does in training.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RoleKind {
    /// Coordinates the job.
    Master,
    /// Holds parameters.
    ParameterServer,
    /// The worker that also saves and exports.
    Chief,
    /// Computes gradients.
    Worker,
    /// Measures the model on other data.
    Evaluator,
    /// Something of the user's own that is only kept running.
    Other,
}

/// What the pods of a role run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Program {
    /// The command of the template, in its image.
    Template,
    /// `flexor master`, in Flexor's image.
    FlexorMaster,
    /// `flexor ps`, in Flexor's image.
    FlexorPs,
}

/// How many failures of the program are forgiven.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FailureBudget {
    /// So many to each node.
    PerNode(u32),
    /// So many to all nodes of the role together.
    PerRole(u32),
}

/// Without which nodes of a role the job fails once they cannot be brought back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CriticalNodes {
    /// As the kind of role has it.
    Usual,
    /// None of them.
    None,
    /// All of them.
    All,
    /// These, each with how many failures it is forgiven.
    Ranks(BTreeMap<Rank, u32>),
}

impl Role {
    /// Whether its pods are parameter servers of ours, which give away what they keep before they go.
    pub fn keeps_parameters(&self) -> bool {
        let main = self.template.main();
        let (command, args) = (main.command(), main.args());
        let mut words = command.iter().chain(&args);
        let is_flexor = words.next().is_some_and(|program| program.rsplit('/').next() == Some("flexor"));
        let is_ours = is_flexor && words.next() == Some(&"ps");
        self.kind == RoleKind::ParameterServer && (self.program == Program::FlexorPs || is_ours)
    }
}

impl RoleKind {
    /// What it is called in a sentence.
    pub fn as_str(self) -> &'static str {
        match self {
            RoleKind::Master => "master",
            RoleKind::ParameterServer => "parameter server",
            RoleKind::Chief => "chief",
            RoleKind::Worker => "worker",
            RoleKind::Evaluator => "evaluator",
            RoleKind::Other => "other",
        }
    }
}
