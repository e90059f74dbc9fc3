//! What the fake nodes do to pods, and the pod annotations that steer it.
//!
//! Without an annotation a pod that reaches a node runs at once, runs for ever and is gone as soon as it is deleted.
//! Times are written as `1500ms`, `2s` or `1m`; one that cannot be read counts as zero.
//!
//! | annotation `testbed.flexor.dev/…` | what happens |
//! |---|---|
//! | `start-after` | Pending with `ContainerCreating` for this long, then Running |
//! | `complete-after` | this long after its start all containers exit with 0; phase Succeeded |
//! | `fail-after` | … all containers exit with `exit-code` (default 1); phase Failed, or restarted in place if the restart policy requires it |
//! | `oom-after` | … the kernel kills all containers: exit code 137, reason `OOMKilled`; phase Failed or restarted as above |
//! | `evict-after` | … the kubelet evicts the pod: phase Failed, reason `Evicted`, condition `DisruptionTarget` |
//! | `stop-after` | a deleted pod takes this long to end, at most its grace time |
//! | `stop-exit-code` | the exit code of a pod that ends because it was deleted (default 143; 0 is Succeeded) |
//!
//! A pod needs one ending at most; of several the first in the table counts. A change to the pod while a time runs may
//! lengthen it by up to a second, because Kubernetes keeps start times in whole seconds.
//!
//! The stages themselves are the YAML files in `stages/`, in the language of kwok. [`PodTimes`] stand in for
//! `start-after` and `stop-after` on pods that have no annotations, because their controller gives them none.

use std::time::Duration;

use serde_json::{Map, Value};

/// Pending with `ContainerCreating` for this long before Running.
pub const START_AFTER: &str = "testbed.flexor.dev/start-after";
/// Succeeded this long after the start.
pub const COMPLETE_AFTER: &str = "testbed.flexor.dev/complete-after";
/// Failed with [`EXIT_CODE`] this long after the start.
pub const FAIL_AFTER: &str = "testbed.flexor.dev/fail-after";
/// The exit code of a pod with [`FAIL_AFTER`].
pub const EXIT_CODE: &str = "testbed.flexor.dev/exit-code";
/// Killed for its memory this long after the start.
pub const OOM_AFTER: &str = "testbed.flexor.dev/oom-after";
/// Evicted by its kubelet this long after the start.
pub const EVICT_AFTER: &str = "testbed.flexor.dev/evict-after";
/// A deleted pod takes this long to end.
pub const STOP_AFTER: &str = "testbed.flexor.dev/stop-after";
/// The exit code of a pod that ends because it was deleted.
pub const STOP_EXIT_CODE: &str = "testbed.flexor.dev/stop-exit-code";

/// What stands for `@pods.jq@` in the stages: jq functions that read a pod.
///
/// `after` gives the annotation's time, less what has passed since `$since` when kwok looks at a pod again because
/// something changed it. `$since` is known to a whole second only, hence the one second of tolerance. `ending` names
/// the annotation by which the pod will end.
const POD_FUNCTIONS: &str = include_str!("../stages/pods.jq");

const STAGES: &[&str] = &[
    include_str!("../stages/node-ready.yaml"),
    include_str!("../stages/node-heartbeat.yaml"),
    include_str!("../stages/pod-create.yaml"),
    include_str!("../stages/pod-start.yaml"),
    include_str!("../stages/pod-end.yaml"),
    include_str!("../stages/pod-restart.yaml"),
    include_str!("../stages/pod-stop.yaml"),
    include_str!("../stages/pod-remove.yaml"),
];

/// How long pods without annotations of their own take to start and to end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PodTimes {
    /// The default of [`START_AFTER`].
    pub start: Option<Duration>,
    /// The default of [`STOP_AFTER`].
    pub stop: Option<Duration>,
}

impl PodTimes {
    /// As an object that [`POD_FUNCTIONS`] look into.
    fn to_json(self) -> Value {
        let times = [(START_AFTER, self.start), (STOP_AFTER, self.stop)].into_iter();
        let given = times.filter_map(|(annotation, time)| {
            let (_, name) = annotation.split_once('/')?;
            Some((name.to_owned(), format!("{}ms", time?.as_millis()).into()))
        });
        Value::Object(given.collect::<Map<_, _>>())
    }
}

/// All stages as one file for kwok's `--config`.
pub(crate) fn manifest(times: PodTimes) -> String {
    // On one line the functions fit into any kind of YAML string.
    let functions = POD_FUNCTIONS.split_whitespace().collect::<Vec<_>>().join(" ");
    let functions = functions.replace("@defaults@", &times.to_json().to_string());
    STAGES.join("---\n").replace("@pods.jq@", &functions)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANNOTATIONS: [&str; 8] =
        [START_AFTER, COMPLETE_AFTER, FAIL_AFTER, EXIT_CODE, OOM_AFTER, EVICT_AFTER, STOP_AFTER, STOP_EXIT_CODE];

    #[test]
    fn every_annotation_is_read_by_a_stage() {
        for annotation in ANNOTATIONS {
            let short = annotation.trim_start_matches("testbed.flexor.dev/");
            let manifest = manifest(PodTimes::default());
            assert!(manifest.contains(annotation) || manifest.contains(&format!("\"{short}\"")), "{annotation}");
        }
    }

    #[test]
    fn no_stage_reads_an_annotation_without_a_name_here() {
        for used in STAGES.concat().split("testbed.flexor.dev/").skip(1) {
            let short = used.split('"').next().unwrap();
            assert!(ANNOTATIONS.contains(&format!("testbed.flexor.dev/{short}").as_str()), "{short}");
        }
    }

    #[test]
    fn times_are_written_as_the_stages_read_them() {
        assert_eq!(PodTimes::default().to_json().to_string(), "{}");
        let times = PodTimes { start: Some(Duration::from_millis(1500)), stop: None };
        assert_eq!(times.to_json().to_string(), r#"{"start-after":"1500ms"}"#);
        assert!(manifest(times).contains(r#"({"start-after":"1500ms"} | .[$name])"#));
    }

    #[test]
    fn no_placeholder_is_left() {
        let manifest = manifest(PodTimes::default());
        assert!(!manifest.contains("@pods") && !manifest.contains("@defaults"));
        assert!(!POD_FUNCTIONS.contains(['\'', '#']), "would break a quoted string or a line");
    }
}
