//! What DLRover accepts in an `ElasticJob` and nothing uses, and what is hardly meant.

use flexor_model::{PARTITIONS, Reason};

use super::{DistributionStrategy, ElasticJobSpec, OptimizeMode, ReplicaSpec, naming};
use crate::{Finding, FlexorOptions, finding::quoted, resource_hints::field_of, suggest};

const ROLES: [&str; 5] = ["ps", "worker", "chief", "evaluator", naming::MASTER];

/// A warning for each.
pub(super) fn of_job(spec: &ElasticJobSpec) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut unused = |there: bool, field: String, help: &str| {
        if there {
            findings.push(Finding::new(Reason::FieldUnused, field, "nothing uses this field").help(help));
        }
    };
    unused(spec.brain_service.is_some(), "spec.brainService".into(), "Flexor sizes jobs without a brain service");
    unused(
        spec.enable_elastic_scheduling.is_some(),
        "spec.enableElasticScheduling".into(),
        "a role is scaled unless its autoScale is false",
    );
    unused(
        spec.enable_dynamic_sharding.is_some(),
        "spec.enableDynamicSharding".into(),
        "data is always sharded by the master",
    );
    unused(spec.envs.is_some(), "spec.envs".into(), "set the variables in the env of each template's container");
    for (key, _) in spec.resource_limits.iter().flatten() {
        let known = matches!(key.as_str(), "cpu" | "memory" | "gpu");
        unused(!known, field_of("spec.resourceLimits", key), "the ceiling is read for cpu, memory and gpu");
    }
    findings.extend(of_copies(spec));
    findings.extend(of_workers(spec));
    findings.extend(roles(spec));
    for (name, replica) in &spec.replica_specs {
        findings.extend(of_replica(&format!("spec.replicaSpecs.{name}"), replica));
        findings.extend(of_size(name, replica, spec));
    }
    if let Some(template) = spec.replica_specs.get(naming::MASTER).and_then(|master| master.template.as_ref()) {
        let containers = &template.spec.containers;
        let main = containers.iter().find(|container| container.name == "main").or(containers.first());
        if main.is_some_and(|main| main.image.is_some() || main.command.is_some() || main.args.is_some()) {
            findings.push(
                Finding::new(
                    Reason::ValueReplaced,
                    format!("spec.replicaSpecs.{}.template", naming::MASTER),
                    "image and command are replaced: the master is Flexor's own program",
                )
                .help("its resources, variables and placement are kept"),
            );
        }
    }
    findings
}

/// A second copy needs a second server.
fn of_copies(spec: &ElasticJobSpec) -> Option<Finding> {
    let asked = FlexorOptions::copies(spec.flexor.as_ref()) > 1;
    let field = "spec.flexor.psReplicationFactor";
    match spec.replica_specs.get("ps") {
        _ if !asked => None,
        None => Some(
            Finding::new(Reason::FieldUnused, field, "the job has no parameter servers")
                .help("give it a role ps, or leave psReplicationFactor out"),
        ),
        Some(servers) if servers.replicas == Some(1) => Some(
            Finding::new(
                Reason::NoServerForBackup,
                field,
                "with one parameter server there is no place for a second copy",
            )
            .help("give ps at least 2 replicas"),
        ),
        Some(_) => None,
    }
}

/// Somebody has to train: workers, of which the chief is one.
fn of_workers(spec: &ElasticJobSpec) -> Option<Finding> {
    let replicas = |name: &str| spec.replica_specs.get(name).map(|replica| replica.replicas.unwrap_or(1));
    let has_chief = replicas("chief").is_some_and(|chiefs| chiefs > 0);
    (replicas("worker") == Some(0) && !has_chief).then(|| {
        let message = "the job has no worker: nothing is trained until it has one";
        Finding::new(Reason::MissingRole, "spec.replicaSpecs.worker.replicas", message)
            .help("write at least 1, or give it one with `flexor scale JOB --worker 1` when it runs")
    })
}

