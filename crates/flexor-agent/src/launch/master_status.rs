//! What a node knows of the master and its job, whatever the node's own state: for its first decision, and for log lines
//! about what it waits for.

use flexor_wire::master::v1 as wire;

use super::limits::Limits;

/// What a node knows of the master.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct MasterStatus {
    /// Why there is no session; none while there is one.
    pub(super) unavailable: Option<String>,
    /// The job, as the master last described it.
    pub(super) job: Option<JobStatus>,
}

/// What a node knows of the job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct JobStatus {
    pub(super) limits: Limits,
    /// How often the program has failed, as the master counts it.
    pub(super) program_failures: u32,
    /// The processes of its world survive changes.
    pub(super) survives_changes: bool,
    /// What the rendezvous waits for, or that a world is running.
    rendezvous: String,
}

impl MasterStatus {
    /// Applies a message of the master.
    pub(super) fn update(&mut self, world: &wire::World) {
        // Only answers to a poll carry the text; notifications leave it empty.
        let before = self.job.take().map(|job| job.rendezvous).unwrap_or_default();
        let rendezvous = if world.status.is_empty() { before } else { world.status.clone() };
        self.unavailable = None;
        self.job = Some(JobStatus {
            limits: Limits::of(world),
            program_failures: world.program_failures,
            survives_changes: world.processes_survive,
            rendezvous,
        });
    }

    /// What a node that is in no world waits for, as text.
    pub(super) fn describe_wait(&self, address: &str) -> String {
        match (&self.unavailable, &self.job) {
            (Some(cause), _) => format!("the master: {cause}"),
            (None, None) => format!("the master at {address}"),
            (None, Some(JobStatus { rendezvous, .. })) if rendezvous.is_empty() => {
                format!("other nodes at the master at {address}")
            }
            (None, Some(JobStatus { rendezvous, .. })) => {
                format!("other nodes at the master at {address}: {rendezvous}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_described_with_the_latest_that_is_known() {
        let mut status = MasterStatus::default();
        assert_eq!(status.describe_wait("m:1"), "the master at m:1");
        status.unavailable = Some("it is asleep".to_owned());
        assert_eq!(status.describe_wait("m:1"), "the master: it is asleep");
        let mut world = wire::World { status: "1 of 2 nodes are here".to_owned(), ..wire::World::default() };
        status.update(&world);
        assert_eq!(status.describe_wait("m:1"), "other nodes at the master at m:1: 1 of 2 nodes are here");
        world.status.clear();
        status.update(&world);
        assert!(status.describe_wait("m:1").ends_with("1 of 2 nodes are here"), "notifications do not repeat it");
    }
}
