//! What torchrun's options mean here.

use std::time::Duration;

use super::{environment, launch, launch_with, owned};
use crate::launch_options::{
    Address, Asked, Device, ForwardedSignal, LaunchOptions, Nodes, Processes, ProgramKind, Rendezvous, StreamChoice,
    parse,
};

fn address(host: &str, port: u16) -> Address {
    Address { host: host.to_owned(), port }
}

/// What is executed for these words.
fn executed(args: &[&str]) -> (ProgramKind, Vec<String>) {
    match parse(&owned(args), &environment(&[])).map(|parsed| parsed.asked) {
        Ok(Asked::Launch(options)) => (options.program.kind, options.program.argv),
        other => panic!("{args:?}: {other:?}"),
    }
}

#[test]
fn nothing_but_a_program_runs_one_process_of_it_here() {
    let options = launch(&[]);
    assert_eq!((options.nodes, options.node_unit), (Nodes { min: 1, max: 1 }, 1));
    assert_eq!((options.processes, options.rendezvous), (Processes::Count(1), Rendezvous::Alone));
    assert_eq!(options.program.argv, ["python3", "-u", "train.py"]);
    assert_eq!(options.shutdown_timeout, Duration::from_secs(30));
    assert_eq!(
        options.signals.iter().map(|signal| signal.as_str()).collect::<Vec<_>>().join(","),
        "SIGTERM,SIGINT,SIGHUP,SIGQUIT"
    );
}

#[test]
fn three_failures_of_the_program_are_forgiven_unless_another_number_is_given() {
    assert_eq!(launch(&[]).max_restarts, 3);
    assert_eq!(launch(&["--max-restarts=0"]).max_restarts, 0);
}

#[test]
fn processes_are_a_number_or_one_for_each_device() {
    let processes = |text| launch(&["--nproc-per-node", text]).processes;
    assert_eq!(processes("4"), Processes::Count(4));
    assert_eq!(processes("auto"), Processes::Auto);
    assert_eq!(processes("cpu"), Processes::Each(Device::Cpu));
    assert_eq!(processes("gpu"), Processes::Each(Device::Gpu));
    assert_eq!(processes("xpu"), Processes::Each(Device::Xpu));
}

#[test]
fn nodes_meet_at_an_endpoint_or_at_the_node_of_rank_0() {
    let elastic = launch(&["--nnodes=1:4", "--rdzv-backend=c10d", "--rdzv-endpoint=node0", "--rdzv-id=job"]);
    assert_eq!(elastic.rendezvous, Rendezvous::Elastic { at: address("node0", 29400), id: "job".to_owned() });
    let fixed = launch(&["--nnodes=2", "--node-rank=1", "--master-addr=node0"]);
    assert_eq!(fixed.rendezvous, Rendezvous::Static { at: address("node0", 29500), rank: 1, id: "none".to_owned() });
    assert_eq!(address("::1", 5).to_string(), "[::1]:5");
}

#[test]
fn a_program_is_executed_itself_unless_it_is_python() {
    assert_eq!(executed(&["./train", "-x"]), (ProgramKind::Executable, owned(&["./train", "-x"])));
    assert_eq!(executed(&["python", "train.py"]), (ProgramKind::Executable, owned(&["python", "train.py"])));
    assert_eq!(executed(&["a/train.py"]), (ProgramKind::PythonScript, owned(&["python3", "-u", "a/train.py"])));
    assert_eq!(executed(&["-m", "a.b", "c"]), (ProgramKind::PythonModule, owned(&["python3", "-u", "-m", "a.b", "c"])));
    assert_eq!(executed(&["--no-python", "x.py"]), (ProgramKind::Executable, owned(&["x.py"])));
    assert_eq!(executed(&["--run-path", "x"]), (ProgramKind::PythonScript, owned(&["python3", "-u", "x"])));
}

#[test]
fn the_arguments_of_the_program_are_left_alone() {
    let args = ["train.py", "--nnodes=9", "-m", "--", "--help", "-h", ""];
    assert_eq!(executed(&args).1[2..], owned(&args));
    assert_eq!(executed(&[&["--nnodes=1", "--"], &args[..]].concat()).1[2..], owned(&args));
    assert_eq!(executed(&["--", "--odd"]).1, ["--odd"]);
}

#[test]
fn help_is_asked_for_before_the_program() {
    for word in ["-h", "--help"] {
        let parsed = parse(&owned(&["--nnodes=nonsense", word]), &environment(&[]));
        assert_eq!(parsed.map(|parsed| parsed.asked), Ok(Asked::Help));
    }
}

