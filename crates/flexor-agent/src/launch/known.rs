//! What is known of the master and its job, wherever the node stands: to begin with, and to tell people what is waited
//! for.

use flexor_wire::master::v1 as wire;

use super::limits::Limits;

/// What is known of the master.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Known {
    /// Why there is no session with it; nothing while there is one.
    pub(super) away: Option<String>,
    /// What it last said of its job.
    pub(super) job: Option<KnownJob>,
}

/// What is known of the job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KnownJob {
    pub(super) limits: Limits,
    /// How often the program has failed, as the master counts it.
    pub(super) program_failures: u32,
    /// Processes of its world outlive changes.
    pub(super) outlives: bool,
    /// What is waited for, or that a world stands.
    standing: String,
}

impl Known {
    /// Takes in what the master says.
    pub(super) fn hear(&mut self, world: &wire::World) {
        // It is told only to those who ask.
        let before = self.job.take().map(|job| job.standing).unwrap_or_default();
        let standing = if world.status.is_empty() { before } else { world.status.clone() };
        self.away = None;
        self.job = Some(KnownJob {
            limits: Limits::of(world),
            program_failures: world.program_failures,
            outlives: world.processes_survive,
            standing,
        });
    }

    /// What a node waits for that is in no world, in words.
    pub(super) fn waits_for(&self, address: &str) -> String {
        match (&self.away, &self.job) {
            (Some(because), _) => format!("the master: {because}"),
            (None, None) => format!("the master at {address}"),
            (None, Some(KnownJob { standing, .. })) if standing.is_empty() => {
                format!("other nodes at the master at {address}")
            }
            (None, Some(KnownJob { standing, .. })) => format!("other nodes at the master at {address}: {standing}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_waited_for_is_told_with_the_last_that_is_known() {
        let mut known = Known::default();
        assert_eq!(known.waits_for("m:1"), "the master at m:1");
        known.away = Some("it is asleep".to_owned());
        assert_eq!(known.waits_for("m:1"), "the master: it is asleep");
        let mut world = wire::World { status: "1 of 2 nodes are here".to_owned(), ..wire::World::default() };
        known.hear(&world);
        assert_eq!(known.waits_for("m:1"), "other nodes at the master at m:1: 1 of 2 nodes are here");
        world.status.clear();
        known.hear(&world);
        assert!(known.waits_for("m:1").ends_with("1 of 2 nodes are here"), "news do not say it again");
    }
}
