//! What is refused, where, and what the user is told to write instead.

use flexor_model::Reason;

use super::{TRAIN, errors};

/// The one error of `train` with another option.
fn refused(more: &[&str]) -> (Reason, String, String) {
    let errors = errors(&[&TRAIN, more].concat());
    assert_eq!(errors.len(), 1, "{more:?}: {errors:?}");
    (errors[0].reason, errors[0].field.clone(), errors[0].to_string())
}

#[test]
fn without_a_command_the_possible_ones_are_named() {
    let said = |args: &[&str]| errors(args)[0].to_string();
    assert_eq!(said(&[]), "elasticdl: a command is required; expected one of zoo, train, evaluate, predict");
    assert_eq!(said(&["zoo"]), "elasticdl zoo: a command is required; expected one of init, build, push");
    assert_eq!(said(&["trian"]), "elasticdl: unknown command `trian`; did you mean `train`?");
    assert_eq!(said(&["zoo", "psuh"]), "elasticdl zoo: unknown command `psuh`; did you mean `push`?");
    assert_eq!(said(&["fit"]), "elasticdl: unknown command `fit`; expected one of zoo, train, evaluate, predict");
}

#[test]
fn everything_that_is_missing_is_named_at_once() {
    let missing =
        |args: &[&str]| Vec::from_iter(errors(args).into_iter().map(|finding| (finding.reason, finding.field)));
    let all = |fields: &[&str]| Vec::from_iter(fields.iter().map(|&field| (Reason::MissingField, field.to_owned())));
    assert_eq!(missing(&["train"]), all(&["--model_zoo", "--model_def", "--job_name", "--training_data"]));
    assert_eq!(
        missing(&["evaluate", "--job_name=j"]),
        all(&["--model_zoo", "--model_def", "--validation_data", "--checkpoint_dir_for_init"])
    );
    assert_eq!(
        missing(&["predict", "--model_zoo=z", "--model_def=d", "--job_name="]),
        all(&["--prediction_data", "--checkpoint_dir_for_init", "--job_name"])
    );
    assert_eq!(missing(&["zoo", "build"]), all(&["--image", "path"]));
    assert_eq!(missing(&["zoo", "push", ""]), all(&["image"]));
}

#[test]
fn a_mistake_in_one_option_hides_none_in_another() {
    let errors =
        errors(&["train", "--num_workers=many", "--minibatch_size=-1", "--volume=claim_name=c", "--job_name=A"]);
    let fields = Vec::from_iter(errors.iter().map(|finding| finding.field.as_str()));
    assert_eq!(fields, ["--model_zoo", "--model_def", "--minibatch_size", "--job_name", "--num_workers", "--volume"]);
}

#[test]
fn values_of_the_wrong_kind_are_refused() {
    for (arg, reason) in [
        ("--num_workers=two", Reason::WrongType),
        ("--num_workers=0", Reason::InvalidValue),
        ("--num_workers=-1", Reason::InvalidValue),
        ("--num_epochs=-1", Reason::InvalidValue),
        ("--distribution_strategy=Mesh", Reason::InvalidValue),
        ("--image_pull_policy=Sometimes", Reason::InvalidValue),
        ("--restart_policy=never", Reason::InvalidValue),
        ("--log_level=LOUD", Reason::InvalidValue),
        ("--master_resource_request=cpu", Reason::InvalidValue),
        ("--worker_pod_priority=1.5", Reason::InvalidValue),
        ("--ps_pod_priority=Very High", Reason::InvalidValue),
        ("--envs=A", Reason::InvalidValue),
        ("--model_params=a", Reason::InvalidValue),
        ("--namespace=My_Space", Reason::InvalidValue),
        ("--cluster_spec_json={", Reason::WrongType),
        ("--chief_resource_request=cpu=x", Reason::InvalidValue),
    ] {
        let (said_reason, field, text) = refused(&[arg]);
        assert_eq!((said_reason, field.as_str()), (reason, arg.split_once('=').unwrap().0), "{text}");
        assert!(text.contains("; "), "{text} says what to write instead");
    }
}

#[test]
fn an_option_without_its_value_or_with_an_unclear_name_is_refused() {
    let (reason, field, text) = refused(&["--num_workers"]);
    assert_eq!((reason, field.as_str()), (Reason::MissingField, "--num_workers"), "{text}");
    let (_, _, text) = refused(&["--worker_resource=cpu=1"]);
    assert!(text.contains("could be --worker_resource_request, --worker_resource_limit"), "{text}");
}

#[test]
fn a_job_name_must_leave_room_for_the_names_of_its_pods() {
    let name = |length: usize| format!("--job_name={}", "j".repeat(length));
    let (reason, field, text) = refused(&[&name(41)]);
    assert_eq!((reason, field.as_str()), (Reason::RuleBroken, "--job_name"));
    assert!(text.contains("at most 40 characters"), "{text}");
    super::train(&[&name(40)]);
    let (reason, _, text) = refused(&["--job_name=test_mnist"]);
    assert_eq!(reason, Reason::InvalidValue);
    assert!(text.contains("only lower-case letters"), "{text}");
}

#[test]
fn a_limit_below_the_request_is_refused() {
    let (reason, field, text) = refused(&["--worker_resource_limit=cpu=0.5,memory=8Gi"]);
    assert_eq!((reason, field.as_str()), (Reason::RuleBroken, "--worker_resource_limit"));
    assert!(text.contains("at least cpu=1"), "{text}");
    let gpus = ["--ps_resource_request=gpu=1", "--ps_resource_limit=cpu=2"];
    assert!(refused(&gpus).2.contains("write nvidia.com/gpu=1"));
}

#[test]
fn a_job_either_predicts_or_trains_and_evaluates() {
    let (reason, field, _) = refused(&["--prediction_data=/p"]);
    assert_eq!((reason, field.as_str()), (Reason::RuleBroken, "--prediction_data"));
    let args = ["predict", "--model_zoo=z", "--model_def=d", "--job_name=j", "--prediction_data=/p"];
    let more = ["--checkpoint_dir_for_init=/c", "--training_data", "/t"];
    assert_eq!(errors(&[&args[..], &more].concat())[0].field, "--training_data");
}
