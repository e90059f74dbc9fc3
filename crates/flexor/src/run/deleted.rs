//! Jobs that were deleted during `flexor run` before they had succeeded. They no longer exist in the cluster, so events
//! are the only trace of them.

use std::collections::BTreeSet;

use flexor_local::cluster::{Cluster, ClusterEvent, JobKey};
use flexor_model::Reason;

/// The jobs of this run that were deleted before they had succeeded, and were not created again.
pub fn unfinished(own: &[JobKey], events: &[ClusterEvent], cluster: &Cluster) -> Vec<JobKey> {
    let known: BTreeSet<JobKey> = cluster.jobs().into_iter().map(|job| job.key).collect();
    deleted_jobs(events).into_iter().filter(|key| own.contains(key) && !known.contains(key)).collect()
}

fn deleted_jobs(events: &[ClusterEvent]) -> BTreeSet<JobKey> {
    let mut succeeded = BTreeSet::new();
    let mut deleted = BTreeSet::new();
    for event in events.iter().filter(|event| event.pod.is_none()) {
        let key = &event.job;
        match event.cause.reason {
            Reason::JobCreated => {
                succeeded.remove(key);
                deleted.remove(key);
            }
            Reason::JobSucceeded => {
                succeeded.insert(key.clone());
            }
            Reason::JobDeleted if !succeeded.contains(key) => {
                deleted.insert(key.clone());
            }
            _ => {}
        }
    }
    deleted
}

#[cfg(test)]
mod tests {
    use flexor_engine::Cause;

    use super::*;

    fn key(name: &str) -> JobKey {
        JobKey { namespace: "default".parse().unwrap(), name: name.parse().unwrap() }
    }

    fn event(job: &str, reason: Reason) -> ClusterEvent {
        let cause = Cause::new(reason, "");
        ClusterEvent { number: 1, at: flexor_model::UnixTime::EPOCH, job: key(job), pod: None, cause }
    }

    #[test]
    fn only_unfinished_jobs_count() {
        use Reason::{JobCreated, JobDeleted, JobSucceeded};
        let events = [
            event("cut", JobCreated),
            event("cut", JobDeleted),
            event("done", JobSucceeded),
            event("done", JobDeleted),
            event("back", JobDeleted),
            event("back", JobCreated),
        ];
        assert_eq!(deleted_jobs(&events).into_iter().collect::<Vec<_>>(), [key("cut")]);
    }
}
