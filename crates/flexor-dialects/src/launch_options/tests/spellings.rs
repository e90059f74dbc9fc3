//! Every option in every way of writing it.

use std::collections::BTreeSet;

use flexor_model::Reason;

use super::{environment, owned};
use crate::{
    Finding,
    launch_options::{Fate, Kind, OptionSpec, all, parse},
};

/// A value that is not the default.
fn other_value(spec: &OptionSpec) -> &'static str {
    match (spec.name, spec.kind) {
        ("--nnodes", _) => "2:4",
        ("--rdzv-backend", _) => "c10d",
        ("--rdzv-endpoint", _) => "node0:1234",
        ("--rdzv-conf", _) => "join_timeout=60",
        ("--redirects" | "--tee", _) => "3",
        ("--signals-to-handle", _) => "SIGUSR1",
        ("--local-ranks-filter", _) => "1",
        ("--node-rank", _) => "1",
        (_, Kind::Flag) => "1",
        (_, Kind::Text(_) | Kind::Integer(_) | Kind::Number(_)) => "2",
        (_, Kind::Choice(words)) => words[words.len() - 1],
    }
}

/// What options come to, for a program in Python and for another: what is launched and what is said, without where.
fn meaning(options: &[String], env: &[(&str, &str)]) -> String {
    ["train.py", "./train"].map(|program| meaning_for(program, options, env)).join("\n")
}

fn meaning_for(program: &str, options: &[String], env: &[(&str, &str)]) -> String {
    // The static rendezvous of more than one node is the one in which ranks and addresses are read.
    let args = [&owned(&["--nnodes=4", "--max-restarts=1"]), options, &owned(&[program])].concat();
    let said = |findings: &[Finding]| {
        let interesting = findings.iter().filter(|finding| finding.reason != Reason::ValueReplaced);
        interesting.map(|finding| finding.message.clone()).collect::<Vec<_>>().join("; ")
    };
    match parse(&args, &environment(env)) {
        Ok(parsed) => format!("{:?} {}", parsed.asked, said(&parsed.warnings)),
        Err(findings) => said(&findings),
    }
}

#[test]
fn every_spelling_of_every_option_means_the_same_and_does_something() {
    let nothing = meaning(&[], &[]);
    for spec in all() {
        let value = other_value(spec);
        let mut ways = Vec::new();
        for spelling in spec.spellings() {
            if spec.kind == Kind::Flag {
                ways.push(vec![spelling]);
            } else {
                ways.push(vec![spelling.clone(), value.to_owned()]);
                ways.push(vec![format!("{spelling}={value}")]);
                if spec.short.is_some_and(|letter| spelling == format!("-{letter}")) {
                    ways.push(vec![format!("{spelling}{value}")]);
                }
            }
        }
        let meanings: BTreeSet<String> = ways.iter().map(|way| meaning(way, &[])).collect();
        assert_eq!(meanings.len(), 1, "{}: {meanings:?}", spec.name);
        // `--use-env` asks for what is always done.
        assert_eq!(meanings.contains(&nothing), spec.name == "--use-env", "{} does nothing", spec.name);
    }
}

#[test]
fn every_variable_gives_its_option_and_is_beaten_by_the_command_line() {
    // What the command lines of this test say themselves is not theirs to try.
    let tried = |spec: &&OptionSpec| !["--nnodes", "--max-restarts"].contains(&spec.name);
    for spec in all().filter(tried) {
        let value = other_value(spec);
        let Some(name) = spec.env_name() else {
            let name = format!("PET_{}", spec.name.trim_start_matches('-').replace('-', "_").to_uppercase());
            assert!(meaning(&[], &[(&name, value)]).contains("no option is read from this variable"), "{name}");
            continue;
        };
        let written = if spec.kind == Kind::Flag { spec.name.to_owned() } else { format!("{}={value}", spec.name) };
        let written = [written];
        assert_eq!(meaning(&[], &[(&name, value)]), meaning(&written, &[]), "{name}");
        assert_eq!(meaning(&written, &[(&name, spec.default)]), meaning(&written, &[]), "{name}");
    }
}

#[test]
fn the_table_is_well_formed() {
    let mut names = BTreeSet::new();
    for spec in all() {
        for spelling in spec.spellings() {
            assert!(names.insert(spelling.clone()), "{spelling} stands twice");
        }
        assert!(spec.name.starts_with("--") && !spec.name.contains('_'), "{}", spec.name);
        assert!(!spec.help.is_empty() && !spec.help.ends_with('.'), "{}", spec.name);
        match spec.fate {
            Fate::Meant => {}
            Fate::NoEffect(why) => assert!(!why.is_empty() && !why.ends_with('.'), "{}", spec.name),
            Fate::Refused { why, instead } => {
                assert!(!why.is_empty() && !instead.is_empty() && !instead.ends_with('.'), "{}", spec.name);
            }
        }
        if let Kind::Choice(words) = spec.kind {
            assert!(spec.default.is_empty() || words.contains(&spec.default), "{}", spec.name);
        }
    }
}
