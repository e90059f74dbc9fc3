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

/// The rendezvous of DLRover's v0.1, as a shell or a kubelet expands it.
const SIDECARS_OF_DLROVER: [&str; 3] = ["$RDZV_ENDPOINT:2222", "${RDZV_ENDPOINT}:2222", "$(RDZV_ENDPOINT):2222"];

/// Warnings about one list of words, which may be a command line or a script given to a shell.
pub(crate) fn look_at(words: &[&str], launcher: Launcher, field: &str) -> Vec<Finding> {
    // A script given to `sh -c` is one word with many in it.
    let tokens: Vec<(usize, &str)> =
        words.iter().enumerate().flat_map(|(i, word)| word.split_whitespace().map(move |token| (i, token))).collect();
    let mut findings = Vec::new();
    for (at, &(index, token)) in tokens.iter().enumerate() {
        let Some((written, value)) = option(token) else { continue };
        let value = value.or_else(|| tokens.get(at + 1).map(|(_, next)| *next)).unwrap_or_default();
        findings.extend(hint(written, value.trim_matches(['"', '\'']), launcher, format!("{field}[{index}]")));
    }
    findings
}

fn hint(written: &str, value: &str, launcher: Launcher, field: String) -> Option<Finding> {
    // torchrun takes `_` and `-` alike.
    let name = written.replace('_', "-");
    if name == "--rdzv-backend" && value == "dlrover-master" {
        let message = "the rendezvous backend dlrover-master exists only in images patched by DLRover";
        let help = match launcher {
            Launcher::Torchrun => {
                "write --rdzv_backend=c10d; Flexor sets the endpoint and the id in PET_RDZV_ENDPOINT and PET_RDZV_ID"
            }
            Launcher::Any => "write --rdzv_backend=c10d, and distributionStrategy: AllreduceStrategy in the job",
        };
        return Some(Finding::new(Reason::BackendUnavailable, field, message).help(help));
    }
    if launcher != Launcher::Torchrun {
        return None;
    }
    let (consequence, help) = match name.as_str() {
        "--rdzv-endpoint" if SIDECARS_OF_DLROVER.contains(&value) => (
            "works only in a DLRover job on a cluster, where the pod's sidecar listens there",
            "leave it out: Flexor sets PET_RDZV_ENDPOINT",
        ),
        "--rdzv-endpoint" => {
            ("leads the workers past the rendezvous that Flexor sets", "leave it out: Flexor sets PET_RDZV_ENDPOINT")
        }
        "--rdzv-id" => ("keeps the workers from meeting at the job's own id", "leave it out: Flexor sets PET_RDZV_ID"),
        "--nnodes" if !value.contains(':') => {
            ("fixes the number of nodes, so the job is not elastic", "leave it out: Flexor sets PET_NNODES to MIN:MAX")
        }
        "--rdzv-conf" => ("replaces the settings that Flexor makes for the rendezvous", "leave it out"),
        "--max-restarts" => (
            "replaces the number that Flexor sets, so lost nodes use it up",
            "leave it out: Flexor counts failures of the program itself",
        ),
        _ => return None,
    };
    let message = format!("{written} on the command line {consequence}");
    Some(Finding::new(Reason::CommandOverrides, field, message).help(help))
}

/// `--rdzv_backend=c10d` as (`--rdzv_backend`, `c10d`).
fn option(word: &str) -> Option<(&str, Option<&str>)> {
    if !word.starts_with("--") {
        return None;
    }
    Some(word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reasons(words: &[&str]) -> Vec<Reason> {
        look_at(words, Launcher::Torchrun, "command").into_iter().map(|finding| finding.reason).collect()
    }

    #[test]
    fn the_patched_backend_is_found_in_every_way_of_writing_it() {
        for words in [
            &["torchrun", "--rdzv_backend=dlrover-master", "train.py"][..],
            &["torchrun", "--rdzv-backend", "dlrover-master", "train.py"],
            &["/bin/bash", "-c", "torchrun --nnodes=1:2 --rdzv_backend='dlrover-master' train.py"],
            &["/bin/bash", "-c", "torchrun --rdzv_backend dlrover-master train.py"],
        ] {
            assert_eq!(reasons(words), [Reason::BackendUnavailable], "{words:?}");
        }
        assert_eq!(reasons(&["torchrun", "--rdzv_backend=c10d", "train.py"]), []);
    }

    #[test]
    fn options_that_switch_off_what_flexor_sets_are_named() {
        assert_eq!(reasons(&["torchrun", "--max_restarts=3", "--rdzv-conf", "x=1"]), [Reason::CommandOverrides; 2]);
        assert_eq!(reasons(&["torchrun", "--nnodes=2", "--rdzv_id=5"]), [Reason::CommandOverrides; 2]);
        assert_eq!(reasons(&["torchrun", "--nnodes=1:$WORKER_NUM", "--nproc_per_node=1"]), []);
    }

    #[test]
    fn the_sidecar_of_a_dlrover_job_is_no_way_past_the_rendezvous() {
        let said = |endpoint: &str| {
            let words = ["bash", "-c", &format!("torchrun --rdzv_endpoint={endpoint} train.py")];
            look_at(&words, Launcher::Torchrun, "command").remove(0).message
        };
        for endpoint in ["$RDZV_ENDPOINT:2222", "\"${RDZV_ENDPOINT}:2222\"", "$(RDZV_ENDPOINT):2222"] {
            assert!(said(endpoint).contains("works only in a DLRover job on a cluster"), "{endpoint}");
        }
        for endpoint in ["$RDZV_ENDPOINT:29500", "$HOST:2222", "10.0.0.1:2222"] {
            assert!(said(endpoint).contains("leads the workers past the rendezvous"), "{endpoint}");
        }
    }
}
