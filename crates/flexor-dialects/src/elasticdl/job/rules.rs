//! Rules across options.
//!
//! They are checked after each option has been read by itself. A contradiction is an error. Where ElasticDL replaced a
//! value silently, the same replacement is made and reported.

use std::num::NonZeroU32;

use flexor_model::{LABEL_MAX, Reason, Resources};

use super::job_options::{JobKind, JobOptions};
use crate::{
    Finding,
    elasticdl::{
        command_line::Given,
        options::{DataOptions, PodOptions, TrainingOptions},
        values::{DistributionStrategy, RestartPolicy},
    },
};

/// Checks that the job has data to read.
pub(super) fn data(kind: JobKind, data: &DataOptions, given: &mut Given) {
    let has_loop_of_its_own = given.has("--job_command");
    if kind == JobKind::Train
        && data.training_data.is_empty()
        && data.validation_data.is_empty()
        && !has_loop_of_its_own
    {
        let message = "--training_data or --validation_data is required";
        given.findings.push(
            Finding::new(Reason::MissingField, "--training_data", message)
                .help("add --training_data=PATH with the directory, file or table of the training data"),
        );
    }
    if data.checkpoint_steps > 0 && data.checkpoint_dir.is_empty() {
        given.findings.push(
            Finding::new(Reason::FieldUnused, "--checkpoint_steps", "has no effect without --checkpoint_dir")
                .help("add --checkpoint_dir=PATH with a directory on a volume"),
        );
    }
}

/// Applies the values that ElasticDL forces, and reports evaluations without data.
pub(super) fn training(
    mut training: TrainingOptions,
    data: Option<&DataOptions>,
    given: &mut Given,
) -> TrainingOptions {
    if training.use_async && training.grads_to_wait != NonZeroU32::MIN {
        training.grads_to_wait = NonZeroU32::MIN;
        given.findings.push(
            Finding::new(Reason::ValueReplaced, "--grads_to_wait", "replaced by 1, because --use_async is true")
                .help("remove one of the two"),
        );
    }
    if !training.use_async && training.get_model_steps != NonZeroU32::MIN {
        training.get_model_steps = NonZeroU32::MIN;
        given.findings.push(
            Finding::new(Reason::ValueReplaced, "--get_model_steps", "replaced by 1, because --use_async is false")
                .help("add --use_async=true or remove it"),
        );
    }
    if training.evaluation_steps > 0 && data.is_some_and(|data| data.validation_data.is_empty()) {
        given.findings.push(
            Finding::new(Reason::FieldUnused, "--evaluation_steps", "has no effect without --validation_data")
                .help("add --validation_data=PATH"),
        );
    }
    training
}

/// Checks what Kubernetes would refuse about resources, and replaces restart policies.
pub(super) fn pods(pods: &mut PodOptions, given: &mut Given) {
    if pods.restart_policy != RestartPolicy::Never {
        let policy = std::mem::replace(&mut pods.restart_policy, RestartPolicy::Never);
        let message = format!("`{}` is replaced by Never: pods are replaced, not restarted in place", policy.as_str());
        given.findings.push(Finding::new(Reason::ValueReplaced, "--restart_policy", message));
    }
    let roles = [
        ("master", &pods.master_resource_request, &pods.master_resource_limit),
        ("worker", &pods.worker_resource_request, &pods.worker_resource_limit),
        ("ps", &pods.ps_resource_request, &pods.ps_resource_limit),
    ];
    for (role, request, limit) in roles {
        if !limit.0.is_empty() {
            resources(role, &request.0, &limit.0, given);
        }
    }
}

fn resources(role: &str, request: &Resources, limit: &Resources, given: &mut Given) {
    let option = format!("--{role}_resource_limit");
    for (name, limited) in limit.iter() {
        if let Some(requested) = request.get(name).filter(|requested| *requested > limited) {
            let message = format!("{name}={limited} is less than the request of {requested}");
            given.findings.push(
                Finding::new(Reason::RuleBroken, &option, message).help(format!("must be at least {name}={requested}")),
            );
        }
    }
    // Devices cannot be overcommitted, so Kubernetes wants request and limit to be equal.
    for (name, requested) in request.iter().filter(|(name, _)| name.contains('/')) {
        if limit.get(name).is_none_or(|limited| limited > requested) {
            let message = format!("the limit of {name} must equal its request");
            given.findings.push(
                Finding::new(Reason::RuleBroken, &option, message).help(format!("write {name}={}", requested.ceil())),
            );
        }
    }
}

/// Applies what the strategy means for the number of pods.
pub(super) fn strategy(training: &mut TrainingOptions, pods: &mut PodOptions, given: &mut Given) {
    let strategy = &mut training.distribution_strategy;
    if *strategy == DistributionStrategy::ParameterServer && pods.num_ps_pods == 0 {
        *strategy = DistributionStrategy::AllReduce;
        given.findings.push(
            Finding::new(
                Reason::ValueReplaced,
                "--distribution_strategy",
                "replaced by AllreduceStrategy, because --num_ps_pods is 0",
            )
            .help("write --num_ps_pods=1 for a parameter server"),
        );
    }
    match strategy {
        DistributionStrategy::ParameterServer | DistributionStrategy::Custom => {}
        DistributionStrategy::AllReduce => no_servers(*strategy, pods, given),
        DistributionStrategy::Local => {
            no_servers(*strategy, pods, given);
            if given.has("--num_workers") && pods.num_workers != NonZeroU32::MIN {
                let message = "replaced by 1, because --distribution_strategy is Local";
                given.findings.push(Finding::new(Reason::ValueReplaced, "--num_workers", message));
            }
            pods.num_workers = NonZeroU32::MIN;
        }
    }
}

fn no_servers(strategy: DistributionStrategy, pods: &PodOptions, given: &mut Given) {
    if given.has("--num_ps_pods") && pods.num_ps_pods > 0 {
        let message = format!("has no effect: {} has no parameter servers", strategy.as_str());
        given.findings.push(Finding::new(Reason::FieldUnused, "--num_ps_pods", message).help("remove it"));
    }
}

/// Checks that the names of all pods and services fit into a DNS label.
pub(super) fn names(options: &JobOptions, given: &mut Given) {
    let job = options.to_job();
    let longest = job.longest_name();
    if longest > LABEL_MAX {
        let length = job.name.as_str().len();
        let most = LABEL_MAX + length - longest;
        let message = format!("has {length} characters; pod names would be longer than {LABEL_MAX}");
        given.findings.push(
            Finding::new(Reason::RuleBroken, "--job_name", message).help(format!("must be at most {most} characters")),
        );
    }
}
