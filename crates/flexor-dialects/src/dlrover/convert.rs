//! From DLRover's `ElasticJob` to the neutral job.

use flexor_model::{
    CriticalNodes, EndPolicy, FailureBudget, Job, LONGEST_SECONDS, PrioritySplit, Program, Rank, Reason, ReplicaRange,
    Resources, Role, RoleKind, RoleName, RolePriority, RoleSize, Rounding, Sizing, SplitOrder, Strategy,
    is_accelerator,
};

use super::{
    DistributionStrategy, ElasticJob, ElasticJobSpec, NAME, OptimizeMode, ReplicaSpec, critical, naming, warnings,
};
use crate::{
    Finding, FlexorOptions, Reading,
    command_hints::Launcher,
    master,
    object_meta::{self, count},
    pod_template::of_flexor,
    program,
    resource_hints::{Asker, read_list},
};

/// Failures of the program that each node is forgiven where the manifest does not say.
const RESTARTS: u32 = 3;
/// The most replicas that DLRover's optimizer gives a job by itself.
const MOST_WORKERS: u32 = 60;
const MOST_SERVERS: u32 = 15;
/// What `gpu` in `resourceLimits` stands for where no template asks for an accelerator.
const GPU: &str = "nvidia.com/gpu";

/// Annotations: after how many seconds a job without its nodes fails, and whether it fails at all.
const PENDING_TIMEOUT: &str = "pending_timeout";
const PENDING_FAIL_STRATEGY: &str = "pending_fail_strategy";

/// The neutral job that an `ElasticJob` describes.
pub fn to_job(job: &ElasticJob) -> Result<Reading<Job>, Finding> {
    let spec = &job.spec;
    let mut findings = warnings::of_job(spec);
    let conversion = Conversion { spec, strategy: strategy(spec), sizing: sizing(spec) };
    let mut roles = Vec::new();
    for (name, replica) in &spec.replica_specs {
        roles.push(conversion.role(name, replica, &mut findings)?);
    }
    if !spec.replica_specs.contains_key(naming::MASTER) {
        roles.push(conversion.role(naming::MASTER, &ReplicaSpec::default(), &mut findings)?);
    }
    if conversion.strategy == Strategy::ParameterServer {
        split_off_chief(&mut roles);
    }
    roles.sort_by_key(|role| start_order(role.kind));
    let ceiling = ceiling(spec, &roles, &mut findings)?;
    let automatic = roles.iter().any(|role| role.size.automatically().is_some());
    let subject = Job {
        name: object_meta::job_name(&job.metadata)?,
        namespace: object_meta::namespace(&job.metadata)?,
        dialect: NAME.to_owned(),
        labels: object_meta::carried(job.metadata.labels.as_ref()),
        annotations: object_meta::carried(job.metadata.annotations.as_ref()),
        strategy: conversion.strategy,
        roles,
        sizing: if automatic { conversion.sizing } else { Sizing::Manual },
        ceiling,
        end: EndPolicy { shortage_seconds: shortage(job, &mut findings)?, ..EndPolicy::default() },
        suspended: spec.suspend.unwrap_or(false),
        ps_replication_factor: FlexorOptions::copies(spec.flexor.as_ref()),
        checkpoints: FlexorOptions::checkpoints(spec.flexor.as_ref()),
    };
    Ok(Reading { subject, findings })
}

/// How long the job waits for the nodes that it needs. DLRover's master gives up after 15 minutes whatever the annotation
/// says. A job that queues for room had better wait, so ours gives up only where the annotation asks for it.
fn shortage(job: &ElasticJob, findings: &mut Vec<Finding>) -> Result<Option<u64>, Finding> {
    let annotation = |name: &str| job.metadata.annotations.as_ref().and_then(|known| known.get(name));
    if annotation(PENDING_FAIL_STRATEGY).is_some_and(|strategy| matches!(strategy.as_str(), "-1" | "0")) {
        return Ok(None);
    }
    let Some(text) = annotation(PENDING_TIMEOUT) else { return Ok(None) };
    let seconds = text.trim().parse::<u64>().ok().filter(|seconds| *seconds > 0);
    let field = format!("metadata.annotations.{PENDING_TIMEOUT}");
    if seconds.is_some_and(|seconds| seconds > LONGEST_SECONDS) {
        let message = format!("{text} seconds are more than {LONGEST_SECONDS}, the longest time that a job can wait");
        return Err(Finding::new(Reason::InvalidValue, field, message).help("leave it out to wait as long as it takes"));
    }
    if seconds.is_none() {
        let finding = Finding::new(Reason::FieldUnused, field, format!("{text:?} is no number of seconds"));
        findings.push(finding.help("the job waits for its nodes as long as it takes"));
    }
    Ok(seconds)
}

