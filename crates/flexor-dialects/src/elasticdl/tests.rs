//! The command line as a whole: what a user types, and what becomes of it.

mod conversion;
mod properties;
mod refusals;
mod table;
mod tutorial;
mod warnings;

use super::{Command, JobOptions, Parsed, parse};
use crate::Finding;

/// The least that `train` needs.
const TRAIN: [&str; 5] =
    ["train", "--model_zoo=zoo", "--model_def=m.m.model", "--training_data=/data", "--job_name=job"];

fn owned(args: &[&str]) -> Vec<String> {
    args.iter().map(|&arg| arg.to_owned()).collect()
}

fn parsed(args: &[&str]) -> Parsed {
    parse(&owned(args)).unwrap_or_else(|findings| panic!("{args:?}: {findings:?}"))
}

/// `train` with more options.
fn train(more: &[&str]) -> (JobOptions, Vec<Finding>) {
    let parsed = parsed(&[&TRAIN, more].concat());
    match parsed.command {
        Command::Train(options) => (options, parsed.warnings),
        other => panic!("{more:?}: {other:?}"),
    }
}

/// The errors of a command line that is refused.
fn errors(args: &[&str]) -> Vec<Finding> {
    match parse(&owned(args)) {
        Ok(parsed) => panic!("{args:?} was accepted: {parsed:?}"),
        Err(findings) => findings.into_iter().filter(Finding::is_error).collect(),
    }
}
