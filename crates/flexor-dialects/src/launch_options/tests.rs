//! The command line as a whole: what a user types, and what becomes of it.

mod dlrover_run;
mod properties;
mod recorded;
mod refusals;
mod spellings;
mod torchrun;

use std::collections::BTreeMap;

use super::{Asked, LaunchOptions, parse};
use crate::Finding;

fn owned(args: &[&str]) -> Vec<String> {
    args.iter().map(|&arg| arg.to_owned()).collect()
}

fn environment(variables: &[(&str, &str)]) -> BTreeMap<String, String> {
    variables.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// The options of a command line with a program behind it, and what is said about them.
fn launch_with(args: &[&str], env: &[(&str, &str)]) -> (LaunchOptions, Vec<String>) {
    let args = [args, &["train.py"]].concat();
    match parse(&owned(&args), &environment(env)) {
        Ok(parsed) => match parsed.asked {
            Asked::Launch(options) => (*options, parsed.warnings.iter().map(Finding::to_string).collect()),
            Asked::Help => panic!("{args:?} asks for help"),
        },
        Err(findings) => panic!("{args:?} {env:?}: {findings:?}"),
    }
}

/// The same for a command line that there is nothing to say about.
fn launch(args: &[&str]) -> LaunchOptions {
    let (options, warnings) = launch_with(args, &[]);
    assert_eq!(warnings, [""; 0], "{args:?}");
    options
}

/// The errors of a command line with a program behind it that is refused.
fn errors(args: &[&str], env: &[(&str, &str)]) -> Vec<String> {
    let args = [args, &["train.py"]].concat();
    match parse(&owned(&args), &environment(env)) {
        Ok(parsed) => panic!("{args:?} {env:?} was accepted: {parsed:?}"),
        Err(findings) => findings.iter().filter(|finding| finding.is_error()).map(Finding::to_string).collect(),
    }
}
