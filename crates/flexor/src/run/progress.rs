//! The plain lines of `flexor run`: one line per event and per change of a pod's phase, with the seconds since the start.

use std::collections::BTreeMap;

use flexor_engine::controller::PodPhase;
use flexor_local::cluster::{Cluster, ClusterView};
use flexor_model::UnixTime;

use super::history::History;
use crate::output::{self, on_one_line};

#[derive(Default)]
pub struct ProgressLines {
    /// The last printed phase of each pod, by UID.
    pods: BTreeMap<String, PodPhase>,
}

impl ProgressLines {
    /// Prints the events of the last update, and changed phases.
    pub fn print(&mut self, cluster: &Cluster, history: &History, now: UnixTime) -> anyhow::Result<()> {
        let mut lines = String::new();
        for event in history.fresh() {
            let of = event.pod.clone().unwrap_or_else(|| event.job.to_string());
            lines.push_str(&line(history.began_at, event.at, &of, &event.cause.to_string()));
        }
        let changed = cluster.read(|all| self.changed(all));
        for (pod, phase) in changed {
            lines.push_str(&line(history.began_at, now, &pod, &format!("{phase:?}")));
        }
        if lines.is_empty() { Ok(()) } else { output::text(&lines) }
    }

    /// Names and phases of pods whose phase has changed.
    fn changed(&mut self, all: &ClusterView<'_>) -> Vec<(String, PodPhase)> {
        let mut changed = Vec::new();
        for (uid, pod) in all.pods {
            let phase = pod.phase();
            let before = self.pods.get(uid).copied();
            if before == Some(phase) {
                continue;
            }
            self.pods.insert(uid.clone(), phase);
            // The end of a deleted pod says nothing about its program, and new pods have an event.
            if !pod.is_deleting() && (before.is_some() || phase != PodPhase::Pending) {
                changed.push((pod.meta.desired.name.clone(), phase));
            }
        }
        if self.pods.len() > all.pods.len() {
            self.pods.retain(|uid, _| all.pods.contains_key(uid));
        }
        changed.sort_by(|a, b| a.0.cmp(&b.0));
        changed
    }
}

fn line(began_at: UnixTime, at: UnixTime, object: &str, text: &str) -> String {
    let seconds = at.saturating_sub(began_at).as_secs_f64();
    format!("{seconds:>5.1}s  {object}: {}\n", on_one_line(text))
}
