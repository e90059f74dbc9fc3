//! `flexor completions`, and what the scripts that it prints ask for.
//!
//! A script asks this program, in another process with `FLEXOR_COMPLETE` set, what may stand where the cursor is. Options
//! and verbs are clap's to know; names of things that are there are asked of the cluster ([`names`]).

mod line;
mod names;

use std::ffi::OsString;

use anyhow::Context;
use clap_complete::{ArgValueCompleter, CompleteEnv, Shell, env::Shells};
use flexor_model::env;

use self::names::Wanted;
use crate::{cli, exit::Exit, output, verbs};

/// Prints the script.
pub fn run(shell: Shell) -> anyhow::Result<Exit> {
    let shells = Shells::builtins();
    let writer = shells.completer(&shell.to_string()).context("there is no script for this shell")?;
    let mut script = Vec::new();
    writer.write_registration(env::COMPLETE.name, "flexor", "flexor", &this_program()?, &mut script)?;
    output::text(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Success)
}

/// Answers a script that asks. Whether one did.
pub fn answer() -> bool {
    if std::env::var_os(env::COMPLETE.name).is_none() {
        return false;
    }
    let folder = std::env::current_dir().ok();
    let answering = CompleteEnv::with_factory(command).var(env::COMPLETE.name);
    // Whoever waits for a completion cannot be told what is wrong.
    answering.try_complete(line::as_asked(), folder.as_deref()).unwrap_or(true)
}

/// The command tree, with whoever knows the names.
fn command() -> clap::Command {
    cli::command().mut_subcommands(|command| {
        if !verbs::is_verb(command.get_name()) {
            return command;
        }
        command.mut_args(|arg| {
            let wanted = match arg.get_id().as_str() {
                "words" => Wanted::KindsAndNames,
                "pod" => Wanted::Pods,
                "name" | "job" => Wanted::Jobs,
                "container" => Wanted::Containers,
                "namespace" => Wanted::Namespaces,
                _ => return arg,
            };
            arg.add(ArgValueCompleter::new(wanted))
        })
    })
}

/// How a script calls this program: as it was called itself.
fn this_program() -> anyhow::Result<String> {
    let called = std::env::args_os().next().unwrap_or_else(|| OsString::from("flexor"));
    let path = std::path::Path::new(&called);
    let called = if path.components().count() > 1 { std::path::absolute(path)?.into_os_string() } else { called };
    called.into_string().ok().context("the path of this program is no text that a shell could read")
}
