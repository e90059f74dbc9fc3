//! `docs/reference/cli.md`, from the command tree of `flexor` itself.

use anyhow::Result;
use clap::{Arg, Command};

use super::Files;
use super::table::{head, table};
use crate::tree::Tree;

pub(super) fn render(_: &Tree) -> Result<Files> {
    Ok(vec![("docs/reference/cli.md".into(), page(flexor::cli::command()))])
}

fn page(mut program: Command) -> String {
    // Wide enough that clap leaves the lines as they were written.
    program = program.term_width(0);
    program.build();
    let introduction = format!("Every command of `{0}`, as `{0} help COMMAND` tells it too.", program.get_name());
    let mut contents = String::new();
    let mut sections = String::new();
    describe(&mut program, None, 2, &mut contents, &mut sections);
    format!("{}\n{contents}{sections}", head("Command line", &introduction))
}

/// Adds a command and everything below it.
fn describe(command: &mut Command, parent: Option<&str>, level: usize, contents: &mut String, sections: &mut String) {
    let name = parent.map_or(command.get_name().to_owned(), |parent| format!("{parent} {}", command.get_name()));
    let indent = "  ".repeat(level - 2);
    contents.push_str(&format!("{indent}- [{name}](#{})\n", name.replace(' ', "-")));
    let marks = "#".repeat(level.min(6));
    let about = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
    let usage = command.render_usage().to_string();
    sections.push_str(&format!("\n{marks} {name}\n\n{about}\n\n```text\n{}\n```\n", usage.trim()));

    let shown = |arg: &&Arg| !arg.is_hide_set() && arg.get_id() != "help" && (parent.is_none() || !arg.is_global_set());
    let (arguments, options): (Vec<_>, Vec<_>) =
        command.get_arguments().filter(shown).partition(|arg| arg.is_positional());
    for (column, args) in [("argument", arguments), ("option", options)] {
        if !args.is_empty() {
            let rows = args.iter().map(|arg| vec![format!("`{}`", spelled(arg)), meaning(arg)]);
            sections.push_str(&format!("\n{}", table(&[column, "meaning"], rows)));
        }
    }
    if let Some(closing) = command.get_after_long_help().or(command.get_after_help()) {
        sections.push_str(&format!("\n```text\n{}\n```\n", closing.to_string().trim_end()));
    }
    for below in command.get_subcommands_mut().filter(|below| !below.is_hide_set() && below.get_name() != "help") {
        describe(below, Some(&name), level + 1, contents, sections);
    }
}

/// The way an argument is written: `-o, --output <FORMAT>`.
fn spelled(arg: &Arg) -> String {
    let short = arg.get_short().map(|short| format!("-{short}"));
    let long = arg.get_long().map(|long| format!("--{long}"));
    let flags = short.into_iter().chain(long).collect::<Vec<_>>().join(", ");
    let takes_value = arg.get_action().takes_values();
    let names = arg.get_value_names().unwrap_or_default().iter().map(|name| format!("<{name}>"));
    let values = names.collect::<Vec<_>>().join(" ");
    let several = if arg.get_num_args().is_some_and(|count| count.max_values() > 1) { "..." } else { "" };
    match (flags.is_empty(), takes_value) {
        (true, _) => format!("{values}{several}"),
        (false, true) => format!("{flags} {values}{several}"),
        (false, false) => flags,
    }
}

/// The help of an argument with its default and its possible values.
fn meaning(arg: &Arg) -> String {
    let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let mut parts = vec![help.replace("\n\n", "\n")];
    let choices: Vec<_> = arg.get_possible_values().into_iter().filter(|choice| !choice.is_hide_set()).collect();
    if !choices.is_empty() && arg.get_action().takes_values() {
        let choices = choices.iter().map(|choice| match choice.get_help() {
            Some(help) => format!("`{}` ({help})", choice.get_name()),
            None => format!("`{}`", choice.get_name()),
        });
        parts.push(format!("One of {}.", choices.collect::<Vec<_>>().join(", ")));
    }
    let defaults: Vec<_> =
        arg.get_default_values().iter().map(|value| format!("`{}`", value.to_string_lossy())).collect();
    if !defaults.is_empty() && arg.get_action().takes_values() {
        parts.push(format!("Default: {}.", defaults.join(" ")));
    }
    if let Some(variable) = arg.get_env() {
        parts.push(format!("Environment: `{}`.", variable.to_string_lossy()));
    }
    parts.join("\n")
}

#[cfg(test)]
mod tests {
    use clap::{ArgAction, arg};

    use super::*;

    fn sample() -> Command {
        Command::new("demo")
            .about("Does things")
            .arg(arg!(-v --verbose "Say more").global(true))
            .subcommand(
                Command::new("check")
                    .about("Looks at files")
                    .after_help("Examples:\n  demo check a.yaml")
                    .arg(arg!(<FILE> "What to read").action(ArgAction::Append).num_args(1..))
                    .arg(
                        arg!(-o --output <FORMAT> "How to print")
                            .value_parser(["table", "json"])
                            .default_value("table"),
                    )
                    .arg(arg!(--secret).hide(true)),
            )
            .subcommand(Command::new("inner").hide(true))
    }

    #[test]
    fn every_command_has_a_section_with_its_usage_and_options() {
        let page = page(sample());
        let (contents, sections) = page.split_once("\n## demo\n").unwrap();
        assert!(contents.ends_with("- [demo](#demo)\n  - [demo check](#demo-check)\n"), "{contents}");
        assert!(sections.contains("| `-v, --verbose` | Say more |"), "{sections}");
        let check = sections.split_once("### demo check\n").unwrap().1;
        assert!(
            check.starts_with("\nLooks at files\n\n```text\nUsage: demo check [OPTIONS] <FILE>...\n```\n"),
            "{check}"
        );
        assert!(check.contains("| `<FILE>...` | What to read |"), "{check}");
        let output = "| `-o, --output <FORMAT>` | How to print<br>One of `table`, `json`.<br>Default: `table`. |";
        assert!(check.contains(output), "{check}");
        assert!(check.ends_with("```text\nExamples:\n  demo check a.yaml\n```\n"), "{check}");
    }

    #[test]
    fn hidden_commands_stay_hidden_and_global_options_appear_once() {
        let page = page(sample());
        assert!(!page.contains("inner") && !page.contains("--secret") && !page.contains("--help"), "{page}");
        assert_eq!(page.matches("`-v, --verbose`").count(), 1);
    }
}
