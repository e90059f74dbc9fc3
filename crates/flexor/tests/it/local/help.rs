//! What the program says about itself.

use crate::program::run;

#[test]
fn help_names_every_command_and_the_exit_codes() {
    let ran = run(&["--help"]);
    assert_eq!(ran.code, 0);
    for word in ["validate", "crd", "completions", "version", "Exit codes"] {
        assert!(ran.stdout.contains(word), "{word}");
    }
}

#[test]
fn wrong_usage_ends_with_2_and_a_hint() {
    for args in [&["validat"][..], &["validate"], &["crd", "--dialect", "edll"], &[]] {
        let ran = run(args);
        assert_eq!(ran.code, 2, "{args:?}");
        assert!(!ran.stderr.is_empty() && ran.stdout.is_empty(), "{args:?}");
    }
    assert!(run(&["validat"]).stderr.contains("validate"));
}

#[test]
fn every_shell_gets_its_completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = run(&["completions", shell]);
        assert!(ran.code == 0 && ran.stdout.contains("validate"), "{shell}");
    }
}

#[test]
fn the_version_is_told_to_people_and_machines() {
    assert_eq!(run(&["version"]).stdout, format!("flexor {}\n", env!("CARGO_PKG_VERSION")));
    let json: serde_json::Value = serde_json::from_str(&run(&["version", "-o", "json"]).stdout).unwrap();
    assert_eq!(json["version"], env!("CARGO_PKG_VERSION"));
}
