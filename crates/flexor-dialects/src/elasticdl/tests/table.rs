//! The table holds what the three releases hold.

use std::collections::BTreeSet;

use super::{owned, train};
use crate::elasticdl::{CommandName, Generation, OptionSpec, parse};

fn option(command: CommandName, name: &str) -> &'static OptionSpec {
    command.options().find(|spec| spec.name == name).unwrap_or_else(|| panic!("{command} has no {name}"))
}

#[test]
fn train_has_as_many_options_as_in_each_release() {
    let count = |generation| CommandName::Train.options().filter(|spec| spec.generations.contains(&generation)).count();
    assert_eq!(Generation::ALL.iter().map(|&generation| count(generation)).collect::<Vec<_>>(), [57, 64, 77]);
}

#[test]
fn what_the_last_client_has_lost_is_still_taken() {
    let lost = CommandName::Train.options().filter(|spec| !spec.generations.contains(&Generation::V1));
    assert_eq!(
        BTreeSet::from_iter(lost.map(|spec| spec.name)),
        BTreeSet::from([
            "--dataset_fn",
            "--evaluation_start_delay_secs",
            "--evaluation_throttle_secs",
            "--model_params",
            "--tensorboard_log_dir",
            "--use_go_ps",
        ])
    );
}

#[test]
fn no_command_has_an_option_twice() {
    for command in CommandName::ALL {
        let names = BTreeSet::from_iter(command.options().map(|spec| spec.name));
        assert_eq!(names.len(), command.options().count(), "{command}");
    }
}

#[test]
fn defaults_are_those_of_the_tutorials_release() {
    for (name, default) in [
        ("--dataset_fn", "dataset_fn"),
        ("--feed", "feed"),
        ("--loss", "loss"),
        ("--callbacks", "callbacks"),
        ("--minibatch_size", "64"),
        ("--num_minibatches_per_task", "8"),
        ("--num_epochs", "1"),
        ("--distribution_strategy", "ParameterServerStrategy"),
        ("--use_async", "False"),
        ("--grads_to_wait", "1"),
        ("--sync_version_tolerance", "0"),
        ("--get_model_steps", "1"),
        ("--log_loss_steps", "100"),
        ("--evaluation_steps", "0"),
        ("--evaluation_start_delay_secs", "100"),
        ("--evaluation_throttle_secs", "0"),
        ("--keep_checkpoint_max", "0"),
        ("--namespace", "default"),
        ("--num_workers", "2"),
        ("--num_ps_pods", "1"),
        ("--master_resource_request", "cpu=0.1,memory=1024Mi"),
        ("--worker_resource_request", "cpu=1,memory=4096Mi"),
        ("--ps_resource_limit", ""),
        ("--image_pull_policy", "Always"),
        ("--restart_policy", "Never"),
        ("--use_go_ps", "True"),
        ("--log_level", "INFO"),
        ("--need_task_manager", "True"),
        ("--relaunch_on_worker_failure", "1"),
        ("--critical_worker_index", "default"),
        ("--enable_automate_memory", "True"),
        ("--num_evaluators", "0"),
    ] {
        assert_eq!(option(CommandName::Train, name).default, default, "{name}");
    }
    assert_eq!(option(CommandName::ZooInit, "--base_image").default, "python:3.6");
    assert_eq!(option(CommandName::Predict, "--prediction_outputs_processor").default, "PredictionOutputsProcessor");
}

#[test]
fn each_command_needs_what_it_needed() {
    let required = |command: CommandName| -> Vec<&str> {
        command.options().filter(|spec| spec.is_required(command, false)).map(|spec| spec.name).collect()
    };
    assert_eq!(required(CommandName::Train), ["--model_zoo", "--model_def", "--job_name"]);
    assert_eq!(
        required(CommandName::Evaluate),
        ["--model_zoo", "--model_def", "--validation_data", "--checkpoint_dir_for_init", "--job_name"]
    );
    assert_eq!(
        required(CommandName::Predict),
        ["--model_zoo", "--model_def", "--prediction_data", "--checkpoint_dir_for_init", "--job_name"]
    );
    assert_eq!(required(CommandName::ZooBuild), ["--image"]);
}

#[test]
fn every_default_can_be_written_out_and_changes_nothing() {
    let (plain, _) = train(&[]);
    for spec in CommandName::Train.options().filter(|spec| !spec.is_required(CommandName::Train, false)) {
        if spec.name == "--training_data" {
            continue;
        }
        let (options, warnings) = train(&[&format!("{}={}", spec.name, spec.default)]);
        assert_eq!((options, warnings), (plain.clone(), vec![]), "{}", spec.name);
    }
    assert!(parse(&owned(&["zoo", "init"])).is_ok_and(|parsed| parsed.warnings.is_empty()));
}
