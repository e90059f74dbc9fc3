//! From arguments to a command: finds out which command is meant, cuts its arguments, reads its options.
//!
//! An option that the command does not have is a warning, as it was no failure to ElasticDL: scripts give options of
//! `train` to `evaluate`.

use flexor_model::Reason;

use super::{
    argv::{self, Extra},
    command::{Command, CommandName},
    given::Given,
};
use crate::{
    Finding,
    elasticdl::{
        job::{JobKind, JobOptions},
        options::{ZooBuildOptions, ZooInitOptions},
    },
    finding::{quoted, shortened},
    suggest::{closest, instead},
};

/// A command line that can be used.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    /// What it says.
    pub command: Command,
    /// What in it does not do what it seems to.
    pub warnings: Vec<Finding>,
}

/// Reads the arguments that stand behind the program's name.
///
/// Everything that is wrong is reported, not only the first mistake; warnings are among the findings then.
pub fn parse(args: &[String]) -> Result<Parsed, Vec<Finding>> {
    let mut findings = Vec::new();
    let (name, rest) = match command_name(args, &mut findings) {
        Some(Asked::For(name, rest)) => (name, rest),
        Some(Asked::ForHelp) => {
            return Ok(Parsed { command: Command::Help(None), warnings: findings });
        }
        None => return Err(findings),
    };
    let scan = argv::scan(name, rest);
    if scan.help {
        return Ok(Parsed { command: Command::Help(Some(name)), warnings: findings });
    }
    findings.extend(scan.errors);
    findings.extend(scan.extras.iter().map(|extra| extra_finding(name, extra)));
    let mut given = Given::new(name, scan.options);
    let command = command(name, &scan.positionals, &mut given);
    findings.extend(given.findings);
    match command {
        Some(command) if !findings.iter().any(Finding::is_error) => Ok(Parsed { command, warnings: findings }),
        _ => Err(findings),
    }
}

/// The arguments that arbitrary bytes stand for: separated by NUL, as Linux shows a process's command line.
///
/// This is how a fuzzer's input is fed to [`parse`]. Bytes that are no UTF-8 become replacement characters.
pub fn args_of_bytes(bytes: &[u8]) -> Vec<String> {
    let bytes = bytes.strip_suffix(&[0]).unwrap_or(bytes);
    bytes.split(|&byte| byte == 0).map(|arg| String::from_utf8_lossy(arg).into_owned()).collect()
}

/// What the first words ask for.
enum Asked<'a> {
    For(CommandName, &'a [String]),
    ForHelp,
}

/// Finds the words of a command. What looks like an option in front of them was ignored by ElasticDL.
fn command_name<'a>(args: &'a [String], findings: &mut Vec<Finding>) -> Option<Asked<'a>> {
    let mut fitting: Vec<CommandName> = CommandName::ALL.to_vec();
    let mut said = vec!["elasticdl"];
    for (i, arg) in args.iter().enumerate() {
        let depth = said.len() - 1;
        if arg == "-h" || (arg.len() > 2 && "--help".starts_with(arg.as_str())) {
            return Some(Asked::ForHelp);
        }
        if arg.len() > 1 && arg.starts_with('-') {
            let message = "ignored: options must follow the command";
            findings
                .push(Finding::new(Reason::FieldUnused, shortened(arg), message).help("move it behind the command"));
            continue;
        }
        let next =
            Vec::from_iter(fitting.iter().copied().filter(|name| name.words().get(depth) == Some(&arg.as_str())));
        if next.is_empty() {
            let message = format!("unknown command {}", quoted(arg));
            let help = instead(arg, possible(&fitting, depth));
            findings.push(Finding::new(Reason::InvalidValue, said.join(" "), message).help(help));
            return None;
        }
        said.push(arg);
        if let [name] = next[..]
            && name.words().len() == depth + 1
        {
            return Some(Asked::For(name, &args[i + 1..]));
        }
        fitting = next;
    }
    let help = format!("expected one of {}", possible(&fitting, said.len() - 1).join(", "));
    findings.push(Finding::new(Reason::MissingField, said.join(" "), "a command is required").help(help));
    None
}

/// The words that may follow, each once.
fn possible(fitting: &[CommandName], depth: usize) -> Vec<&'static str> {
    let mut words = Vec::from_iter(fitting.iter().filter_map(|name| name.words().get(depth).copied()));
    words.dedup();
    words
}

fn command(name: CommandName, positionals: &[String], given: &mut Given) -> Option<Command> {
    match name {
        CommandName::ZooInit => ZooInitOptions::read(given).map(Command::ZooInit),
        CommandName::ZooBuild => {
            let options = ZooBuildOptions::read(given);
            let path = positional(name, positionals, "write the directory to build, such as `.`", given)?;
            options.map(|options| Command::ZooBuild { path, image: options.image })
        }
        CommandName::ZooPush => {
            let help = "write the image to push, such as registry/elasticdl:mnist";
            positional(name, positionals, help, given).map(|image| Command::ZooPush { image })
        }
        CommandName::Train => JobOptions::read(JobKind::Train, given).map(Command::Train),
        CommandName::Evaluate => JobOptions::read(JobKind::Evaluate, given).map(Command::Evaluate),
        CommandName::Predict => JobOptions::read(JobKind::Predict, given).map(Command::Predict),
    }
}

/// The one positional argument of a command, which may not be empty.
fn positional(name: CommandName, positionals: &[String], help: &str, given: &mut Given) -> Option<String> {
    let found = positionals.first().filter(|text| !text.is_empty()).cloned();
    if found.is_none() {
        let what = name.positionals().join(" ");
        let message = format!("required by `{name}`");
        given.findings.push(Finding::new(Reason::MissingField, what, message).help(help));
    }
    found
}

fn extra_finding(command: CommandName, extra: &Extra) -> Finding {
    let option = match extra {
        Extra::Option(option) => option,
        Extra::Argument(text) => {
            return Finding::new(Reason::FieldUnused, shortened(text), "unexpected argument, ignored")
                .help("options are written --name=value");
        }
    };
    if contradicts(command, option) {
        let message = format!("cannot be used with `{command}`: a job either predicts, or trains and evaluates");
        return Finding::new(Reason::RuleBroken, option, message).help("remove it or use the other command");
    }
    let message = format!("unknown option of `{command}`, ignored");
    let finding = Finding::new(Reason::FieldUnused, shortened(option), message);
    let owner = CommandName::ALL.iter().find(|other| other.options().any(|spec| spec.name == option));
    match (owner, closest(option, command.options().map(|spec| spec.name))) {
        (Some(owner), _) => finding.help(format!("it belongs to `{owner}`")),
        (None, Some(meant)) => finding.help(format!("did you mean `{meant}`?")),
        (None, None) => finding,
    }
}

/// Data for another kind of job than the command makes.
fn contradicts(command: CommandName, option: &str) -> bool {
    match command {
        CommandName::Train | CommandName::Evaluate => option == "--prediction_data",
        CommandName::Predict => ["--training_data", "--validation_data"].contains(&option),
        CommandName::ZooInit | CommandName::ZooBuild | CommandName::ZooPush => false,
    }
}
