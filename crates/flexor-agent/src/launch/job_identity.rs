//! Which job a node belongs to: the one that `--rdzv-id` names, or else the first job that it reached.
//!
//! Addresses are reused. A launcher whose master is gone must not take part in another job that is served at the same
//! address later.

use flexor_wire::master::v1 as wire;

/// The job of a node.
#[derive(Debug)]
pub(super) struct JobIdentity {
    /// The value of `--rdzv-id`.
    requested: Option<String>,
    /// Name and uid of the job, once the node has reached it.
    known: Option<(String, String)>,
}

/// Why a master's job is not the node's job.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WrongJob {
    /// It is not the job that `--rdzv-id` names.
    NotRequested(String),
    /// It is not the job that the node reached before.
    Changed(String),
}

impl JobIdentity {
    /// The job with this name or uid; any job where none is requested.
    pub(super) fn new(requested: Option<String>) -> Self {
        Self { requested, known: None }
    }

    pub(super) fn is_known(&self) -> bool {
        self.known.is_some()
    }

    /// Checks the job that a master serves. The first accepted job becomes the node's job.
    pub(super) fn check(&mut self, world: &wire::World, address: &str) -> Result<(), WrongJob> {
        let (name, uid) = (&world.job, &world.job_uid);
        match (&self.known, &self.requested) {
            (Some((known, known_uid)), _) if (known, known_uid) == (name, uid) => Ok(()),
            (Some((known, _)), _) => {
                Err(WrongJob::Changed(format!("the master at {address} serves another job ({name}, not {known})")))
            }
            (None, Some(requested)) if requested != name && requested != uid => {
                let also = if uid == name { String::new() } else { format!(" (uid {uid})") };
                Err(WrongJob::NotRequested(format!(
                    "--rdzv-id is {requested}, but the master at {address} serves the job {name}{also}; give its name, or \
                     the address of another master"
                )))
            }
            (None, _) => {
                self.known = Some((name.clone(), uid.clone()));
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(name: &str, uid: &str) -> wire::World {
        wire::World { job: name.to_owned(), job_uid: uid.to_owned(), ..wire::World::default() }
    }

    #[test]
    fn a_job_is_known_by_its_name_and_by_its_uid() {
        for requested in [None, Some("digits"), Some("u-1")] {
            let mut identity = JobIdentity::new(requested.map(str::to_owned));
            assert_eq!(identity.check(&job("digits", "u-1"), "m:1"), Ok(()));
        }
        let refused = JobIdentity::new(Some("other".to_owned())).check(&job("digits", "u-1"), "m:1");
        let Err(WrongJob::NotRequested(message)) = refused else { panic!("{refused:?}") };
        assert!(message.contains("--rdzv-id is other") && message.contains("digits (uid u-1)"), "{message}");
    }

    #[test]
    fn a_node_that_has_reached_its_job_accepts_no_other() {
        let mut identity = JobIdentity::new(None);
        for _ in 0..2 {
            assert_eq!(identity.check(&job("digits", "u-1"), "m:1"), Ok(()));
        }
        for other in [job("letters", "u-2"), job("digits", "u-2")] {
            assert!(matches!(identity.check(&other, "m:1"), Err(WrongJob::Changed(_))), "{other:?}");
        }
    }
}