fn strategy(spec: &ElasticJobSpec) -> Strategy {
    match spec.distribution_strategy {
        None | Some(DistributionStrategy::ParameterServer) => Strategy::ParameterServer,
        Some(DistributionStrategy::Allreduce) => Strategy::AllReduce,
        Some(DistributionStrategy::Custom) => Strategy::Custom,
        Some(DistributionStrategy::Local) => Strategy::Local,
    }
}

fn sizing(spec: &ElasticJobSpec) -> Sizing {
    match spec.optimize_mode {
        Some(OptimizeMode::Manual) => Sizing::Manual,
        None | Some(OptimizeMode::SingleJob) => Sizing::Job,
        Some(OptimizeMode::Cluster) => Sizing::Cluster,
    }
}

/// What the conversions of one job's roles share.
struct Conversion<'a> {
    spec: &'a ElasticJobSpec,
    strategy: Strategy,
    sizing: Sizing,
}

impl Conversion<'_> {
    fn role(&self, name: &str, replica: &ReplicaSpec, findings: &mut Vec<Finding>) -> Result<Role, Finding> {
        let path = format!("spec.replicaSpecs.{name}");
        let role_name: RoleName = name
            .parse()
            .map_err(|error| Finding::new(Reason::InvalidValue, path.clone(), format!("the role's name {error}")))?;
        let kind = kind(name);
        let size = self.size(kind, replica, &path)?;
        let is_master = kind == RoleKind::Master;
        let restarts = count(replica.restart_count, RESTARTS, &format!("{path}.restartCount"))?;
        let template = self.template(name, replica, findings)?;
        Ok(Role {
            name: role_name,
            kind,
            size,
            program: if is_master { Program::FlexorMaster } else { program::of(&template) },
            template,
            priority: priority(replica),
            failures: FailureBudget::PerNode(restarts),
            critical: critical::read(replica.critical_nodes.as_deref(), &format!("{path}.criticalNodes"))?,
            naming: naming::of(kind, self.strategy, restarts),
            // Only TensorFlow's cluster is made of addresses; nodes of other strategies meet at the master.
            service: match self.strategy {
                _ if is_master => Some(naming::master_service()),
                Strategy::ParameterServer => Some(naming::service(kind)),
                Strategy::AllReduce | Strategy::Local | Strategy::Custom => None,
            },
            ports: if is_master { master::ports() } else { Vec::new() },
            env: if is_master {
                vec![flexor_model::EnvRule::pod_field("POD_IP", "status.podIP")]
            } else {
                naming::environment(self.strategy, Some(size.allowed()).filter(|_| kind == RoleKind::Worker))
            },
            leading_args: Vec::new(),
        })
    }

    fn size(&self, kind: RoleKind, replica: &ReplicaSpec, path: &str) -> Result<RoleSize, Finding> {
        if kind == RoleKind::Master {
            return Ok(RoleSize::fixed(1));
        }
        let replicas = count(replica.replicas, 1, &format!("{path}.replicas"))?;
        // DLRover scales nothing but parameter-server jobs by itself.
        let auto_scale = replica.auto_scale.unwrap_or(true)
            && self.sizing != Sizing::Manual
            && self.strategy == Strategy::ParameterServer;
        let few = replicas.min(1);
        let up_to = |most: u32| ReplicaRange::new(few, most.max(replicas));
        let size = match kind {
            RoleKind::Worker if auto_scale => {
                up_to(MOST_WORKERS).map(|range| RoleSize::automatic(replicas, ReplicaRange::at_least(few), range))
            }
            RoleKind::ParameterServer if auto_scale => {
                up_to(MOST_SERVERS).map(|range| RoleSize::automatic(replicas, ReplicaRange::at_least(few), range))
            }
            // A user's plan may ask for more than the manifest. An all-reduce job goes on with the nodes that are left.
            RoleKind::Worker | RoleKind::ParameterServer => Ok(RoleSize::manual(replicas, ReplicaRange::at_least(few))),
            RoleKind::Master | RoleKind::Chief | RoleKind::Evaluator | RoleKind::Other => {
                Ok(Ok(RoleSize::fixed(replicas)))
            }
        };
        let broken = |error: String| Finding::new(Reason::RuleBroken, format!("{path}.replicas"), error);
        size.map_err(|error| broken(error.to_string()))?.map_err(|error| broken(error.to_string()))
    }

    fn template(
        &self,
        name: &str,
        replica: &ReplicaSpec,
        findings: &mut Vec<Finding>,
    ) -> Result<flexor_model::PodTemplate, Finding> {
        let torchrun = self.strategy == Strategy::AllReduce && name == "worker";
        let launcher = if torchrun { Launcher::Torchrun } else { Launcher::Any };
        let path = |owner: &str| format!("spec.replicaSpecs.{owner}.template");
        if let Some(template) = &replica.template {
            let mut found = Vec::new();
            let read = template.read(&path(name), "main", launcher, &mut found)?;
            // The master is Flexor's own program, so its template needs no image.
            let is_master = name == naming::MASTER;
            findings.extend(found.into_iter().filter(|finding| !(is_master && finding.reason == Reason::NoImage)));
            return Ok(read);
        }
        let workers = self.spec.replica_specs.get("worker").and_then(|worker| worker.template.as_ref());
        match workers.filter(|_| matches!(name, "chief" | "evaluator")) {
            // Findings about a borrowed template are reported where it stands.
            Some(template) => template.read(&path("worker"), "main", launcher, &mut Vec::new()),
            None if name == naming::MASTER => Ok(of_flexor("main")),
            None => Err(Finding::new(Reason::MissingField, path(name), "is missing").help("add `template:`")),
        }
    }
}

