//! The same command lines given to torchrun itself, as `tests/recorded/torchrun_command_lines.py` recorded it: what it
//! would launch is what is launched here, and what it refuses is refused. Where we differ on purpose stands here.

use std::collections::BTreeMap;

use flexor_model::Reason;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::launch_options::{Asked, LaunchOptions, Processes, ProgramKind, Rendezvous, StreamChoice, Streams, parse};

const RECORDED: &str = include_str!("../../../tests/recorded/torchrun-2.15.0.json");

#[derive(Deserialize)]
struct Recording {
    torch: String,
    cases: Vec<Case>,
}

/// One command line.
#[derive(Deserialize)]
struct Case {
    args: Vec<String>,
    env: BTreeMap<String, String>,
    /// What torchrun would launch; none where it refuses.
    launch: Option<Value>,
}

fn cases() -> Vec<Case> {
    let recording: Recording = serde_json::from_str(RECORDED).unwrap();
    assert_eq!(recording.torch, "2.15.0");
    recording.cases
}

/// What is launched, in the words of the recording.
fn shown(options: &LaunchOptions) -> Value {
    let (backend, host, port, id) = match &options.rendezvous {
        Rendezvous::Alone => ("c10d", "localhost", 0, "random"),
        Rendezvous::Elastic { at, id } => ("c10d", at.host.as_str(), at.port, id.as_str()),
        Rendezvous::Static { at, id, .. } => ("static", at.host.as_str(), at.port, id.as_str()),
    };
    let Processes::Count(processes) = options.processes else { panic!("{:?} is counted", options.processes) };
    let output = &options.output;
    json!({
        "min_nodes": options.nodes.min,
        "max_nodes": options.nodes.max,
        "nproc_per_node": processes,
        "backend": backend,
        "host": host,
        "port": port,
        "id": id,
        "max_restarts": options.max_restarts,
        "role": options.role,
        "local_addr": options.local_addr,
        "prefix": output.prefix,
        "signals": options.signals.iter().map(|signal| signal.as_str()).collect::<Vec<_>>().join(","),
        "shutdown_timeout": options.shutdown_timeout.as_secs(),
        "virtual_local_rank": options.virtual_local_rank,
        "log_dir": output.log_dir,
        "redirects": streams(&output.redirects),
        "tee": streams(&output.tee),
        "console_ranks": output.console_ranks,
        "argv": options.program.argv,
    })
}

fn streams(chosen: &StreamChoice) -> Value {
    let number = |streams: &Streams| u8::from(streams.stdout) + 2 * u8::from(streams.stderr);
    match chosen {
        StreamChoice::All(streams) => json!(number(streams)),
        StreamChoice::ByLocalRank(ranks) => {
            ranks.iter().map(|(rank, streams)| (rank.to_string(), json!(number(streams)))).collect()
        }
    }
}

/// What torchrun would launch, with what is another here on purpose.
fn expected(mut launch: Value, options: &LaunchOptions, args: &[String], env: &BTreeMap<String, String>) -> Value {
    let given = |name: &str| args.iter().any(|arg| arg.starts_with(name));
    if !given("--max") && !env.contains_key("PET_MAX_RESTARTS") {
        launch["max_restarts"] = json!(3);
    }
    let argv: Vec<String> = serde_json::from_value(launch["argv"].clone()).unwrap();
    launch["argv"] = match (options.program.kind, argv[0].as_str()) {
        // The script of --run-path runs in an interpreter of its own.
        (_, "run_path") => json!([&["python3".to_owned(), "-u".to_owned()], &argv[1..]].concat()),
        // A program whose name does not end in .py is executed itself.
        (ProgramKind::Executable, "python3") => json!(argv[2..]),
        (_, _) => json!(argv),
    };
    launch.as_object_mut().unwrap().remove("conf");
    launch
}

#[test]
fn torchrun_and_flexor_launch_launch_the_same() {
    let mut compared = 0;
    for Case { args, env, launch } in cases() {
        if is_abbreviated(&args) || has_dashes_of_the_program(&args) {
            continue;
        }
        match (parse(&args, &env), launch) {
            (Ok(parsed), Some(launch)) => {
                let Asked::Launch(options) = parsed.asked else { panic!("{args:?} asks for help") };
                let conf = launch["conf"].clone();
                assert_eq!(shown(&options), expected(launch, &options, &args, &env), "{args:?} {env:?}");
                same_settings(&options, &conf);
            }
            (Err(findings), None) => assert!(!findings.is_empty()),
            (ours, theirs) => panic!("{args:?} {env:?}: torchrun {theirs:?}, we {ours:?}"),
        }
        compared += 1;
    }
    assert!(compared > 100, "only {compared} command lines were compared");
}

fn same_settings(options: &LaunchOptions, theirs: &Value) {
    let seconds = |name: &str| theirs[name].as_str().map(|text| text.parse::<u64>().unwrap());
    let ours = &options.rendezvous_conf;
    assert_eq!(ours.join_timeout.map(|time| time.as_secs()), seconds("join_timeout"));
    assert_eq!(ours.last_call.map(|time| time.as_secs()), seconds("last_call_timeout"));
    assert_eq!(ours.is_host, theirs["is_host"].as_str().map(|text| text.eq_ignore_ascii_case("true")));
    if let Rendezvous::Static { rank, .. } = options.rendezvous {
        assert_eq!(Some(rank.to_string().as_str()), theirs["rank"].as_str());
    }
}

/// torchrun takes the beginning of a name for the name.
fn is_abbreviated(args: &[String]) -> bool {
    args.iter().any(|arg| arg.starts_with("--rdzv-b=") || arg == "--max-r")
}

/// torchrun takes a `--` right behind the program for its own; here it is the program's, as all that follows it.
fn has_dashes_of_the_program(args: &[String]) -> bool {
    matches!(args, [program, dashes, ..] if program == "train.py" && dashes == "--")
}

#[test]
fn abbreviations_are_refused_with_the_whole_name() {
    let abbreviated: Vec<_> = cases().into_iter().filter(|case| is_abbreviated(&case.args)).collect();
    assert_eq!(abbreviated.len(), 2);
    for Case { args, env, launch } in abbreviated {
        assert!(launch.is_some(), "torchrun takes {args:?}");
        let findings = parse(&args, &env).unwrap_err();
        assert_eq!(findings[0].reason, Reason::UnknownOption);
        assert!(findings[0].help.as_ref().is_some_and(|help| help.starts_with("write --")), "{findings:?}");
    }
}

#[test]
fn dashes_behind_the_program_are_its_own() {
    let case = cases().into_iter().find(|case| has_dashes_of_the_program(&case.args));
    let Case { args, env, launch } = case.unwrap();
    assert_eq!(launch.unwrap()["argv"], json!(["python3", "-u", "train.py", "a"]));
    let Asked::Launch(options) = parse(&args, &env).unwrap().asked else { panic!("{args:?} asks for help") };
    assert_eq!(options.program.argv, ["python3", "-u", "train.py", "--", "a"]);
}
