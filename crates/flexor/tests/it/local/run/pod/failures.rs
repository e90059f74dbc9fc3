//! Tests programs that cannot start or that fail: the status has one line for each.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use flexor_local::pods::plan::ContainerPlan;
use flexor_local::pods::status::PodPhase;

use super::{ContainerEnd, end, pod};

/// The end of the main container of an otherwise valid pod.
fn ends(change: impl FnOnce(&mut ContainerPlan)) -> ContainerEnd {
    let design = pod().main_but("main", "true", change);
    fs::write(design.folder.path().join("script.sh"), "#!/bin/sh\n").unwrap();
    let lost = design.folder.path().join("lost.sh");
    fs::write(&lost, "#!/no/such/shell\n").unwrap();
    fs::set_permissions(lost, PermissionsExt::from_mode(0o755)).unwrap();
    let mut pod = design.start();
    let status = pod.wait();
    assert_eq!(status.phase, PodPhase::Failed);
    let end = end(&status, "main");
    assert!(end.message.as_ref().is_some_and(|message| message.lines().count() == 1), "{end:?}");
    end
}

/// The message of that end, which has this code and reason.
fn message(code: i32, reason: &str, change: impl FnOnce(&mut ContainerPlan)) -> String {
    let end = ends(change);
    assert_eq!((end.code, end.reason.as_str()), (code, reason), "{:?}", end.message);
    end.message.unwrap()
}

#[test]
fn a_command_that_does_not_exist_is_named() {
    let text = message(127, "StartError", |main| main.command = vec!["no-such-program".to_owned()]);
    assert_eq!(
        text,
        "no command 'no-such-program': no folder of PATH has it; check the spelling, install it, or give its path"
    );
}

#[test]
fn a_script_without_the_executable_bit_is_named_with_the_remedy() {
    let text = message(126, "StartError", |main| main.command = vec!["./script.sh".to_owned()]);
    assert!(text.contains("script.sh' may not be executed; make it executable (chmod +x"), "{text}");
}

#[test]
fn a_script_whose_interpreter_is_missing_says_so() {
    let text = message(127, "Error", |main| main.command = vec!["./lost.sh".to_owned()]);
    assert!(
        text.contains("cannot start './lost.sh'") && text.contains("does the interpreter in its first line exist?"),
        "{text}"
    );
}

#[test]
fn a_folder_that_is_missing_is_named() {
    let text = message(127, "StartError", |main| main.folder = "/no/such/folder".into());
    assert_eq!(text, "no folder '/no/such/folder' for the program to run in; make it, or choose another");
}

#[test]
fn a_missing_command_is_reported() {
    let text = message(127, "StartError", |main| main.command.clear());
    assert_eq!(text, "the command is empty; name the program to start");
}

#[test]
fn the_error_file_of_a_program_is_its_message() {
    let script = "echo 'on the console'; echo '{\"message\": \"no such dataset\"}' > $TORCHELASTIC_ERROR_FILE; exit 5";
    let text = message(5, "Error", |main| main.command[2] = script.to_owned());
    assert_eq!(text, "no such dataset");
}

#[test]
fn without_an_error_file_the_last_output_line_is_the_message() {
    let script = "echo one; echo 'cannot open the dataset' >&2; exit 5";
    assert_eq!(message(5, "Error", |main| main.command[2] = script.to_owned()), "cannot open the dataset");
}

#[test]
fn a_signal_is_a_code_above_128() {
    let script = "echo about to fall; kill -SEGV $$";
    assert_eq!(message(139, "Error", |main| main.command[2] = script.to_owned()), "about to fall");
}

#[test]
fn a_container_that_cannot_start_does_not_keep_the_others_from_it() {
    let design = pod().main_but("bad", "", |bad| bad.command = vec!["no-such-program".to_owned()]);
    let mut pod = design.main("good", "sleep 0.1; echo good >> order").start();
    let status = pod.wait();
    assert_eq!((status.phase, end(&status, "good").code), (PodPhase::Failed, 0));
    assert_eq!(pod.work.lines("order"), ["good"]);
}
