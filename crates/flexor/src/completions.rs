//! `flexor completions`, and the completion requests of the scripts that it prints.
//!
//! A script runs this program with `FLEXOR_COMPLETE` set to get the candidates at the cursor. clap completes options and
//! verbs. Names of existing objects come from the cluster ([`names`]).

mod line;
mod names;

use std::ffi::OsString;

use anyhow::Context;
use clap_complete::{ArgValueCompleter, CompleteEnv, Shell, env::Shells};
use flexor_model::env;

use self::names::NameCompleter;
use crate::{cli, exit::Exit, output, verbs};

/// Prints the script for a shell.
pub fn run(shell: Shell) -> anyhow::Result<Exit> {
    let shells = Shells::builtins();
    let writer = shells.completer(&shell.to_string()).context("there is no script for this shell")?;
    let mut script = Vec::new();
    writer.write_registration(env::COMPLETE.name, "flexor", "flexor", &this_program()?, &mut script)?;
    output::text(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Success)
}

/// Answers a completion request. Returns false if there is none.
pub fn answer() -> bool {
    if std::env::var_os(env::COMPLETE.name).is_none() {
        return false;
    }
    let folder = std::env::current_dir().ok();
    let answering = CompleteEnv::with_factory(command).var(env::COMPLETE.name);
    // Errors cannot be shown during a completion.
    answering.try_complete(line::with_verb_first(), folder.as_deref()).unwrap_or(true)
}

/// The command tree, with completers of names.
fn command() -> clap::Command {
    cli::command().mut_subcommands(|command| {
        if !verbs::is_verb(command.get_name()) {
            return command;
        }
        command.mut_args(|arg| {
            let completer = match arg.get_id().as_str() {
                "words" => NameCompleter::KindsAndNames,
                "pod" => NameCompleter::Pods,
                "name" | "job" => NameCompleter::Jobs,
                "container" => NameCompleter::Containers,
                "namespace" => NameCompleter::Namespaces,
                _ => return arg,
            };
            arg.add(ArgValueCompleter::new(completer))
        })
    })
}

/// The command with which scripts call this program: the one that it was called with.
fn this_program() -> anyhow::Result<String> {
    let called = std::env::args_os().next().unwrap_or_else(|| OsString::from("flexor"));
    let path = std::path::Path::new(&called);
    let called = if path.components().count() > 1 { std::path::absolute(path)?.into_os_string() } else { called };
    called.into_string().ok().context("the path of this program is not valid UTF-8")
}
