//! From what was observed to the kind of exit.
//!
//! What ended the pod matters more than how the program answered: a launcher that gets SIGTERM exits with 1, a program may
//! exit with 0. So the pod is looked at first and the program last, and an exit code decides only if nothing else explains
//! the exit.

use flexor_model::is_usage_error;

use super::{Deletion, Exit, ExitKind, ObservedExit, ProgramExit};

/// How many characters of a root cause the description of an exit repeats.
const LONGEST_ERROR: usize = 400;

/// Classifies an exit.
pub fn classify(observed: &ObservedExit) -> Exit {
    let (kind, what) = on_purpose(observed)
        .or_else(|| of_the_infrastructure(observed))
        .or_else(|| of_the_program(observed))
        .unwrap_or((ExitKind::Deleted, "the pod is gone without a trace".to_owned()));
    let program_is_to_blame =
        matches!(kind, ExitKind::ProgramError | ExitKind::ProgramRefused | ExitKind::Hardware | ExitKind::OutOfMemory)
            || kind == ExitKind::CannotRun;
    // The error of a preempted pod names the pod that needed the room.
    let is_explained = program_is_to_blame || kind == ExitKind::Preempted;
    match &observed.error {
        Some(error) if is_explained => {
            Exit { kind, detail: format!("{what}; {}", first_words(error)), has_root_cause: true }
        }
        Some(_) | None => Exit { kind, detail: what, has_root_cause: false },
    }
}

/// The controller removed it.
fn on_purpose(observed: &ObservedExit) -> Option<(ExitKind, String)> {
    (observed.deletion == Some(Deletion::Ours)).then(|| (ExitKind::Removed, "the controller removed it".to_owned()))
}

/// The cluster or a person ended it. This is asked before anything that is charged.
fn of_the_infrastructure(observed: &ObservedExit) -> Option<(ExitKind, String)> {
    let of_pod = observed.pod_reason.as_deref().and_then(|word| Some((lost_by_pod_reason(word)?, word)));
    let of_disruption = observed.disruption.as_deref().map(|word| (lost_by_disruption(word), word));
    // The pod's reason is more exact than its condition.
    if let Some((kind, word)) = of_pod.or(of_disruption) {
        return Some((kind, format!("the cluster says {word}")));
    }
    match observed.deletion? {
        Deletion::Others => Some((ExitKind::Deleted, "its pod was deleted".to_owned())),
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

/// The reason of the condition `DisruptionTarget`. Whatever the reason, the cluster ended the pod.
fn lost_by_disruption(word: &str) -> ExitKind {
    match word {
        "PreemptionByScheduler" => ExitKind::Preempted,
        "DeletionByTaintManager" | "DeletionByPodGC" => ExitKind::MachineLost,
        _ => ExitKind::Evicted,
    }
}

/// The program ended by itself, or was killed by an unknown sender.
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
    let how = match (exit, fault(exit.code())) {
        (ProgramExit::Code(code), Some(fault)) => format!("exit code {code} ({fault})"),
        (ProgramExit::Code(code), None) => format!("exit code {code}"),
        (ProgramExit::Signal(signal), _) => format!("signal {signal}"),
    };
    let kind = match (exit.code(), container_reason) {
        (_, Some("OOMKilled")) | (247, _) => ExitKind::OutOfMemory,
        (0, _) => ExitKind::Succeeded,
        (137 | 143, _) => ExitKind::Killed,
        (14 | 201 | 202, _) => ExitKind::Hardware,
        // The program or its working folder is missing, or is not executable: so it is for every pod of the role.
        (126 | 127, Some("StartError")) => ExitKind::CannotRun,
        (_, Some("StartError" | "ContainerCannotRun")) if observed.error.as_deref().is_some_and(is_exec_error) => {
            ExitKind::CannotRun
        }
        // EX_CONFIG of sysexits.h; what a shell says of a command that it cannot execute or find.
        (78 | 126 | 127, _) => ExitKind::ProgramRefused,
        (2, _) if observed.error.as_deref().is_some_and(is_usage_error) => ExitKind::ProgramRefused,
        (_, _) => ExitKind::ProgramError,
    };
    let said = container_reason.filter(|word| !matches!(*word, "Error" | "Completed"));
    Some((kind, said.map_or(how.clone(), |word| format!("{how}, {word}"))))
}

/// The name of the signal that a fault of the program raises, for an exit code that a shell or runtime made of it.
fn fault(code: i32) -> Option<&'static str> {
    match code.checked_sub(128)? {
        4 => Some("SIGILL"),
        6 => Some("SIGABRT"),
        7 => Some("SIGBUS"),
        8 => Some("SIGFPE"),
        11 => Some("SIGSEGV"),
        31 => Some("SIGSYS"),
        _ => None,
    }
}

/// Whether a container runtime could not execute the program: it is missing, or not executable.
fn is_exec_error(message: &str) -> bool {
    message.contains("exec: \"")
}

/// Whether a message speaks of lost peers: the failure of another process of the job came before it.
pub(crate) fn is_consequence(message: &str) -> bool {
    const OF_LOST_PEERS: [&str; 10] = [
        "Connection closed by peer",
        "Connection reset by peer",
        "Connection refused",
        "Broken pipe",
        "DistNetworkError",
        "DistStoreError",
        "RendezvousClosedError",
        "RendezvousConnectionError",
        "remote process exited",
        "the run is closed",
    ];
    OF_LOST_PEERS.iter().any(|words| message.contains(words))
}

/// The beginning of a message from outside, on one line.
fn first_words(message: &str) -> String {
    let mut words = message.split_whitespace().collect::<Vec<_>>().join(" ");
    words.retain(|c| !c.is_control());
    if let Some((end, _)) = words.char_indices().nth(LONGEST_ERROR) {
        words.truncate(end);
        words.push('…');
    }
    words
}
