//! What `flexor run` prints where nobody watches a screen: a line for everything that happens.

use std::collections::BTreeMap;
use std::time::Duration;

use flexor_engine::controller::PodPhase;
use flexor_local::cluster::Cluster;

use crate::output;

/// What was told so far.
#[derive(Default)]
pub struct Progress {
    events: usize,
    last_event: Option<Duration>,
    pods: BTreeMap<String, PodPhase>,
}

impl Progress {
    /// Tells what is new.
    pub fn tell(&mut self, cluster: &Cluster) -> anyhow::Result<()> {
        let mut lines = String::new();
        let events = cluster.events();
        let fresh = events.iter().filter(|event| self.last_event.is_none_or(|last| event.at > last));
        for event in fresh {
            let of = event.pod.clone().unwrap_or_else(|| event.job.to_string());
            lines.push_str(&format!("{of}: {}\n", event.because));
        }
        self.last_event = events.last().map(|event| event.at).or(self.last_event);
        self.events = events.len();
        let pods = cluster.pods();
        for pod in &pods {
            let before = self.pods.insert(pod.uid.clone(), pod.phase);
            // How a pod ends that is taken away says nothing.
            let tells = !pod.deleting && (before.is_some() || pod.phase != PodPhase::Pending);
            if before != Some(pod.phase) && tells {
                lines.push_str(&format!("{}: {:?}\n", pod.name, pod.phase));
            }
        }
        if lines.is_empty() { Ok(()) } else { output::text(&lines) }
    }

    /// How it ended.
    pub fn summary(&self, cluster: &Cluster) -> anyhow::Result<()> {
        for job in cluster.jobs() {
            let because = job.status.because.map(|because| format!(": {because}")).unwrap_or_default();
            let relaunches: u32 =
                job.status.roles.values().flat_map(|role| role.seats.values()).map(|seat| seat.relaunches).sum();
            output::text(&format!("{}: {:?}{because}; pods started again: {relaunches}\n", job.key, job.status.phase))?;
        }
        Ok(())
    }
}
