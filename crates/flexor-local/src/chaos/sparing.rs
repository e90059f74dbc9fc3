//! Whether a job can spare one of its parameter servers: only while everything that it keeps is kept by another one too.
//!
//! Acts of a seed ask this, so that whatever is lost is nobody's fault but the program's. A list of acts that somebody
//! has written does not.

use crate::cluster::PsClusterStatus;

/// A server that was killed or told to go, until its job has noticed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Gone {
    /// Its name.
    pub(super) server: String,
    /// When, in milliseconds since the Unix epoch: lives that began before are over.
    pub(super) at_ms: u64,
}

/// Whether any server can be done without, as the job's master says, after these were harmed.
///
/// # Errors
///
/// Why not.
pub(super) fn can_spare(training: Option<&PsClusterStatus>, gone: &[Gone]) -> Result<(), String> {
    let Some(training) = training else { return Err("its master has not told of its servers yet".to_owned()) };
    // A master that is a moment behind still tells of those that are gone.
    let is_over = |name: &str, life: u64| gone.iter().any(|gone| gone.server == name && life <= gone.at_ms);
    for server in &training.each {
        if !server.here {
            return Err(format!("{} is away", server.name));
        }
        if is_over(&server.name, server.incarnation) {
            return Err(format!("it is not known yet that {} is gone", server.name));
        }
    }
    if training.each.len() < 2 || !training.redundant {
        return Err("not everything is kept twice at the moment".to_owned());
    }
    if !training.settled {
        return Err("parameters are on their way".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::cluster::PsServerStatus;

    use super::*;

    fn training(lives: &[(&str, u64)]) -> PsClusterStatus {
        let server = |(name, incarnation): &(&str, u64)| {
            let mut server = PsServerStatus::default();
            (server.name, server.incarnation, server.here) = ((*name).to_owned(), *incarnation, true);
            server
        };
        PsClusterStatus {
            redundant: true,
            settled: true,
            each: lives.iter().map(server).collect(),
            ..PsClusterStatus::default()
        }
    }

    #[test]
    fn one_can_go_while_everything_is_kept_twice() {
        assert_eq!(can_spare(Some(&training(&[("ps-0", 10), ("ps-1", 10)])), &[]), Ok(()));
    }

    #[test]
    fn none_can_before_the_last_one_is_made_up_for() {
        let gone = [Gone { server: "ps-0".to_owned(), at_ms: 50 }];
        let told = |training: &PsClusterStatus| can_spare(Some(training), &gone).unwrap_err();
        assert!(told(&training(&[("ps-0", 10), ("ps-1", 10)])).contains("ps-0 is gone"), "its master is behind");
        let alone = PsClusterStatus { redundant: false, ..training(&[("ps-1", 10)]) };
        assert!(told(&alone).contains("kept twice"));
        let moving = PsClusterStatus { settled: false, ..training(&[("ps-0", 60), ("ps-1", 10)]) };
        assert!(told(&moving).contains("on their way"));
        assert_eq!(can_spare(Some(&training(&[("ps-0", 60), ("ps-1", 10)])), &gone), Ok(()));
        assert_eq!(can_spare(Some(&training(&[("ps-2", 60), ("ps-1", 10)])), &gone), Ok(()), "under another name");
    }

    #[test]
    fn nobody_knows_what_a_master_has_not_told() {
        assert!(can_spare(None, &[]).is_err());
        let mut away = training(&[("ps-0", 10), ("ps-1", 10)]);
        away.each[1].here = false;
        assert!(can_spare(Some(&away), &[]).unwrap_err().contains("ps-1 is away"));
    }
}
