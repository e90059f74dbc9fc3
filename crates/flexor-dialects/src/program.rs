//! Which program the main container of a role runs: Flexor's own, or a foreign one.
//!
//! This is the one place that reads a template's command for it. The decision travels in [`Role::program`], on which
//! the controller, the renderer and the laptop cluster rely.
//!
//! [`Role::program`]: flexor_model::Role::program

use flexor_model::{PodTemplate, Program};

/// `flexor` may stand behind one wrapper, such as `nice` or `exec`.
const WORDS_BEFORE_COMMAND: usize = 2;

/// The program that a template's main container runs.
pub(crate) fn of(template: &PodTemplate) -> Program {
    let main = template.main();
    let words = [main.command(), main.args()].concat();
    let is_flexor = |word: &&str| word.rsplit('/').next() == Some("flexor");
    let Some(at) = words.iter().take(WORDS_BEFORE_COMMAND).position(is_flexor) else { return Program::Foreign };
    match words.get(at + 1) {
        Some(&"ps") => Program::FlexorPs,
        Some(&"worker") => Program::FlexorWorker,
        Some(&"launch") => Program::FlexorLaunch,
        Some(_) | None => Program::FlexorOther,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn program(command: &[&str], args: &[&str]) -> Program {
        let container = json!({"name": "main", "command": command, "args": args});
        of(&PodTemplate::new(json!({"spec": {"containers": [container]}}), "main").unwrap())
    }

    #[test]
    fn flexor_is_recognised_by_the_name_of_its_program() {
        assert_eq!(program(&["flexor", "ps"], &[]), Program::FlexorPs);
        assert_eq!(program(&["/usr/local/bin/flexor"], &["worker", "--model=deepfm"]), Program::FlexorWorker);
        assert_eq!(program(&["nice", "flexor", "launch", "train.py"], &[]), Program::FlexorLaunch);
        assert_eq!(program(&["flexor", "data", "gen"], &[]), Program::FlexorOther);
        assert_eq!(program(&["flexor"], &[]), Program::FlexorOther);
    }

    #[test]
    fn every_other_program_is_foreign() {
        assert_eq!(program(&["torchrun", "train.py"], &[]), Program::Foreign);
        assert_eq!(program(&["sh", "-c", "flexor ps"], &[]), Program::Foreign);
        assert_eq!(program(&["python", "train.py", "flexor", "ps"], &[]), Program::Foreign);
        assert_eq!(program(&["notflexor", "ps"], &[]), Program::Foreign);
        assert_eq!(program(&[], &[]), Program::Foreign);
    }
}
