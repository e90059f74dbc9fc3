//! Which option an abbreviated name means.
//!
//! A name may be cut short as long as only one option begins with it. The union of three releases has more names than
//! each of them, so the releases are asked one by one: what was clear to one of them is clear here, and the oldest
//! answers first.

use super::command::CommandName;
use crate::elasticdl::options::{Generation, OptionSpec};

const HELP: &str = "--help";

/// What an abbreviated name means.
#[derive(Debug, PartialEq)]
pub(super) enum Meaning {
    /// This option.
    Option(&'static OptionSpec),
    /// The help text.
    Help,
    /// One of these, in every release that knows any.
    Ambiguous(Vec<&'static str>),
    /// No option begins so.
    Nothing,
}

/// What `name`, which is no option's whole name, means to a command.
pub(super) fn meaning(command: CommandName, name: &str) -> Meaning {
    if !name.starts_with("--") {
        return Meaning::Nothing;
    }
    let help = HELP.starts_with(name);
    for generation in Generation::ALL {
        let mut fitting =
            command.options().filter(|spec| spec.generations.contains(generation) && spec.name.starts_with(name));
        match (fitting.next(), fitting.next(), help) {
            (Some(spec), None, false) => return Meaning::Option(spec),
            (None, None, true) => return Meaning::Help,
            _ => {}
        }
    }
    let mut candidates: Vec<_> =
        command.options().map(|spec| spec.name).filter(|option| option.starts_with(name)).collect();
    candidates.extend(help.then_some(HELP));
    if candidates.is_empty() { Meaning::Nothing } else { Meaning::Ambiguous(candidates) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn train(name: &str) -> Meaning {
        meaning(CommandName::Train, name)
    }

    fn option(name: &str) -> &'static str {
        match train(name) {
            Meaning::Option(spec) => spec.name,
            other => panic!("{name}: {other:?}"),
        }
    }

    #[test]
    fn a_name_may_be_cut_short_as_long_as_it_is_clear() {
        assert_eq!(
            [option("--job_n"), option("--num_ps"), option("--mini")],
            ["--job_name", "--num_ps_pods", "--minibatch_size"]
        );
        assert_eq!(train("--nothing"), Meaning::Nothing);
        assert_eq!(train("-j"), Meaning::Nothing);
        assert_eq!(
            train("--worker_resource"),
            Meaning::Ambiguous(vec!["--worker_resource_request", "--worker_resource_limit"])
        );
    }

    #[test]
    fn what_was_clear_to_one_release_is_clear_here() {
        // 1.0.0 also has --num_evaluators and --job_command; 0.2.0rc2 has other --evaluation_… options.
        assert_eq!(
            [option("--num_e"), option("--job"), option("--evaluation")],
            ["--num_epochs", "--job_name", "--evaluation_steps"]
        );
        assert_eq!([option("--num_evaluator"), option("--ps_im")], ["--num_evaluators", "--ps_image"]);
    }
}
