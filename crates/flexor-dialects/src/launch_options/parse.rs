//! From arguments and environment to what they mean, or everything that is wrong with them.

use std::collections::BTreeMap;

use super::{LaunchOptions, argv, given::Given};
use crate::Finding;

/// A command line that can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parsed {
    /// What it asks for.
    pub asked: Asked,
    /// What in it does not do what it seems to.
    pub warnings: Vec<Finding>,
}

/// What a command line asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// To be told what there is to ask for.
    Help,
    /// To launch.
    Launch(Box<LaunchOptions>),
}

/// Reads the arguments that stand behind `flexor launch`, and the variables of the environment.
///
/// Everything that is wrong is reported, not only the first mistake; warnings are among the findings then.
pub fn parse(args: &[String], env: &BTreeMap<String, String>) -> Result<Parsed, Vec<Finding>> {
    let cut = argv::cut(args);
    if cut.help {
        return Ok(Parsed { asked: Asked::Help, warnings: Vec::new() });
    }
    let mut given = Given::new(cut.options, env);
    let understood = cut.errors.is_empty();
    // Where an option was not understood, what was taken for the program may be its value.
    let options = LaunchOptions::read(&mut given, cut.program).filter(|_| understood);
    let mut findings = cut.errors;
    findings.extend(given.findings);
    match options {
        Some(options) if !findings.iter().any(Finding::is_error) => {
            Ok(Parsed { asked: Asked::Launch(Box::new(options)), warnings: findings })
        }
        Some(_) | None => Err(findings),
    }
}
