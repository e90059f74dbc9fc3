//! What is accepted but does not do what it seems to.

use flexor_model::Reason;

use super::{parsed, train};
use crate::elasticdl::{Command, DistributionStrategy, JobType, RestartPolicy};

fn warned(more: &[&str]) -> (Reason, String) {
    let (_, warnings) = train(more);
    assert_eq!(warnings.len(), 1, "{more:?}: {warnings:?}");
    assert!(!warnings[0].is_error());
    (warnings[0].reason, warnings[0].to_string())
}

#[test]
fn an_unknown_option_is_ignored_with_what_was_probably_meant() {
    let unused = |more: &[&str], said: &str| {
        let (reason, text) = warned(more);
        assert_eq!(reason, Reason::FieldUnused);
        assert!(text.contains(said), "{text}");
    };
    unused(&["--num_worker_s=4"], "did you mean `--num_workers`?");
    unused(&["--records_per_task", "100"], "unknown option of `elasticdl train`");
    unused(&["--prediction_outputs_processor=P"], "it belongs to `elasticdl predict`");
    unused(&["stray"], "unexpected argument");
    unused(&["-v"], "unknown option");
}

#[test]
fn evaluate_takes_the_options_of_train_that_scripts_give_it() {
    let args = ["evaluate", "--model_zoo=z", "--model_def=d", "--job_name=j", "--validation_data=/v"];
    let more =
        ["--checkpoint_dir_for_init=/c", "--num_epochs=1", "--evaluation_steps", "4", "--tensorboard_log_dir=/t"];
    let parsed = parsed(&[&args[..], &more].concat());
    assert_eq!(parsed.warnings.len(), 3, "{:?}", parsed.warnings);
    let Command::Evaluate(options) = parsed.command else { panic!("{:?}", parsed.command) };
    assert_eq!(options.job_type(), JobType::EvaluationOnly);
    assert_eq!(options.training.evaluation_steps, 0);
}

#[test]
fn options_that_nothing_reads_say_so_unless_they_are_at_their_default() {
    for (more, said) in [
        (["--cluster_spec=spec.py"], "--cluster_spec_json"),
        (["--use_go_ps=False"], "only one parameter server"),
        (["--use_go_ps"], "only one parameter server"),
        (["--tensorboard_log_dir=/tb"], "does not start TensorBoard"),
        (["--num_evaluators=1"], "have no evaluators"),
        (["--extra_pypi_index=http://localhost/simple"], "elasticdl zoo"),
    ] {
        let (reason, text) = warned(&more);
        assert_eq!(reason, Reason::FieldUnused);
        assert!(text.contains(said), "{text}");
    }
    assert_eq!(train(&["--use_go_ps=True", "--num_evaluators=0"]).1, []);
}

#[test]
fn a_bare_switch_is_the_opposite_of_its_default() {
    assert!(train(&["--use_async"]).0.training.use_async);
    assert!(!train(&["--need_pod_manager"]).0.ignored.need_pod_manager);
    let (options, warnings) = train(&["--use_async", "1"]);
    assert!(!options.training.use_async);
    assert!(warnings[0].message.contains("`1` is read as false"));
}

#[test]
fn values_that_elasticdl_forces_are_forced_here() {
    let (options, warnings) = train(&["--use_async=true", "--grads_to_wait=4"]);
    assert_eq!((options.training.grads_to_wait.get(), warnings[0].reason), (1, Reason::ValueReplaced));
    let (options, warnings) = train(&["--get_model_steps=4"]);
    assert_eq!((options.training.get_model_steps.get(), warnings[0].reason), (1, Reason::ValueReplaced));
    assert_eq!(train(&["--use_async=true", "--get_model_steps=4"]).1, []);
    assert_eq!(train(&["--grads_to_wait=4"]).1, []);
}

#[test]
fn no_pod_is_restarted_in_place() {
    assert_eq!(
        warned(&["--restart_policy=Always"]),
        (
            Reason::ValueReplaced,
            "--restart_policy: `Always` is replaced by Never: pods are replaced, not restarted in place".to_owned()
        )
    );
    assert_eq!(train(&["--restart_policy=OnFailure"]).0.pods.restart_policy, RestartPolicy::Never);
    assert_eq!(train(&["--restart_policy=Never"]).1, []);
}

#[test]
fn no_servers_means_allreduce_and_local_means_one_worker() {
    let (options, warnings) = train(&["--num_ps_pods=0"]);
    assert_eq!(options.training.distribution_strategy, DistributionStrategy::AllReduce);
    assert_eq!(warnings[0].field, "--distribution_strategy");
    let (options, warnings) = train(&["--distribution_strategy=Local", "--num_workers=4"]);
    assert_eq!((options.pods.num_workers.get(), warnings[0].field.as_str()), (1, "--num_workers"));
    assert_eq!(train(&["--distribution_strategy=Local"]).1, []);
    assert_eq!(warned(&["--distribution_strategy=AllreduceStrategy", "--num_ps_pods=2"]).0, Reason::FieldUnused);
}

#[test]
fn the_last_of_several_values_counts() {
    let (options, warnings) = train(&["--num_workers=3", "--num_workers=5"]);
    assert_eq!((options.pods.num_workers.get(), warnings.len()), (5, 1));
    assert_eq!(train(&["--num_workers=3", "--num_workers=3"]).1, []);
}

#[test]
fn steps_without_their_directory_or_data_have_no_effect() {
    assert!(warned(&["--checkpoint_steps=10"]).1.contains("--checkpoint_dir"));
    assert!(warned(&["--evaluation_steps=10"]).1.contains("--validation_data"));
}

#[test]
fn options_in_front_of_the_command_are_ignored_and_help_is_not() {
    let parsed_front = parsed(&["--quiet", "zoo", "-v", "push", "image"]);
    assert_eq!((parsed_front.command, parsed_front.warnings.len()), (Command::ZooPush { image: "image".into() }, 2));
    for args in [&["--help"][..], &["-h"], &["zoo", "--help"]] {
        assert_eq!(parsed(args).command, Command::Help(None), "{args:?}");
    }
}

#[test]
fn a_command_of_the_users_own_needs_no_model_and_no_data() {
    let own = parsed(&["train", "--job_name=j", "--job_command=python -m train"]);
    assert_eq!(own.warnings, []);
}
