//! From an `ElasticJob` to the neutral job.

use flexor_model::{
    EndPolicy, Job, PrioritySplit, Reason, ReplicaRange, Resources, Role, RoleKind, RoleName, RolePriority, Sizing,
    SplitOrder, Strategy,
};

use super::{ElasticJob, ElasticJobSpec, NAME, ReplicaSpec, naming};
use crate::{
    Finding,
    command_hints::Launcher,
    metadata::{self, in_range},
    pod_template::{Container, PodTemplate, ReadTemplate},
    wire_resources::read_list,
};

/// Failures of the program that each node is forgiven, where the manifest does not say.
const RESTARTS: u32 = 3;
/// The most that DLRover's optimizer gives a job by itself.
const MOST_WORKERS: u32 = 60;
const MOST_SERVERS: u32 = 15;

/// The neutral job. Total for manifests that fit their schema and keep its rules.
pub(super) fn to_job(job: &ElasticJob, findings: &mut Vec<Finding>) -> Result<Job, Finding> {
    let spec = &job.spec;
    let strategy = strategy(spec);
    let mut roles = Vec::new();
    for (name, replica) in &spec.replica_specs {
        roles.push(role(name, replica, spec, strategy, findings)?);
    }
    if !roles.iter().any(|role| role.kind == RoleKind::Master) {
        roles.push(role("dlrover-master", &ReplicaSpec::default(), spec, strategy, findings)?);
    }
    if strategy == Strategy::ParameterServer {
        split_off_chief(&mut roles);
    }
    roles.sort_by_key(|role| start_order(role.kind));
    Ok(Job {
        name: metadata::job_name(&job.metadata)?,
        namespace: metadata::namespace(&job.metadata)?,
        dialect: NAME.to_owned(),
        strategy,
        roles,
        sizing: match spec.optimize_mode.as_deref() {
            Some("manual") => Sizing::Manual,
            Some("cluster") => Sizing::Cluster,
            _ => Sizing::Job,
        },
        ceiling: ceiling(spec, findings),
        end: EndPolicy::default(),
        suspended: spec.suspend.unwrap_or(false),
    })
}

fn strategy(spec: &ElasticJobSpec) -> Strategy {
    match spec.distribution_strategy.as_deref() {
        Some("AllreduceStrategy") => Strategy::AllReduce,
        Some("CustomStrategy") => Strategy::Custom,
        Some("Local") => Strategy::Local,
        _ => Strategy::ParameterServer,
    }
}

fn role(
    name: &str,
    replica: &ReplicaSpec,
    spec: &ElasticJobSpec,
    strategy: Strategy,
    findings: &mut Vec<Finding>,
) -> Result<Role, Finding> {
    let path = format!("spec.replicaSpecs.{name}");
    let role_name: RoleName = name
        .parse()
        .map_err(|error| Finding::new(Reason::InvalidValue, path.clone(), format!("the role's name {error}")))?;
    let kind = kind(name);
    let read = template(name, replica, spec, strategy, findings);
    // Only the worker's own template is checked where several roles borrow it.
    let replicas = if kind == RoleKind::Master { 1 } else { in_range(replica.replicas, 1) };
    let auto_scale = replica.auto_scale.unwrap_or(true) && matches!(kind, RoleKind::Worker | RoleKind::ParameterServer);
    Ok(Role {
        kind,
        replicas,
        range: range(kind, strategy, replicas, auto_scale),
        auto_scale,
        requests: read.requests,
        limits: read.limits,
        restart_limit: in_range(replica.restart_count, RESTARTS),
        priority: priority(replica, replicas),
        template: read.template,
        naming: naming::of(kind, strategy),
        name: role_name,
    })
}

fn kind(name: &str) -> RoleKind {
    match name {
        "dlrover-master" => RoleKind::Master,
        "ps" => RoleKind::ParameterServer,
        "chief" => RoleKind::Chief,
        "worker" => RoleKind::Worker,
        "evaluator" => RoleKind::Evaluator,
        _ => RoleKind::Other,
    }
}

