//! The help texts, written from the table of options.

use std::fmt::Write;

use super::command::CommandName;
use crate::elasticdl::options::{Fate, OptionSpec};

/// The text for one command, or the list of commands.
pub fn help(command: Option<CommandName>) -> String {
    match command {
        Some(command) => one(command),
        None => all(),
    }
}

fn all() -> String {
    let mut text = "usage: elasticdl COMMAND [OPTIONS]\n\ncommands:\n".to_owned();
    for command in CommandName::ALL {
        let _infallible = writeln!(text, "  {:<10} {}", command.words().join(" "), command.summary());
    }
    text.push_str("\n`elasticdl COMMAND --help` lists the options of a command.\n");
    text
}

fn one(command: CommandName) -> String {
    let mut text = format!("usage: {command}");
    for name in command.positionals() {
        let _infallible = write!(text, " {}", name.to_uppercase());
    }
    let _infallible = write!(text, " [OPTIONS]\n\n{}\n\noptions:\n", command.summary());
    for spec in command.options() {
        line(&mut text, &format!("{} {}", spec.name, spec.expects), &explained(spec, command));
    }
    line(&mut text, "-h, --help", "Show this help");
    text
}

fn line(text: &mut String, what: &str, meaning: &str) {
    let _infallible = writeln!(text, "  {what}\n      {meaning}");
}

fn explained(spec: &OptionSpec, command: CommandName) -> String {
    let mut text = spec.help.to_owned();
    if spec.is_required(command, false) {
        text.push_str(" (required)");
    } else if !spec.default.is_empty() {
        let _infallible = write!(text, " (default {})", spec.default);
    }
    match spec.fate {
        Fate::Shapes | Fate::Kept => {}
        Fate::Unused(why) => {
            let _infallible = write!(text, "; no effect: {why}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_texts_read_well() {
        insta::assert_snapshot!(help(None), @r"
        usage: elasticdl COMMAND [OPTIONS]

        commands:
          zoo init   Write a Dockerfile for the model zoo in the current directory
          zoo build  Build the image of a model zoo
          zoo push   Push the image of a model zoo to its registry
          train      Submit a training job
          evaluate   Submit an evaluation job
          predict    Submit a prediction job

        `elasticdl COMMAND --help` lists the options of a command.
        ");
        insta::assert_snapshot!(help(Some(CommandName::ZooBuild)), @r"
        usage: elasticdl zoo build PATH [OPTIONS]

        Build the image of a model zoo

        options:
          --image STRING
              Name and tag of the image (required)
          -h, --help
              Show this help
        ");
    }

    #[test]
    fn every_option_is_explained() {
        for command in CommandName::ALL {
            let text = help(Some(*command));
            for spec in command.options() {
                assert!(
                    text.contains(&format!("  {} {}\n      {}", spec.name, spec.expects, spec.help)),
                    "{}",
                    spec.name
                );
            }
        }
    }
}
