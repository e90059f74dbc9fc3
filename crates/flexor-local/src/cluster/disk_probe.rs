//! Probes the disk under the state directory. A pod's supervisor on a full disk cannot write that its program has ended, so
//! the cluster would not learn of the disk from its pods.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

use flexor_engine::Cause;
use flexor_model::Reason;

use super::{Cluster, JobKey, PodRecord, State, now};
use crate::pods::status::ContainerState;
use crate::proc;
use crate::state_dir::StateDir;

const PROBE_EVERY: Duration = Duration::from_secs(1);
/// As much as the status of a large pod.
const PROBE_BYTES: usize = 16 << 10;

impl Cluster {
    /// Tells the running jobs when the disk is full and when it has room again. Never ends.
    pub(super) async fn watch_disk(&self) {
        loop {
            tokio::time::sleep(PROBE_EVERY).await;
            self.probe_disk();
        }
    }

    fn probe_disk(&self) {
        let state_dir = &self.0.options.state_dir;
        let full = probe(state_dir).err().filter(is_full);
        let mut state = self.lock();
        match (full, state.full_since) {
            (Some(error), None) => {
                state.full_since = Some(now());
                let detail = format!("{}: {error}; decisions wait", state_dir.path().display());
                state.tell_running_jobs(&Cause::new(Reason::StateDirectoryFull, detail));
            }
            (None, Some(_)) => {
                state.full_since = None;
                let detail = "the state directory can be written again";
                state.tell_running_jobs(&Cause::new(Reason::StateDirectoryWritable, detail));
            }
            (Some(_), Some(_)) => state.update_timelines(),
            (None, None) => return,
        }
        drop(state);
        self.publish();
    }
}

impl State {
    fn tell_running_jobs(&mut self, cause: &Cause) {
        let running = self.jobs.values().filter(|job| !job.status.phase.is_over());
        let keys: Vec<JobKey> = running.map(|job| job.key.clone()).collect();
        keys.iter().for_each(|key| self.record_event(key, None, cause.clone()));
        self.update_timelines();
    }

    fn update_timelines(&mut self) {
        let keys: Vec<JobKey> = self.jobs.keys().cloned().collect();
        for key in keys {
            let pods = self.observed_pods(&key);
            self.update_timeline(&key, &pods);
        }
    }

    /// Whether a program of the job has ended and its supervisor could not write that.
    pub(super) fn has_unreported_end(&self, key: &JobKey) -> bool {
        self.pods.values().any(|pod| pod.meta.job == *key && pod.has_unreported_end())
    }
}

impl PodRecord {
    fn has_unreported_end(&self) -> bool {
        let containers = self.status.iter().flat_map(|status| &status.containers);
        containers.filter(|container| container.name == self.meta.main).any(|container| match container.state {
            ContainerState::Running { pid, .. } => !proc::is_running(pid),
            ContainerState::Waiting(_) | ContainerState::Terminated { .. } => false,
        })
    }
}

fn probe(state_dir: &StateDir) -> io::Result<()> {
    state_dir.write_faults().check()?;
    let file = state_dir.path().join("probe");
    let opened = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&file);
    let written = opened.and_then(|mut opened| opened.write_all(&[0; PROBE_BYTES]));
    // It is written again in a moment.
    let _ = fs::remove_file(&file);
    written
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