#[test]
fn streams_are_chosen_for_all_or_by_local_rank() {
    let streams = |chosen: &StreamChoice, rank| (chosen.of(rank).stdout, chosen.of(rank).stderr);
    let output = launch(&["-r", "0:1,12:2", "--tee=3"]).output;
    assert_eq!([0, 1, 12].map(|rank| streams(&output.redirects, rank)), [(true, false), (false, false), (false, true)]);
    assert_eq!(streams(&output.tee, 7), (true, true));
}

#[test]
fn the_rendezvous_is_told_what_it_understands_and_the_rest_is_named() {
    let conf = "--rdzv-conf=join_timeout=60,lastcall_timeout=5,is_host=no,read_timeout=9,join_timout=1,odd=2";
    let (options, warnings) = launch_with(&[conf], &[]);
    let conf = options.rendezvous_conf;
    assert_eq!((conf.join_timeout, conf.last_call), (Some(Duration::from_secs(60)), Some(Duration::from_secs(5))));
    assert_eq!(conf.is_host, Some(false));
    assert_eq!(
        warnings,
        [
            "--rdzv-conf: the setting `read_timeout` has no effect; a master that does not answer is asked again until it does",
            "--rdzv-conf: the setting `join_timout` has no effect; did you mean `join_timeout`?",
            "--rdzv-conf: the setting `odd` has no effect; no rendezvous of ours has such a setting",
        ]
    );
}

#[test]
fn the_command_line_beats_the_environment_which_beats_the_default() {
    let env = [("PET_ROLE", "from-env"), ("PET_MAX_RESTARTS", "7"), ("PET_STANDALONE", "1")];
    let (options, warnings) = launch_with(&["--role=typed"], &env);
    assert_eq!((options.role.as_str(), options.max_restarts), ("typed", 7));
    assert_eq!(warnings, [""; 0]);
    let (options, _) = launch_with(&[], &env);
    assert_eq!((options.role.as_str(), options.rendezvous), ("from-env", Rendezvous::Alone));
}

#[test]
fn what_has_no_effect_is_said_once_with_the_reason() {
    let said = |args: &[&str], env: &[(&str, &str)]| launch_with(args, env).1;
    assert_eq!(
        said(&["--monitor-interval=5", "--monitor-interval=5"], &[]),
        ["--monitor-interval: has no effect; the end of a process is noticed at once, nothing is polled"]
    );
    assert_eq!(said(&["--monitor-interval=0.10", "--event-log-handler=null"], &[]), [""; 0], "what holds anyway");
    assert_eq!(
        said(&["--node-rank=2", "--rdzv-backend=c10d"], &[]),
        ["--node-rank: has no effect; only the static rendezvous reads it"]
    );
    assert_eq!(
        said(&["--standalone"], &[("PET_RDZV_ENDPOINT", "master:29400")]),
        ["PET_RDZV_ENDPOINT: has no effect; one machine alone meets nobody"]
    );
    assert_eq!(said(&["--rdzv-id=job"], &[]), ["--rdzv-id: has no effect; one machine alone meets nobody"]);
    assert_eq!(
        said(&["--nnodes=2", "--rdzv-endpoint=node0:1", "--master-port=2"], &[]),
        ["--master-port: has no effect; --rdzv-endpoint says where the nodes meet"]
    );
    assert_eq!(
        said(&[], &[("PET_NNODE", "3"), ("PETER", "x")]),
        ["PET_NNODE: no option is read from this variable; did you mean `PET_NNODES`?"]
    );
    assert_eq!(said(&["--role=a", "--role=b"], &[]), ["--role: given more than once; the last value `b` is used"]);
}

#[test]
fn signals_are_named_once_each() {
    let LaunchOptions { signals, .. } = launch(&["--signals-to-handle=SIGTERM, SIGUSR1,SIGTERM"]);
    assert_eq!(signals, [ForwardedSignal::Term, ForwardedSignal::Usr1]);
}

#[test]
fn the_legacy_use_env_says_what_holds_anyway() {
    for spelling in ["--use-env", "--use_env"] {
        let parsed = parse(&owned(&[spelling, "train.py"]), &environment(&[])).unwrap();
        assert_eq!(parsed.warnings, []);
        let Asked::Launch(options) = parsed.asked else { panic!("{spelling} asks for help") };
        assert_eq!(options.program.argv, ["python3", "-u", "train.py"]);
    }
}
