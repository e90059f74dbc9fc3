//! `flexor launch --help`, rendered from the table that the options are parsed with. The same table fills the command tree
//! for completions and the reference page.

use std::fmt::Write as _;

use clap::{Arg, ArgAction, Command};
use flexor_dialects::launch_options::{self, Fate, Kind, OptionSpec, Origin};
use flexor_model::env;

use crate::exit;

const ABOUT: &str = "\
Start the processes of one node of an elastic job

Takes torchrun's command line and its PET_* variables, and dlrover-run's options that have the same meaning. Runs any
program: a file that ends in .py runs with Python, any other is executed directly. Processes get torchrun's environment
(RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT, …).

Processes restart when a node is lost or joins, which is free, and when the program fails, which counts as a restart.
A signal is forwarded to the processes; a second one kills them. No process of the program outlives the launch.

Nodes meet at a `flexor master`, which may start later and may restart. A single machine needs no master (--standalone),
nor does a job whose first node runs one (--node-rank=0, or --rdzv-conf=is_host=true).";

const USAGE: &str = "flexor launch [OPTIONS] PROGRAM [ARGUMENTS]...";

const EXAMPLES: &str = "\
Examples:
  flexor launch --standalone --nproc-per-node=2 train.py --lr=0.1
  flexor launch --standalone --nproc-per-node=4 ./simulate input.dat
  flexor master --job mnist --nnodes 2:4 --state ./mnist-state &
  flexor launch --nnodes=2:4 --rdzv-backend=c10d --rdzv-endpoint=localhost:50001 --rdzv-id=mnist train.py
";

/// Variables that the launcher itself reads, beside those of the options.
const ENVIRONMENT: [(&str, &str); 4] = [
    (env::TOKEN_FILE.name, "File with the job's token: sent to the master, or required if this node runs the master"),
    (env::LOG.name, "Log level of the launcher on standard error: error, warn, info, debug or trace"),
    ("PYTHON_EXEC", "Python that runs scripts and modules [default: python3]"),
    ("POD_NAME", "Name of this node [default: the machine's name and the process ID]"),
];

/// The complete help text.
pub fn text() -> String {
    let mut text = format!("{ABOUT}\n\nUsage: {USAGE}\n\n{EXAMPLES}");
    let of = |origin| launch_options::all().filter(move |spec| spec.origin == origin);
    section(&mut text, "Options of torchrun", of(Origin::Torchrun).filter(is_meant));
    section(&mut text, "Options of dlrover-run", of(Origin::DlroverRun).filter(is_meant));
    close(&mut text);
    text
}

/// Adds the launcher's options to its command of the command tree.
pub fn document(command: Command) -> Command {
    let mut closing = EXAMPLES.to_owned();
    close(&mut closing);
    let program = |arg: Arg| arg.value_name("PROGRAM").help("Program to launch, and its arguments");
    let options = launch_options::all().filter(is_meant).map(argument);
    command.long_about(ABOUT).args(options).mut_arg("words", program).after_help(closing)
}

/// An option for the command tree.
fn argument(spec: &'static OptionSpec) -> Arg {
    let name = spec.name.trim_start_matches('-');
    let arg = Arg::new(name).long(name).help(spec.help);
    let arg = match spec.short {
        Some(letter) => arg.short(letter),
        None => arg,
    };
    let arg = match spec.kind {
        Kind::Flag => return arg.action(ArgAction::SetTrue),
        Kind::Text(value) | Kind::Integer(value) | Kind::Number(value) => arg.value_name(value),
        Kind::Choice(words) => arg.value_parser(words.to_vec()),
    };
    if spec.default.is_empty() { arg } else { arg.default_value(spec.default) }
}

/// Appends the sections after the options: options without effect, refused options, environment, exit codes.
fn close(text: &mut String) {
    let idle = |spec: &'static OptionSpec| match spec.fate {
        Fate::NoEffect(why) => Some((spec.name, why.to_owned())),
        Fate::Meant | Fate::Refused { .. } => None,
    };
    explained(text, "Accepted without effect", launch_options::all().filter_map(idle));
    let refused = |spec: &'static OptionSpec| match spec.fate {
        Fate::Refused { why, instead } => Some((spec.name, format!("{why}; {instead}"))),
        Fate::Meant | Fate::NoEffect(_) => None,
    };
    explained(text, "Refused", launch_options::all().filter_map(refused));
    explained(text, "Environment", ENVIRONMENT.into_iter().map(|(name, what)| (name, what.to_owned())));
    let _ = write!(text, "\n{}\n", exit::HELP);
}

fn is_meant(spec: &&'static OptionSpec) -> bool {
    spec.fate == Fate::Meant
}

fn section<'a>(text: &mut String, title: &str, specs: impl Iterator<Item = &'a OptionSpec>) {
    let _ = write!(text, "\n{title}:\n");
    for spec in specs {
        let short = spec.short.map(|letter| format!("-{letter}, ")).unwrap_or_default();
        let value = match spec.kind {
            Kind::Flag => String::new(),
            Kind::Text(name) | Kind::Integer(name) | Kind::Number(name) => format!(" <{name}>"),
            Kind::Choice(words) => format!(" <{}>", words.join("|")),
        };
        let _ = writeln!(text, "  {short}{}{value}", spec.name);
        let default = match (spec.kind, spec.default) {
            (Kind::Flag, _) | (_, "") => String::new(),
            (_, value) => format!(" [default: {value}]"),
        };
        for line in wrapped(&format!("{}{default}", spec.help)) {
            let _ = writeln!(text, "          {line}");
        }
    }
}

/// Appends a section of names, each with an explanation.
fn explained(text: &mut String, title: &str, names: impl Iterator<Item = (&'static str, String)>) {
    let _ = write!(text, "\n{title}:\n");
    for (name, explanation) in names {
        let _ = writeln!(text, "  {name}");
        for line in wrapped(&explanation) {
            let _ = writeln!(text, "          {line}");
        }
    }
}

/// Lines of at most 88 characters.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().filter(|line| line.is_empty() || line.len() + 1 + word.len() <= 88);
        match last {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) => {
                line.push(' ');
                line.push_str(word);
            }
            None => lines.push(word.to_owned()),
        }
    }
    lines
}
