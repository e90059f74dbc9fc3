//! The versions of acknowledged batches that the master may not have journaled yet.
//!
//! They go with the batches when the worker resumes: a master must not count a batch as trained without the versions of
//! its updates.

use flexor_ps::client::AcknowledgedVersions;

/// Versions in two periods, so that they need not be kept one by one. Each period has the highest LSN that makes its
/// batches durable.
#[derive(Debug, Default)]
pub(super) struct UnconfirmedVersions {
    older: (u64, AcknowledgedVersions),
    newer: (u64, AcknowledgedVersions),
}

impl UnconfirmedVersions {
    /// A batch with these versions is durable with this LSN.
    pub(super) fn add(&mut self, lsn: u64, versions: &AcknowledgedVersions) {
        self.newer.0 = self.newer.0.max(lsn);
        self.newer.1.extend(versions);
    }

    /// Everything up to this LSN is durable.
    pub(super) fn durable(&mut self, lsn: u64) {
        if self.older.0 <= lsn {
            self.older = std::mem::take(&mut self.newer);
        }
    }

    pub(super) fn all(&self) -> AcknowledgedVersions {
        let mut all = self.older.1.clone();
        all.extend(&self.newer.1);
        all
    }
}

#[cfg(test)]
mod tests {
    use flexor_wire::master::v1 as wire;

    use super::*;

    fn versions(gaps: &[u64]) -> AcknowledgedVersions {
        AcknowledgedVersions::from_wire(&[wire::AcknowledgedVersions {
            partition: 3,
            generation: 1,
            gaps: gaps.to_vec(),
        }])
    }

    #[test]
    fn versions_are_kept_until_their_batches_are_durable() {
        let mut unconfirmed = UnconfirmedVersions::default();
        unconfirmed.durable(10);
        unconfirmed.add(11, &versions(&[1, 1]));
        unconfirmed.durable(10);
        unconfirmed.add(12, &versions(&[2, 1]));
        unconfirmed.add(13, &versions(&[4, 1]));
        assert_eq!(unconfirmed.all(), versions(&[1, 2, 1, 1]));
        unconfirmed.durable(11);
        unconfirmed.durable(12);
        assert_eq!(unconfirmed.all(), versions(&[2, 1, 1, 1]), "a period is kept until all of it is durable");
        unconfirmed.durable(13);
        assert!(unconfirmed.all().is_empty());
    }

    /// The LSNs of the next master begin at 1.
    #[test]
    fn versions_of_an_earlier_master_hold_back_those_of_the_next_one() {
        let mut unconfirmed = UnconfirmedVersions::default();
        unconfirmed.add(500, &versions(&[1, 1]));
        unconfirmed.durable(3);
        unconfirmed.add(4, &versions(&[2, 1]));
        unconfirmed.durable(4);
        assert_eq!(unconfirmed.all(), versions(&[1, 2]), "as the session keeps its batches");
        unconfirmed.durable(500);
        unconfirmed.durable(500);
        assert!(unconfirmed.all().is_empty());
    }
}
