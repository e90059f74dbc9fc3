//! Tests the help, and refused command lines: nothing starts.

use std::fmt::Write as _;

use super::super::faults::process::server;
use super::folder::Folder;
use super::launcher::{Launcher, LauncherOutput, launch, standalone};

fn run(args: &str) -> LauncherOutput {
    let folder = Folder::new();
    Launcher::start(&mut launch(&folder, args.split_whitespace())).wait()
}

#[test]
fn help_describes_every_option() {
    let ended = run("--help");
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    let asked = server(&["help", "launch"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&asked.stdout), ended.stdout, "the same as for any command");
    insta::assert_snapshot!(ended.stdout);
}

#[test]
fn a_wrong_command_line_exits_with_2_and_a_remedy() {
    let lines = [
        "",
        "--standalone",
        "--standalone -m",
        "--standalon ./program",
        "--nproc-per-nod=2 ./program",
        "--standalone --nproc-per-node=two ./program",
        "--standalone --nproc-per-node 0 ./program",
        "--standalone --nproc-per-node",
        "--standalone --nnodes=2 ./program",
        "--nnodes=4:2 --rdzv-backend=c10d --rdzv-endpoint=master:50001 ./program",
        "--nnodes=two --rdzv-backend=c10d --rdzv-endpoint=master:50001 ./program",
        "--nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=master:port ./program",
        "--rdzv-backend=etcd --rdzv-endpoint=master:2379 ./program",
        "--standalone --max-restarts=-1 ./program",
        "--standalone --tee=9 ./program",
        "--standalone --local-ranks-filter=all ./program",
        "--standalone --signals-to-handle=SIGKILL ./program",
        "--standalone --shutdown-timeout=soon ./program",
        "--standalone --no-python -m package",
        "--standalone --network-check ./program",
        "--standalone --save_at_breakpoint ./program",
    ];
    let mut message = String::new();
    for line in lines {
        let ended = run(line);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{line}: {}", ended.stderr);
        let printed = ended.stderr.strip_suffix("flexor launch --help lists the options\n").unwrap();
        let _ = write!(message, "$ flexor launch {line}\n{printed}\n");
    }
    insta::assert_snapshot!(message);
}

#[test]
fn an_option_without_effect_is_reported_and_the_program_runs() {
    let folder = Folder::new();
    let ended = standalone(&folder, &["--monitor-interval=1", "--start-method=fork"], "echo ran");
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "ran\n"), "{}", ended.stderr);
    for option in ["--monitor-interval", "--start-method"] {
        assert!(ended.stderr.contains(&format!("warning: {option}: ")), "{option}: {}", ended.stderr);
    }
}

#[test]
fn a_program_that_is_not_there_is_named_and_never_tried_again() {
    for (program, code, message) in [
        ("no-such-program", 127, "no command 'no-such-program'"),
        ("./no-such-program", 127, "'./no-such-program'"),
        ("no-such-script.py", 127, "there is no file 'no-such-script.py'"),
        ("/", 126, "'/' is a folder, not a program"),
    ] {
        let ended = run(&format!("--standalone --max-restarts=3 {program}"));
        assert_eq!(ended.code, Some(code), "as a shell: {}", ended.stderr);
        assert_eq!(ended.stderr.matches(message).count(), 1, "{}", ended.stderr);
        assert!(!ended.stderr.contains("started") && !ended.stderr.contains("WARN"), "{}", ended.stderr);
    }
}

#[test]
fn an_interpreter_that_is_not_there_is_named() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = Folder::new();
    let program = folder.path().join("program");
    std::fs::write(&program, "#!/no/such/interpreter\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let ended = Launcher::start(&mut launch(&folder, ["--standalone", "--max-restarts=3", "./program"])).wait();
    assert_eq!(ended.code, Some(127), "{}", ended.stderr);
    let last = ended.stderr.lines().last().unwrap();
    assert!(last.contains("does the interpreter in its first line exist?"), "{}", ended.stderr);
}