fn roles(spec: &ElasticJobSpec) -> Vec<Finding> {
    let mut findings = Vec::new();
    for name in spec.replica_specs.keys().filter(|name| !ROLES.contains(&name.as_str())) {
        let message = "is not a role that DLRover knows; its pods are kept running, and that is all";
        let meant = if name == "master" { Some(naming::MASTER) } else { suggest::closest(name, ROLES) };
        let finding = Finding::new(Reason::UnknownRole, format!("spec.replicaSpecs.{name}"), message);
        findings.push(match meant {
            Some(meant) => finding.help(format!("did you mean `{meant}`?")),
            None => finding,
        });
    }
    let servers = matches!(spec.distribution_strategy, None | Some(DistributionStrategy::ParameterServer));
    if servers && !spec.replica_specs.contains_key("ps") {
        findings.push(
            Finding::new(Reason::MissingRole, "spec.replicaSpecs", "a parameter-server job without the role ps")
                .help("write distributionStrategy: AllreduceStrategy if its workers talk to each other"),
        );
    }
    findings
}

/// What is said about the size of a role that has only one.
fn of_size(name: &str, replica: &ReplicaSpec, spec: &ElasticJobSpec) -> Vec<Finding> {
    let path = format!("spec.replicaSpecs.{name}");
    let mut findings = Vec::new();
    if name == naming::MASTER && replica.replicas.is_some_and(|replicas| replicas != 1) {
        let finding = Finding::new(Reason::ValueReplaced, format!("{path}.replicas"), "a job has one master");
        findings.push(finding.help("leave it out"));
    }
    let servers = matches!(spec.distribution_strategy, None | Some(DistributionStrategy::ParameterServer));
    if servers && name == "ps" {
        findings.extend(of_servers(&path, replica));
    }
    let scaled = servers && matches!(name, "worker" | "ps") && spec.optimize_mode != Some(OptimizeMode::Manual);
    if replica.auto_scale == Some(true) && !scaled {
        let finding =
            Finding::new(Reason::FieldUnused, format!("{path}.autoScale"), "this role is not scaled automatically");
        findings.push(finding.help("only ps and worker of parameter-server jobs are, unless optimizeMode is manual"));
    }
    findings
}

/// Servers that are too few to train with, or too many to have something to keep.
fn of_servers(path: &str, replica: &ReplicaSpec) -> Option<Finding> {
    let field = format!("{path}.replicas");
    let most = i64::from(PARTITIONS);
    let containers = replica.template.iter().flat_map(|template| &template.spec.containers);
    let is_ours = containers.into_iter().any(|container| {
        let words = container.command.iter().chain(&container.args).flatten();
        words.take(2).map(String::as_str).eq(["flexor", "ps"])
    });
    match i64::from(replica.replicas.unwrap_or(1)) {
        0 => Some(
            Finding::new(Reason::MissingRole, field, "the job has no parameter server: workers wait until it has one")
                .help("write at least 1, or give it one with `flexor scale JOB --ps 1` when it runs"),
        ),
        many if many > most && is_ours => Some(
            Finding::new(
                Reason::SuspiciousQuantity,
                field,
                format!("parameters lie in {most} parts, so that {} of the servers keep nothing", many - most),
            )
            .help(format!("write at most {most}")),
        ),
        _ => None,
    }
}

fn of_replica(path: &str, replica: &ReplicaSpec) -> Vec<Finding> {
    let fields = [
        (
            replica.restart_policy.is_some(),
            "restartPolicy",
            "restartCount says how often a failed node is started again",
        ),
        (replica.restart_timeout.is_some(), "restartTimeout", "a lost node is replaced at once"),
        (replica.batch_scheduler.is_some(), "BatchScheduler", "set schedulerName in the template"),
    ];
    let unused = fields.into_iter().filter(|(there, _, _)| *there).map(|(_, field, help)| {
        Finding::new(Reason::FieldUnused, format!("{path}.{field}"), "nothing uses this field").help(help)
    });
    let policy = replica.template.as_ref().and_then(|template| template.spec.restart_policy.as_deref());
    let replaced = policy.filter(|policy| *policy != "Never").map(|policy| {
        Finding::new(
            Reason::ValueReplaced,
            format!("{path}.template.spec.restartPolicy"),
            format!("{} is replaced by Never: pods are replaced, not restarted in place", quoted(policy)),
        )
    });
    unused.chain(replaced).collect()
}
