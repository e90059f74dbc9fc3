//! What holds for every command line.

use flexor_model::Job;
use proptest::{prelude::*, sample::select};

use super::TRAIN;
use crate::elasticdl::{Arity, Command, CommandName, OptionSpec, args_of_bytes, parse};

/// A value that the option takes, by what its help text says it looks like.
fn value(spec: &OptionSpec) -> BoxedStrategy<String> {
    let resources = |cores: std::ops::Range<u32>| {
        (cores, 1_u32..64).prop_map(|(cpu, memory)| format!("cpu={}.25,memory={}Mi", cpu, memory * 128)).boxed()
    };
    match (spec.name, spec.expects) {
        ("--job_name" | "--namespace", _) => "[a-z][a-z0-9]{0,20}".boxed(),
        (name, expects) if expects.starts_with("cpu=") => {
            if name.ends_with("_limit") { Just("cpu=99,memory=9Ti,gpu=2".to_owned()).boxed() } else { resources(0..40) }
        }
        (_, "STRING") => ".{1,12}".boxed(),
        (_, "NUMBER") => (1_u32..100_000).prop_map(|number| number.to_string()).boxed(),
        (_, "CLASS") => "[a-z]{1,8}".boxed(),
        (_, "CLASS|high=SHARE|SHARE") => "(high=)?0\\.[0-9]{1,5}|[a-z]{1,5}|1|".boxed(),
        (_, "JSON") => r#"\{"pod_spec": \{"labels": \{"a": "[a-z]{0,3}"\}\}, "other": [0-9]\}"#.boxed(),
        (_, "K1=V1[,K2=V2…]") => "[A-Z]{1,3}=[a-z, ]{0,6}(,[A-Z]{1,3}=[a-z, ]{0,6}){0,2}".boxed(),
        (_, "K1=V1[; K2=V2…]") => "[a-z]{1,3}=[^;]{0,6}(; ?[a-z]{1,3}=[^;]{0,6}){0,2}".boxed(),
        (_, "disable_relaunch=True|False") => "disable_relaunch=(True|False)|".boxed(),
        (_, expects) if expects.starts_with("mount_path=") => {
            "mount_path=/[a-z]{1,4}/a,(claim_name=[a-z]{1,4}(,sub_path=[a-z][a-z/]{0,3})?|host_path=/[a-z]{1,4},type=File);\
             (host_path=[a-z /]{1,4}x,mount_path=/[a-z]{1,4}/b)?"
                .boxed()
        }
        (_, choices) => select(choices.split('|').map(str::to_owned).collect::<Vec<_>>()).boxed(),
    }
}

/// A command line of any job, with any of its options.
fn job_args() -> impl Strategy<Value = Vec<String>> {
    select(vec![CommandName::Train, CommandName::Evaluate, CommandName::Predict]).prop_flat_map(|command| {
        let arg = |spec: &'static OptionSpec| {
            // Without training data a training job is refused, so it counts as required here.
            let required = spec.is_required(command, false) || spec.name == "--training_data";
            let written = value(spec).prop_map(|value| Some(format!("{}={value}", spec.name)));
            let bare = Just((spec.arity == Arity::Switch).then(|| spec.name.to_owned()));
            if required { written.boxed() } else { prop_oneof![written, bare, Just(None)].boxed() }
        };
        let words = Just(command.words().iter().map(|&word| word.to_owned()).collect::<Vec<_>>());
        (words, command.options().map(arg).collect::<Vec<_>>())
            .prop_map(|(words, options)| words.into_iter().chain(options.into_iter().flatten()).collect())
    })
}

/// The job of a command line that makes one.
fn job(args: &[String]) -> Job {
    match parse(args).map(|parsed| parsed.command) {
        Ok(Command::Train(options) | Command::Evaluate(options) | Command::Predict(options)) => options.to_job(),
        other => panic!("{other:?}"),
    }
}

/// Anything that looks a little like a command line.
fn wild_args() -> impl Strategy<Value = Vec<String>> {
    let names = || select(CommandName::Train.options().map(|spec| spec.name).collect::<Vec<_>>());
    let arg = prop_oneof![
        ".{0,12}",
        "-{0,3}[a-z_=]{0,6}",
        (names(), ".{0,12}").prop_map(|(name, value)| format!("{name}={value}")),
        (names(), 0_usize..30).prop_map(|(name, end)| name.chars().take(end).collect()),
        select(TRAIN.to_vec()).prop_map(str::to_owned),
        select(vec!["zoo", "init", "build", "push", "train", "evaluate", "predict", "--", "-h"])
            .prop_map(str::to_owned),
    ];
    prop::collection::vec(arg, 0..12)
}

proptest! {
    #[test]
    fn any_valid_job_is_printed_and_read_back_the_same(args in job_args()) {
        let first = parse(&args).map_err(|findings| TestCaseError::fail(format!("{args:?}: {findings:?}")))?;
        let second = parse(&first.command.to_args())
            .map_err(|findings| TestCaseError::fail(format!("{:?}: {findings:?}", first.command.to_args())))?;
        prop_assert_eq!(second.command, first.command);
    }

    #[test]
    fn the_same_options_always_give_the_same_job(args in job_args()) {
        prop_assert_eq!(job(&args), job(&args));
    }

    #[test]
    fn no_job_contradicts_itself(args in job_args()) {
        prop_assert_eq!(job(&args).contradictions(), Vec::<String>::new());
    }

    #[test]
    fn a_job_is_stored_as_json_and_read_back_the_same(args in job_args()) {
        let job = job(&args);
        let text = serde_json::to_string(&job).unwrap();
        prop_assert_eq!(serde_json::from_str::<Job>(&text).unwrap(), job);
    }

    #[test]
    fn zoo_commands_are_printed_and_read_back_the_same(path in ".{1,12}", image in ".{1,12}", base in ".{0,12}") {
        let init = parse(&["zoo".into(), "init".into(), format!("--base_image={base}")]).unwrap().command;
        for command in [
            init,
            Command::ZooBuild { path, image: image.clone() },
            Command::ZooPush { image },
            Command::Help(Some(CommandName::ZooPush)),
            Command::Help(None),
        ] {
            prop_assert_eq!(parse(&command.to_args()).map(|parsed| parsed.command), Ok(command));
        }
    }

    #[test]
    fn any_arguments_are_read_without_panic_and_what_is_accepted_is_printed_back(args in wild_args()) {
        match parse(&args) {
            Ok(parsed) => {
                prop_assert!(!parsed.warnings.iter().any(crate::Finding::is_error));
                prop_assert_eq!(parse(&parsed.command.to_args()).map(|again| again.command), Ok(parsed.command));
            }
            Err(findings) => prop_assert!(findings.iter().any(crate::Finding::is_error), "{:?}", findings),
        }
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&args_of_bytes(&bytes));
    }
}

#[test]
fn bytes_are_cut_at_nul_as_linux_shows_a_command_line() {
    assert_eq!(args_of_bytes(b"zoo\0push\0a b\0"), ["zoo", "push", "a b"]);
    assert_eq!(args_of_bytes(b"zoo\0\xff"), ["zoo", "\u{fffd}"]);
}
