//! Which job a node belongs to: the one that it was told to take part in, or else the first that it met.
//!
//! Addresses are used again. A launcher whose master is gone must not take part in whatever job is served there next.

use flexor_wire::master::v1 as wire;

/// The job of a node.
#[derive(Debug)]
pub(super) struct Belonging {
    /// What `--rdzv-id` says.
    asked: Option<String>,
    /// Name and unique id of the job that it has met.
    met: Option<(String, String)>,
}

/// What is wrong with a master's job.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stranger {
    /// It is not the one that was asked for.
    NotAsked(String),
    /// It is not the one that the node has met before.
    Another(String),
}

impl Belonging {
    /// To the job of this name or unique id, or to any.
    pub(super) fn new(asked: Option<String>) -> Self {
        Self { asked, met: None }
    }

    /// Whether the node has met its job.
    pub(super) fn is_known(&self) -> bool {
        self.met.is_some()
    }

    /// Meets a master.
    pub(super) fn meet(&mut self, world: &wire::World, address: &str) -> Result<(), Stranger> {
        let (name, uid) = (&world.job, &world.job_uid);
        match (&self.met, &self.asked) {
            (Some((met, met_uid)), _) if (met, met_uid) == (name, uid) => Ok(()),
            (Some((met, _)), _) => {
                Err(Stranger::Another(format!("the master at {address} serves another job ({name}, not {met})")))
            }
            (None, Some(asked)) if asked != name && asked != uid => {
                let also = if uid == name { String::new() } else { format!(" (uid {uid})") };
                Err(Stranger::NotAsked(format!(
                    "--rdzv-id is {asked}, but the master at {address} serves the job {name}{also}; give its name, or \
                     the address of another master"
                )))
            }
            (None, _) => {
                self.met = Some((name.clone(), uid.clone()));
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
    fn a_job_is_known_by_its_name_and_by_its_unique_id() {
        for asked in [None, Some("digits"), Some("u-1")] {
            let mut belonging = Belonging::new(asked.map(str::to_owned));
            assert_eq!(belonging.meet(&job("digits", "u-1"), "m:1"), Ok(()));
        }
        let refused = Belonging::new(Some("other".to_owned())).meet(&job("digits", "u-1"), "m:1");
        let Err(Stranger::NotAsked(said)) = refused else { panic!("{refused:?}") };
        assert!(said.contains("--rdzv-id is other") && said.contains("digits (uid u-1)"), "{said}");
    }

    #[test]
    fn who_has_met_its_job_knows_no_other() {
        let mut belonging = Belonging::new(None);
        for _ in 0..2 {
            assert_eq!(belonging.meet(&job("digits", "u-1"), "m:1"), Ok(()));
        }
        for other in [job("letters", "u-2"), job("digits", "u-2")] {
            assert!(matches!(belonging.meet(&other, "m:1"), Err(Stranger::Another(_))), "{other:?}");
        }
    }
}
