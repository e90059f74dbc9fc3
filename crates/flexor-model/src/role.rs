//! One role of a job: pods that are alike and scale together.
//!
//! A dialect fills a [`Role`] in. The controller decides about its pods, and the renderer makes them from
//! [`Role::template`]. Nothing here talks to a cluster.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    ArgRule, EnvRule, EnvValue, NamedPort, PodTemplate, Rank, RoleName, RoleNaming, RolePriority, RoleSize, ServiceRule,
};

/// The port name under which a master serves torch's TCPStore.
const STORE_PORT: &str = "store";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Role {
    /// As the dialect's users write it.
    pub name: RoleName,
    pub kind: RoleKind,
    pub size: RoleSize,
    /// What the main container runs. Only the dialect reads the template's command for it.
    pub program: Program,
    /// The pod template as the user wrote it, requests and limits included.
    pub template: PodTemplate,
    pub priority: RolePriority,
    /// Failures of the program that are forgiven. Losses of infrastructure are never counted.
    pub failures: FailureBudget,
    /// The nodes without which the job fails.
    pub critical: CriticalNodes,
    pub naming: RoleNaming,
    pub service: Option<ServiceRule>,
    /// Ports that the main container declares.
    pub ports: Vec<NamedPort>,
    /// Variables of the main container. The template's own variables of the same names win.
    pub env: Vec<EnvRule>,
    /// Arguments of the main container, in front of the template's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leading_args: Vec<ArgRule>,
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
    /// A program of the user's that is only kept running.
    Other,
}

/// The program in the main container of a role's pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Program {
    /// A program that is not Flexor's: the template's command in the template's image.
    Foreign,
    /// `flexor master`, whatever the template's command is.
    FlexorMaster,
    /// `flexor ps`: the template's command, or Flexor's own where the template has none.
    FlexorPs,
    /// `flexor worker`, as the template writes it.
    FlexorWorker,
    /// `flexor launch`, as the template writes it.
    FlexorLaunch,
    /// Another command of `flexor`, as the template writes it.
    FlexorOther,
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

/// The nodes of a role without which the job fails once they cannot be brought back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CriticalNodes {
    /// As the kind of role has it.
    Usual,
    None,
    All,
    /// These, each with how many failures it is forgiven.
    Ranks(BTreeMap<Rank, u32>),
}

impl Role {
    /// Whether its pods are Flexor's parameter servers, which hand their partitions over before they end.
    pub fn keeps_parameters(&self) -> bool {
        self.kind == RoleKind::ParameterServer && self.program == Program::FlexorPs
    }

    /// Whether its pods get a sidecar: a foreign program that meets at the master's store reaches it through a process
    /// of its own pod, which outlives restarts of the master.
    pub fn has_sidecar(&self) -> bool {
        let is_store =
            |value: &EnvValue| matches!(value, EnvValue::Address { port, .. } if port.as_str() == STORE_PORT);
        self.program == Program::Foreign && self.env.iter().any(|rule| is_store(&rule.value))
    }

    /// Whether the renderer writes the main container's command and image, so that the template need not have them.
    pub fn has_rendered_command(&self) -> bool {
        match self.program {
            Program::FlexorMaster => true,
            Program::FlexorPs => self.template.main().command().is_empty(),
            Program::Foreign | Program::FlexorWorker | Program::FlexorLaunch | Program::FlexorOther => false,
        }
    }
}

impl RoleKind {
    /// The word for it in a sentence.
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
