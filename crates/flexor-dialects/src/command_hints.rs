//! What a pod's command line says that matters to Flexor.

use flexor_model::Reason;

use crate::Finding;

/// How the pods of a role are expected to start their program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Launcher {
    /// By `torchrun` or one of its kin, which Flexor steers by environment variables.
    Torchrun,
    /// In any other way.
    Any,
}

/// Warnings about one list of words, which may be a command line or a script given to a shell.
pub(crate) fn look_at(words: &[String], launcher: Launcher, field: &str) -> Vec<Finding> {
    // A script given to `sh -c` is one word with many in it.
    let tokens: Vec<(usize, &str)> =
        words.iter().enumerate().flat_map(|(i, word)| word.split_whitespace().map(move |token| (i, token))).collect();
    let mut findings = Vec::new();
    for (at, &(index, token)) in tokens.iter().enumerate() {
        let Some((name, value)) = option(token) else { continue };
        let value = value.or_else(|| tokens.get(at + 1).map(|(_, next)| (*next).to_owned()));
        let field = format!("{field}[{index}]");
        match (name.as_str(), value.as_deref()) {
            ("rdzv-backend", Some("dlrover-master")) => findings.push(
                Finding::new(
                    Reason::BackendUnavailable,
                    field,
                    "the rendezvous backend dlrover-master exists only in images patched by DLRover",
                )
                .help("write --rdzv_backend=c10d; the endpoint and the id are set by Flexor in PET_RDZV_ENDPOINT and PET_RDZV_ID"),
            ),
            ("rdzv-endpoint", _) if launcher == Launcher::Torchrun => findings.push(
                Finding::new(
                    Reason::CommandOverrides,
                    field,
                    "--rdzv-endpoint on the command line leads the workers past the job's master",
                )
                .help("leave it out: Flexor sets it in PET_RDZV_ENDPOINT"),
            ),
            ("rdzv-conf" | "max-restarts", _) if launcher == Launcher::Torchrun => findings.push(
                Finding::new(
                    Reason::CommandOverrides,
                    field,
                    format!("--{name} on the command line replaces what Flexor sets by environment variable"),
                )
                .help("leave it out: Flexor counts failures of the program itself and loses no restart to a lost node"),
            ),
            _ => {}
        }
    }
    findings
}

/// `--rdzv_backend=c10d` as (`rdzv-backend`, `c10d`). torchrun takes `_` and `-` alike.
fn option(word: &str) -> Option<(String, Option<String>)> {
    let (name, value) = match word.strip_prefix("--")?.split_once('=') {
        Some((name, value)) => (name, Some(value.trim_matches(['"', '\'']).to_owned())),
        None => (word.strip_prefix("--")?, None),
    };
    Some((name.replace('_', "-"), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reasons(words: &[&str]) -> Vec<Reason> {
        let words: Vec<String> = words.iter().map(|&w| w.to_owned()).collect();
        look_at(&words, Launcher::Torchrun, "command").into_iter().map(|finding| finding.reason).collect()
    }

    #[test]
    fn the_patched_backend_is_found_in_every_way_of_writing_it() {
        for words in [
            &["torchrun", "--rdzv_backend=dlrover-master", "train.py"][..],
            &["torchrun", "--rdzv-backend", "dlrover-master", "train.py"],
            &["/bin/bash", "-c", "torchrun --nnodes=2 --rdzv_backend='dlrover-master' train.py"],
            &["/bin/bash", "-c", "torchrun --rdzv_backend dlrover-master train.py"],
        ] {
            assert_eq!(reasons(words), [Reason::BackendUnavailable], "{words:?}");
        }
        assert_eq!(reasons(&["torchrun", "--rdzv_backend=c10d", "train.py"]), []);
    }

    #[test]
    fn options_that_switch_off_what_flexor_sets_are_named() {
        assert_eq!(reasons(&["torchrun", "--max_restarts=3", "--rdzv-conf", "x=1"]), [Reason::CommandOverrides; 2]);
    }
}
