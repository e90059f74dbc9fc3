//! Tests the help and the version of the program.

use crate::program::run;

#[test]
fn help_names_every_command_and_the_exit_codes() {
    let ran = run(&["--help"]);
    assert_eq!(ran.code, 0);
    insta::assert_snapshot!(ran.stdout);
}

#[test]
fn the_help_of_a_command_explains_its_options() {
    insta::assert_snapshot!(run(&["validate", "--help"]).stdout);
}

#[test]
fn the_version_is_printed_for_people_and_programs() {
    assert_eq!(run(&["version"]).stdout, format!("flexor {}\n", env!("CARGO_PKG_VERSION")));
    let json: serde_json::Value = serde_json::from_str(&run(&["version", "-o", "json"]).stdout).unwrap();
    assert_eq!(json["version"], env!("CARGO_PKG_VERSION"));
}
