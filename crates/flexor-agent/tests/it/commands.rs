//! Commands that cannot be started.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use flexor_agent::workers::ExitOutcome as Exit;

use crate::launch::Launch;

/// A launch with a valid worker, which leaves a note when it starts, and one whose command is `command`.
fn beside_a_valid_one(command: &str) -> Launch {
    let mut launch = Launch::sh(&["echo > $NOTES/started"]);
    launch.scenario.workers.push(vec![command.to_owned()]);
    launch
}

#[test]
fn a_command_that_does_not_exist_is_found_before_anything_starts() {
    let ended = beside_a_valid_one("no-such-command").run();
    let refused = ended.outcome.refused.as_ref().unwrap();
    assert!(refused.starts_with("no command 'no-such-command': no folder of PATH has it"), "{refused}");
    assert_eq!(ended.note("started"), None);
}

#[test]
fn a_folder_is_no_command() {
    let ended = beside_a_valid_one("/usr").run();
    assert_eq!(ended.outcome.refused.as_deref(), Some("'/usr' is a folder, not a program; name a file in it"));
    assert_eq!(ended.note("started"), None);
}

#[test]
fn a_script_without_its_interpreter_says_so_in_the_error_file() {
    let launch = Launch::new(Vec::new());
    let script = launch.path("train");
    fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let script = script.to_str().unwrap().to_owned();
    let ended = launch.with(|scenario| scenario.workers = vec![vec![script]]).run();
    assert_eq!(ended.outcome.exits[0].outcome, Exit::Code(127));
    let message = &ended.outcome.report.as_ref().unwrap().root_cause.message;
    assert!(message.ends_with("does the interpreter in its first line exist?"), "{message}");
    assert!(ended.stderr.contains(message.as_str()), "{}", ended.stderr);
}
