//! Jobs that somebody deleted while `flexor run` followed them: they are not there any more to say that they have not
//! succeeded.

use std::collections::BTreeSet;

use flexor_local::cluster::{Cluster, ClusterEvent, JobKey};
use flexor_model::Reason;

/// Those of some jobs that were deleted before they had succeeded, and have not come again.
pub fn unfinished(own: &[JobKey], events: &[ClusterEvent], cluster: &Cluster) -> Vec<JobKey> {
    let known: BTreeSet<JobKey> = cluster.jobs().into_iter().map(|job| job.key).collect();
    among(events).into_iter().filter(|key| own.contains(key) && !known.contains(key)).collect()
}

fn among(events: &[ClusterEvent]) -> BTreeSet<JobKey> {
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
    fn only_those_that_had_work_left_count() {
        use Reason::{JobCreated, JobDeleted, JobSucceeded};
        let events = [
            event("cut", JobCreated),
            event("cut", JobDeleted),
            event("done", JobSucceeded),
            event("done", JobDeleted),
            event("back", JobDeleted),
            event("back", JobCreated),
        ];
        assert_eq!(among(&events).into_iter().collect::<Vec<_>>(), [key("cut")]);
    }
}
