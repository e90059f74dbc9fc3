//! `flexor launch --help`, from the table that the options are read with.

use std::fmt::Write as _;

use flexor_dialects::launch_options::{self, Fate, Kind, OptionSpec, Origin};

use crate::exit;

const HEAD: &str = "\
Start the processes of one node of an elastic job

Takes torchrun's command line and its PET_* variables, and dlrover-run's options where they mean the same, for any
program: a name that ends in .py is run with Python, anything else is executed itself. Processes get torchrun's
environment (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT, …).

Processes are started again when a node is lost or joins, which costs nothing, and when the program fails, which is
counted. A signal is passed on to them; a second one kills them. Nothing that they have started outlives the launch.

Nodes meet at a `flexor master`, which may come later and may be started again. One machine alone needs none
(--standalone), nor does a job whose first node brings it along (--node-rank=0, or --rdzv-conf=is_host=true).

Usage: flexor launch [OPTIONS] PROGRAM [ARGUMENTS]...

Examples:
  flexor launch --standalone --nproc-per-node=2 train.py --lr=0.1
  flexor launch --standalone --nproc-per-node=4 ./simulate input.dat
  flexor master --job mnist --world static:2:4 --state ./mnist-state &
  flexor launch --nnodes=2:4 --rdzv-backend=c10d --rdzv-endpoint=localhost:50001 --rdzv-id=mnist train.py
";

/// Everything that there is to say.
pub fn text() -> String {
    let mut text = HEAD.to_owned();
    let of = |origin| launch_options::all().filter(move |spec| spec.origin == origin);
    section(&mut text, "Options of torchrun", of(Origin::Torchrun).filter(is_meant));
    section(&mut text, "Options of dlrover-run", of(Origin::DlroverRun).filter(is_meant));
    let idle = |spec: &'static OptionSpec| match spec.fate {
        Fate::NoEffect(why) => Some((spec.name, why.to_owned())),
        Fate::Meant | Fate::Refused { .. } => None,
    };
    reasons(&mut text, "Taken without effect", launch_options::all().filter_map(idle));
    let refused = |spec: &'static OptionSpec| match spec.fate {
        Fate::Refused { why, instead } => Some((spec.name, format!("{why}; {instead}"))),
        Fate::Meant | Fate::NoEffect(_) => None,
    };
    reasons(&mut text, "Refused", launch_options::all().filter_map(refused));
    let _ = write!(text, "\n{}\n", exit::HELP);
    text
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

/// Options that do nothing, with why.
fn reasons(text: &mut String, title: &str, options: impl Iterator<Item = (&'static str, String)>) {
    let _ = write!(text, "\n{title}:\n");
    for (name, why) in options {
        let _ = writeln!(text, "  {name}");
        for line in wrapped(&why) {
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