fn kind(name: &str) -> RoleKind {
    match name {
        naming::MASTER => RoleKind::Master,
        "ps" => RoleKind::ParameterServer,
        "chief" => RoleKind::Chief,
        "worker" => RoleKind::Worker,
        "evaluator" => RoleKind::Evaluator,
        _ => RoleKind::Other,
    }
}

/// One worker of a parameter-server job is its chief, unless the manifest has one of its own.
fn split_off_chief(roles: &mut Vec<Role>) {
    if roles.iter().any(|role| role.kind == RoleKind::Chief) {
        return;
    }
    let worker = roles.iter_mut().find(|role| role.kind == RoleKind::Worker && role.size.initial() > 0);
    let Some(worker) = worker else { return };
    let chief = Role {
        name: "chief".parse().expect("chief is a name"),
        kind: RoleKind::Chief,
        size: RoleSize::fixed(1),
        // The manifest's critical workers are those that stay workers.
        critical: CriticalNodes::Usual,
        priority: match &worker.priority {
            RolePriority::Split(split) => {
                let high = split.is_high(Rank(0), worker.size.initial());
                RolePriority::Class(if high { "high" } else { "low" }.to_owned())
            }
            same => same.clone(),
        },
        service: Some(naming::service(RoleKind::Chief)),
        ..worker.clone()
    };
    worker.size = one_less(worker.size);
    if let RolePriority::Split(split) = &mut worker.priority {
        split.before = 1;
    }
    roles.push(chief);
}

/// The size of a role that has given one of its replicas away.
fn one_less(size: RoleSize) -> RoleSize {
    let less = |range: ReplicaRange| match range.max() {
        Some(max) => ReplicaRange::new(range.min().saturating_sub(1), max - 1),
        None => Ok(ReplicaRange::at_least(range.min().saturating_sub(1))),
    };
    let in_order = "both ends of a range moved by one stay in order";
    let (initial, allowed) = (size.initial() - 1, less(size.allowed()).expect(in_order));
    match size.automatically() {
        Some(automatic) => RoleSize::automatic(initial, allowed, less(automatic).expect(in_order)),
        None => RoleSize::manual(initial, allowed),
    }
    .expect("both ranges and the size move by one")
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

fn priority(replica: &ReplicaSpec) -> RolePriority {
    match replica.priority.as_deref() {
        None | Some("") => RolePriority::FromTemplate,
        Some(class @ ("high" | "low")) => RolePriority::Class(class.to_owned()),
        Some(share) => RolePriority::Split(PrioritySplit {
            share: share.parse().unwrap_or(1.0),
            rounding: Rounding::Nearest,
            order: SplitOrder::First,
            before: 0,
        }),
    }
}

/// The job's resource ceiling. `gpu` stands for the accelerator that the templates request.
fn ceiling(spec: &ElasticJobSpec, roles: &[Role], findings: &mut Vec<Finding>) -> Result<Resources, Finding> {
    let written = read_list(spec.resource_limits.as_ref(), "spec.resourceLimits", Asker::Job, findings)?;
    let asked = roles.iter().find_map(|role| {
        let requests = role.template.requests();
        requests.iter().map(|(name, _)| name.to_owned()).find(|name| is_accelerator(name))
    });
    let gpu = asked.unwrap_or_else(|| GPU.to_owned());
    let known = written.iter().filter(|(name, _)| matches!(*name, "cpu" | "memory" | "gpu"));
    Ok(known.map(|(name, quantity)| (if name == "gpu" { gpu.clone() } else { name.to_owned() }, quantity)).collect())
}
