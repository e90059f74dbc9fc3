//! The job or the plan of a document in the JSON output.

use std::collections::BTreeMap;

use flexor_model::{
    CreatePod, DnsLabel, MigratePod, ObjectName, PlanOrigin, ReplicaRange, Resources, Role, RoleChange, RoleKind,
    RoleName, Sizing, Strategy,
};
use serde::Serialize;

/// Quantities by resource name, as Kubernetes writes them.
type Quantities = BTreeMap<String, String>;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Job<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<&'a str>,
    strategy: &'static str,
    sized_by: &'static str,
    ceiling: Quantities,
    suspended: bool,
    roles: Vec<JobRole<'a>>,
}

#[derive(Serialize)]
struct JobRole<'a> {
    name: &'a str,
    kind: &'static str,
    replicas: u32,
    range: Range,
    #[serde(skip_serializing_if = "Option::is_none")]
    auto: Option<Range>,
    requests: Quantities,
    /// `None` for Flexor's own image.
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<&'a str>,
}

#[derive(Serialize)]
struct Range {
    min: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    max: Option<u32>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<&'a str>,
    job: &'a str,
    origin: &'static str,
    roles: Vec<PlanRole<'a>>,
    create: Vec<Create<'a>>,
    remove: Vec<&'a str>,
    migrate: Vec<Migrate<'a>>,
    server_addresses: &'a [String],
}

#[derive(Serialize)]
struct PlanRole<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    replicas: Option<u32>,
    resources: Quantities,
}

#[derive(Serialize)]
struct Create<'a> {
    role: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rank: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service: Option<&'a str>,
    resources: Quantities,
}

#[derive(Serialize)]
struct Migrate<'a> {
    pod: &'a str,
    resources: Quantities,
}

impl<'a> From<&'a flexor_model::Job> for Job<'a> {
    fn from(job: &'a flexor_model::Job) -> Self {
        Self {
            name: job.name.as_str(),
            namespace: job.namespace.as_ref().map(DnsLabel::as_str),
            strategy: match job.strategy {
                Strategy::ParameterServer => "parameterServer",
                Strategy::AllReduce => "allReduce",
                Strategy::Local => "local",
                Strategy::Custom => "custom",
            },
            sized_by: match job.sizing {
                Sizing::Manual => "user",
                Sizing::Job => "master",
                Sizing::Cluster => "cluster",
            },
            ceiling: quantities(&job.ceiling),
            suspended: job.suspended,
            roles: job.roles.iter().map(JobRole::from).collect(),
        }
    }
}

impl<'a> From<&'a Role> for JobRole<'a> {
    fn from(role: &'a Role) -> Self {
        Self {
            name: role.name.as_str(),
            kind: match role.kind {
                RoleKind::Master => "master",
                RoleKind::ParameterServer => "parameterServer",
                RoleKind::Chief => "chief",
                RoleKind::Worker => "worker",
                RoleKind::Evaluator => "evaluator",
                RoleKind::Other => "other",
            },
            replicas: role.size.initial(),
            range: role.size.allowed().into(),
            auto: role.size.automatically().map(Range::from),
            requests: quantities(&role.template.requests()),
            image: role.template.main().image().filter(|_| !role.has_rendered_command()),
        }
    }
}

impl<'a> From<&'a flexor_model::Plan> for Plan<'a> {
    fn from(plan: &'a flexor_model::Plan) -> Self {
        Self {
            name: plan.name.as_str(),
            namespace: plan.namespace.as_ref().map(DnsLabel::as_str),
            job: plan.job.as_str(),
            origin: match plan.origin {
                PlanOrigin::Manual => "manual",
                PlanOrigin::Auto => "auto",
            },
            roles: plan.roles.iter().map(PlanRole::from).collect(),
            create: plan.create.iter().map(Create::from).collect(),
            remove: plan.remove.iter().map(ObjectName::as_str).collect(),
            migrate: plan.migrate.iter().map(Migrate::from).collect(),
            server_addresses: &plan.server_addresses,
        }
    }
}

impl<'a> From<(&'a RoleName, &'a RoleChange)> for PlanRole<'a> {
    fn from((name, change): (&'a RoleName, &'a RoleChange)) -> Self {
        Self { name: name.as_str(), replicas: change.replicas, resources: quantities(&change.resources) }
    }
}

impl<'a> From<&'a CreatePod> for Create<'a> {
    fn from(pod: &'a CreatePod) -> Self {
        Self {
            role: pod.role.as_str(),
            name: pod.name.as_ref().map(ObjectName::as_str),
            id: pod.id.map(|id| id.0),
            rank: pod.rank.map(|rank| rank.0),
            service: pod.service.as_deref(),
            resources: quantities(&pod.resources),
        }
    }
}

impl<'a> From<&'a MigratePod> for Migrate<'a> {
    fn from(migration: &'a MigratePod) -> Self {
        Self { pod: migration.pod.as_str(), resources: quantities(&migration.resources) }
    }
}

impl From<ReplicaRange> for Range {
    fn from(range: ReplicaRange) -> Self {
        Self { min: range.min(), max: range.max() }
    }
}

fn quantities(resources: &Resources) -> Quantities {
    resources.iter().map(|(name, quantity)| (name.to_owned(), quantity.to_string())).collect()
}
