//! From what was seen to the kind of end.
//!
//! Who ended the node matters more than how the program answered: a launcher that is told to stop exits with 1, a
//! program may exit with 0. So what happened to the pod is asked first, the program last, and an exit code decides only
//! where nothing else explains the end.

use super::{Deletion, Exit, ExitKind, ObservedExit, ProgramExit, Verdict};

/// How much of a root cause is repeated in the words about an end.
const LONGEST_ERROR: usize = 400;

/// The kind of end that was seen.
pub fn classify(observed: &ObservedExit) -> Exit {
    let (kind, what) = on_purpose(observed)
        .or_else(|| of_the_infrastructure(observed))
        .or_else(|| of_the_masters_verdict(observed))
        .or_else(|| of_the_program(observed))
        .unwrap_or((ExitKind::Deleted, "the pod is gone and nobody saw how it ended".to_owned()));
    let program_is_to_blame =
        matches!(kind, ExitKind::ProgramError | ExitKind::ProgramRefused | ExitKind::Hardware | ExitKind::OutOfMemory)
            || kind == ExitKind::CannotRun;
    // Whoever takes a place says for whom; it is no word of the program then.
    let is_explained = program_is_to_blame || kind == ExitKind::Preempted;
    let detail = match &observed.error {
        Some(error) if is_explained => format!("{what}; {}", first_words(error)),
        Some(_) | None => what,
    };
    Exit { kind, detail }
}

/// The controller took it away, and not because anything was wrong with it.
fn on_purpose(observed: &ObservedExit) -> Option<(ExitKind, String)> {
    let ours = observed.deletion == Some(Deletion::Ours) && observed.verdict.is_none();
    ours.then(|| (ExitKind::Removed, "the controller took it away".to_owned()))
}

/// The cluster or a person ended it. This comes before everything that costs a retry.
fn of_the_infrastructure(observed: &ObservedExit) -> Option<(ExitKind, String)> {
    let of_pod = observed.pod_reason.as_deref().and_then(|word| Some((lost_by_pod_reason(word)?, word)));
    let of_disruption = observed.disruption.as_deref().map(|word| (lost_by_disruption(word), word));
    // The pod's own word is the more exact one where there are both.
    if let Some((kind, word)) = of_pod.or(of_disruption) {
        return Some((kind, format!("the cluster says {word}")));
    }
    match observed.deletion? {
        Deletion::Others => Some((ExitKind::Deleted, "somebody deleted its pod".to_owned())),
        Deletion::Ours => None,
    }
}

/// What kubelets and the node controller write into a pod's status.
fn lost_by_pod_reason(word: &str) -> Option<ExitKind> {
    match word {
        "Preempting" | "Preempted" => Some(ExitKind::Preempted),
        "Evicted" => Some(ExitKind::Evicted),
        "NodeLost" | "NodeShutdown" | "Shutdown" | "Terminated" => Some(ExitKind::MachineLost),
        "SidecarKilled" => Some(ExitKind::Killed),
        "NodeAffinity" | "UnexpectedAdmissionError" => Some(ExitKind::Rejected),
        word if word.starts_with("OutOf") => Some(ExitKind::Rejected),
        _ => None,
    }
}

/// What the condition `DisruptionTarget` names. It always means that the cluster ended the pod, whatever the word.
fn lost_by_disruption(word: &str) -> ExitKind {
    match word {
        "PreemptionByScheduler" => ExitKind::Preempted,
        "DeletionByTaintManager" | "DeletionByPodGC" => ExitKind::MachineLost,
        _ => ExitKind::Evicted,
    }
}

/// The master found something wrong with it: how the program answered to being ended says nothing.
fn of_the_masters_verdict(observed: &ObservedExit) -> Option<(ExitKind, String)> {
    let (kind, what) = match observed.verdict? {
        Verdict::Hung => (ExitKind::Hung, "it lives but makes no progress, says the master"),
        Verdict::Unreachable => (ExitKind::MachineLost, "nothing is heard of it, says the master"),
        Verdict::Slow => (ExitKind::Slow, "it holds the others up, says the master"),
        Verdict::CheckFailed => (ExitKind::CheckFailed, "its machine did not pass the check, says the master"),
    };
    Some((kind, what.to_owned()))
}

/// Nobody ended it: it ended, or was killed by someone who leaves no word.
fn of_the_program(observed: &ObservedExit) -> Option<(ExitKind, String)> {
    if observed.pod_reason.as_deref() == Some("DeadlineExceeded") {
        let what = "the pod ran longer than activeDeadlineSeconds of its template";
        return Some((ExitKind::DeadlineExceeded, what.to_owned()));
    }
    let container_reason = observed.container_reason.as_deref();
    let Some(exit) = observed.exit else {
        return match container_reason? {
            "CreateContainerError" => Some((ExitKind::CannotRun, "its container cannot be made".to_owned())),
            "OOMKilled" => Some((ExitKind::OutOfMemory, "its container was killed for its memory".to_owned())),
            word => Some((ExitKind::ProgramError, format!("its container did not run: {word}"))),
        };
    };
    let how = match exit {
        ProgramExit::Code(code) => format!("exit code {code}"),
        ProgramExit::Signal(signal) => format!("signal {signal}"),
    };
    let kind = match (exit.code(), container_reason) {
        (_, Some("OOMKilled")) | (247, _) => ExitKind::OutOfMemory,
        (0, _) => ExitKind::Succeeded,
        (137 | 143, _) => ExitKind::Killed,
        (14 | 201 | 202, _) => ExitKind::Hardware,
        // EX_CONFIG of sysexits.h.
        (78, _) => ExitKind::ProgramRefused,
        (_, _) => ExitKind::ProgramError,
    };
    let said = container_reason.filter(|word| !matches!(*word, "Error" | "Completed"));
    Some((kind, said.map_or(how.clone(), |word| format!("{how}, {word}"))))
}

/// The beginning of a message from outside, on one line.
pub(crate) fn first_words(message: &str) -> String {
    let mut words = message.split_whitespace().collect::<Vec<_>>().join(" ");
    words.retain(|c| !c.is_control());
    if let Some((end, _)) = words.char_indices().nth(LONGEST_ERROR) {
        words.truncate(end);
        words.push('…');
    }
    words
}
