//! What the main container of a pod requests: its template's resources, what plans changed of them, and where nobody says
//! anything, a share of what the job may use.
//!
//! The shares leave room for the smallest cluster that learns something: one parameter server, the chief and three
//! workers. Such pods are limited to what they request, so that what one of them does can be measured.

use flexor_model::{Job, Quantity, Resources, Role, RoleKind, Sizing};

use super::{JobStatus, Reconciler};
use crate::nodes;
use crate::scaling::{Allotment, first_allotment};

/// What a pod of the role requests before anything was measured; `None` where its template says what it requests, and
/// where only its user sizes the job.
pub fn first_resources(job: &Job, role: &Role, largest_node: &Resources) -> Option<Resources> {
    let trains = matches!(role.kind, RoleKind::Chief | RoleKind::Worker | RoleKind::ParameterServer);
    let main = role.template.main();
    if job.sizing != Sizing::Job || !trains || !main.requests().is_empty() || !main.limits().is_empty() {
        return None;
    }
    let node = (!largest_node.is_empty()).then(|| Allotment::from(largest_node));
    Some(first_allotment((&job.ceiling).into(), node).resources())
}

/// Where new pods of a slot request something else than their template: a plan for the slot counts before one for the
/// role.
pub fn planned_resources(
    job: &Job,
    status: &JobStatus,
    role: &Role,
    of_slot: &Resources,
    largest_node: &Resources,
) -> Resources {
    let of_role = status.targets.get(&role.name).map(|target| target.resources.clone()).unwrap_or_default();
    first_resources(job, role, largest_node).unwrap_or_default().overlaid_by(&of_role).overlaid_by(of_slot)
}

impl Reconciler<'_> {
    /// The memory that new pods of a slot request, before any growth.
    pub(super) fn memory_asked(&self, role: &Role, of_slot: &Resources) -> Option<Quantity> {
        nodes::memory_asked(role, &self.planned(role, of_slot))
    }

    pub(super) fn planned(&self, role: &Role, of_slot: &Resources) -> Resources {
        planned_resources(self.observed.job, &self.status, role, of_slot, self.largest_node())
    }

    /// Whether pods of the role are limited to what they request.
    pub(super) fn is_limited(&self, role: &Role) -> bool {
        first_resources(self.observed.job, role, self.largest_node()).is_some()
    }

    fn largest_node(&self) -> &Resources {
        &self.observed.executor.largest_node
    }
}