fn template(
    name: &str,
    replica: &ReplicaSpec,
    spec: &ElasticJobSpec,
    strategy: Strategy,
    findings: &mut Vec<Finding>,
) -> ReadTemplate {
    let launcher = if strategy == Strategy::AllReduce { Launcher::Torchrun } else { Launcher::Any };
    let own = replica.template.as_ref().map(|template| (name, template));
    let workers = || spec.replica_specs.get("worker")?.template.as_ref().map(|template| ("worker", template));
    match own.or_else(|| matches!(name, "chief" | "evaluator").then(workers).flatten()) {
        Some((owner, template)) => {
            let mut found = Vec::new();
            let read = template.read(&format!("spec.replicaSpecs.{owner}.template"), "main", launcher, &mut found);
            // A borrowed template has been complained about where it stands.
            if owner == name {
                findings.extend(found);
            }
            read
        }
        None => PodTemplate::of(Container { name: "main".to_owned(), ..Container::default() }).read(
            &format!("spec.replicaSpecs.{name}.template"),
            "main",
            Launcher::Any,
            findings,
        ),
    }
}

fn range(kind: RoleKind, strategy: Strategy, replicas: u32, auto_scale: bool) -> ReplicaRange {
    let most = match kind {
        // An all-reduce job goes on with what is left of it and never grows beyond what was asked for.
        RoleKind::Worker if strategy == Strategy::AllReduce => replicas,
        RoleKind::Worker if auto_scale => MOST_WORKERS.max(replicas),
        RoleKind::ParameterServer if auto_scale => MOST_SERVERS.max(replicas),
        RoleKind::Worker | RoleKind::ParameterServer => return ReplicaRange::exactly(replicas),
        RoleKind::Master | RoleKind::Chief | RoleKind::Evaluator | RoleKind::Other => {
            return ReplicaRange::exactly(replicas);
        }
    };
    ReplicaRange::new(replicas.min(1), most).unwrap_or(ReplicaRange::exactly(replicas))
}

/// One worker of a parameter-server job is its chief, unless the manifest has one of its own.
fn split_off_chief(roles: &mut Vec<Role>) {
    if roles.iter().any(|role| role.kind == RoleKind::Chief) {
        return;
    }
    let Some(worker) = roles.iter_mut().find(|role| role.kind == RoleKind::Worker && role.replicas > 0) else {
        return;
    };
    let chief = Role {
        name: "chief".parse().expect("chief is a name"),
        kind: RoleKind::Chief,
        replicas: 1,
        range: ReplicaRange::exactly(1),
        auto_scale: false,
        naming: naming::of(RoleKind::Chief, Strategy::ParameterServer),
        ..worker.clone()
    };
    worker.replicas -= 1;
    worker.range = ReplicaRange::new(worker.range.min() - 1, worker.range.max() - 1)
        .expect("both ends of a range moved by one stay in order");
    roles.push(chief);
}

fn start_order(kind: RoleKind) -> u8 {
    match kind {
        RoleKind::Master => 0,
        RoleKind::ParameterServer => 1,
        RoleKind::Chief => 2,
        RoleKind::Worker => 3,
        RoleKind::Evaluator => 4,
        RoleKind::Other => 5,
    }
}

fn priority(replica: &ReplicaSpec, replicas: u32) -> RolePriority {
    match replica.priority.as_deref() {
        None | Some("") => RolePriority::FromTemplate,
        Some(class @ ("high" | "low")) => RolePriority::Class(class.to_owned()),
        Some(share) => {
            let share: f64 = share.parse().unwrap_or(1.0);
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a u32, rounded")]
            let high = (share * f64::from(replicas)).round() as u32;
            RolePriority::Split(PrioritySplit { high, order: SplitOrder::First })
        }
    }
}

/// `gpu` stands for whatever accelerator the templates ask for.
fn ceiling(spec: &ElasticJobSpec, findings: &mut Vec<Finding>) -> Resources {
    read_list(spec.resource_limits.as_ref(), "spec.resourceLimits", findings)
}
