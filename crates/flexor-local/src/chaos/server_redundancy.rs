//! Whether a job can lose one of its parameter servers: only while every partition has a second replica.
//!
//! Faults of a seed ask this, so that only a defect of the program can lose updates. Faults of a script that a user wrote
//! do not.

use crate::cluster::PsClusterStatus;

/// A server that a fault killed or deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LostServer {
    pub(super) server: String,
    /// In milliseconds since the Unix epoch. Incarnations that began before are over.
    pub(super) at_ms: u64,
}

/// Checks, by what the job's master reports, that any server can be lost after `lost`.
///
/// # Errors
///
/// The reason why none can be lost.
pub(super) fn check_redundancy(training: Option<&PsClusterStatus>, lost: &[LostServer]) -> Result<(), String> {
    let Some(training) = training else { return Err("its master has not reported its servers yet".to_owned()) };
    // A master that lags still reports lost servers.
    let is_over =
        |name: &str, incarnation: u64| lost.iter().any(|lost| lost.server == name && incarnation <= lost.at_ms);
    for server in &training.each {
        if !server.here {
            return Err(format!("{} is away", server.name));
        }
        if is_over(&server.name, server.incarnation) {
            return Err(format!("it is not known yet that {} is gone", server.name));
        }
    }
    if training.each.len() < 2 || !training.redundant {
        return Err("not every partition has two replicas at the moment".to_owned());
    }
    if !training.settled {
        return Err("partitions are moving".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::cluster::PsServerStatus;

    use super::*;

    fn training(servers: &[(&str, u64)]) -> PsClusterStatus {
        let server = |(name, incarnation): &(&str, u64)| {
            let mut server = PsServerStatus::default();
            (server.name, server.incarnation, server.here) = ((*name).to_owned(), *incarnation, true);
            server
        };
        PsClusterStatus {
            redundant: true,
            settled: true,
            each: servers.iter().map(server).collect(),
            ..PsClusterStatus::default()
        }
    }

    #[test]
    fn one_server_can_be_lost_while_every_partition_has_two_replicas() {
        assert_eq!(check_redundancy(Some(&training(&[("ps-0", 10), ("ps-1", 10)])), &[]), Ok(()));
    }

    #[test]
    fn none_can_be_lost_before_the_last_loss_is_repaired() {
        let lost = [LostServer { server: "ps-0".to_owned(), at_ms: 50 }];
        let refusal = |training: &PsClusterStatus| check_redundancy(Some(training), &lost).unwrap_err();
        assert!(refusal(&training(&[("ps-0", 10), ("ps-1", 10)])).contains("ps-0 is gone"), "its master lags");
        let alone = PsClusterStatus { redundant: false, ..training(&[("ps-1", 10)]) };
        assert!(refusal(&alone).contains("two replicas"));
        let moving = PsClusterStatus { settled: false, ..training(&[("ps-0", 60), ("ps-1", 10)]) };
        assert!(refusal(&moving).contains("are moving"));
        assert_eq!(check_redundancy(Some(&training(&[("ps-0", 60), ("ps-1", 10)])), &lost), Ok(()));
        assert_eq!(
            check_redundancy(Some(&training(&[("ps-2", 60), ("ps-1", 10)])), &lost),
            Ok(()),
            "under another name"
        );
    }

    #[test]
    fn none_can_be_lost_while_the_master_has_reported_nothing() {
        assert!(check_redundancy(None, &[]).is_err());
        let mut away = training(&[("ps-0", 10), ("ps-1", 10)]);
        away.each[1].here = false;
        assert!(check_redundancy(Some(&away), &[]).unwrap_err().contains("ps-1 is away"));
    }
}
