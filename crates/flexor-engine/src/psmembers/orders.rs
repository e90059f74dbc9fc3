//! What a server is to do beside what the map says. Told whole whenever it changes: what is not in it is not to be done.

use std::sync::Arc;

use super::PsMembers;
use super::map::Partition;
use super::moves::Phase;
use super::server::ServerId;

/// A copy that the owner of a partition has to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyOrder {
    /// Of which partition.
    pub partition: Partition,
    /// The number of the move; reports carry it.
    pub number: u64,
    /// To whom.
    pub to: ServerId,
    /// Where it is reached.
    pub address: Arc<str>,
    /// Nothing may be applied any more: when the copy is the same as the original, the other takes over.
    pub freeze: bool,
}

impl PsMembers {
    /// What a server has to do.
    pub fn orders(&self, server: &ServerId) -> Vec<CopyOrder> {
        let of_server = self.moves.iter().filter(|(_, step)| step.from == *server);
        of_server
            .filter_map(|(partition, step)| {
                let address = self.address(&step.to)?;
                let freeze = matches!(step.phase, Phase::Freezing | Phase::Frozen);
                Some(CopyOrder { partition: *partition, number: step.number, to: step.to.clone(), address, freeze })
            })
            .collect()
    }
}