#[test]
fn a_program_that_refuses_its_options_is_not_started_again() {
    let folder = Folder::new();
    let script = "import argparse\nopen('tries', 'a').write('try\\n')\nargparse.ArgumentParser().parse_args()\n";
    std::fs::write(folder.path().join("train.py"), script).unwrap();
    let args = ["--standalone", "--max-restarts=3", "train.py", "--bad"];
    let ended = Launcher::start(&mut launch(&folder, args)).wait_for(2);
    let expected = "error: the program is not started again, which would change nothing: rank 0: exit code 2; train.py: \
                    error: unrecognized arguments: --bad";
    assert_eq!(ended.stderr.lines().last(), Some(expected), "{}", ended.stderr);
    assert_eq!(folder.lines("tries").len(), 1);
}

#[test]
fn a_python_exception_is_in_the_last_line_with_the_users_frame() {
    let folder = Folder::new();
    let script = "def load():\n    raise ValueError('no labels')\n\nload()\n";
    std::fs::write(folder.path().join("train.py"), script).unwrap();
    for output in [&["--tee=3"][..], &[]] {
        let args = [&["--standalone", "--max-restarts=0"], output, &["train.py"]].concat();
        let ended = Launcher::start(&mut launch(&folder, args)).wait_for(1);
        let last = ended.stderr.lines().last().unwrap();
        assert!(last.contains("rank 0: ValueError: no labels (at ") && last.contains("train.py:2 in load)"), "{last}");
        assert!(ended.stderr.matches("Traceback (most recent call last):").count() == 2, "{}", ended.stderr);
    }
}

#[test]
fn a_log_folder_that_cannot_be_made_is_named() {
    let folder = Folder::new();
    let ended = standalone(&folder, &["--log-dir=/dev/null/logs", "--redirects=3"], "echo ran");
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(3), ""), "{}", ended.stderr);
    assert!(ended.stderr.contains("'/dev/null/logs'") && ended.stderr.contains("--log-dir"), "{}", ended.stderr);
}

#[test]
fn the_paths_of_log_files_are_printed_at_the_start() {
    let folder = Folder::new();
    let ended = standalone(&folder, &["--redirects=3"], "echo hidden");
    let message = ended.stderr.lines().find_map(|line| line.split_once("to files in ")).unwrap_or_default().1;
    let file = std::path::Path::new(message).join("attempt_0/0/stdout.log");
    assert_eq!(std::fs::read_to_string(file).unwrap_or_default(), "hidden\n", "{}", ended.stderr);
    let plain = standalone(&folder, &[], "echo seen");
    assert!(!plain.stderr.contains("to files in"), "{}", plain.stderr);
}

#[test]
fn a_node_that_cannot_serve_names_the_alternative() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let ended = run(&format!("--nnodes=2 --node-rank=0 --master-port={port} true"));
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    for message in ["Address already in use", "another port", "--rdzv-endpoint"] {
        assert!(ended.stderr.contains(message), "{}", ended.stderr);
    }
}

#[test]
fn an_invalid_log_filter_is_reported_and_the_default_applies() {
    let folder = Folder::new();
    let mut command = launch(&folder, ["--standalone", "true"]);
    let ended = Launcher::start(command.env("FLEXOR_LOG", "loud")).wait_for(0);
    assert_eq!(ended.stderr.matches("FLEXOR_LOG is \"loud\"").count(), 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("started"), "{}", ended.stderr);
}

#[test]
fn a_log_folder_that_is_lost_on_the_way_is_no_fault_of_the_program() {
    let folder = Folder::new();
    let script = "rm -r logs; echo > logs; exit 3";
    let ended = standalone(&folder, &["--log-dir=logs", "--redirects=3", "--max-restarts=1"], script);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    assert!(ended.stderr.contains("--log-dir"), "{}", ended.stderr);
}

#[test]
fn an_endpoint_that_cannot_be_read_is_wrong_usage() {
    let folder = Folder::new();
    let args = ["--rdzv-backend=c10d", "--rdzv-endpoint=no host:50001", "true"];
    let ended = Launcher::start(&mut launch(&folder, args)).wait_for(2);
    assert!(ended.stderr.contains("--rdzv-endpoint"), "{}", ended.stderr);
}
