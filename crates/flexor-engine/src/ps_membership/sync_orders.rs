//! Orders to primaries: which partitions to copy to which server. The list is complete: a sync that it does not name is
//! cancelled.

use std::sync::Arc;

use super::PsMembership;
use super::partition_map::Partition;
use super::server::ServerId;
use super::transfers::TransferPhase;

/// An order to the primary of a partition to fill another server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncOrder {
    pub partition: Partition,
    /// Reports of the primary carry this id.
    pub sync_id: u64,
    pub to: ServerId,
    /// Address of `to`.
    pub address: Arc<str>,
    /// The primary stops applying updates. Once `to` has everything, `to` becomes primary.
    pub freeze: bool,
}

impl PsMembership {
    pub fn sync_orders(&self, server: &ServerId) -> Vec<SyncOrder> {
        let of_server = self.transfers.iter().filter(|(_, transfer)| transfer.from == *server);
        of_server
            .filter_map(|(partition, transfer)| {
                let address = self.address(&transfer.to)?;
                let freeze = matches!(transfer.phase, TransferPhase::Freezing | TransferPhase::Frozen);
                let (partition, sync_id, to) = (*partition, transfer.sync_id, transfer.to.clone());
                Some(SyncOrder { partition, sync_id, to, address, freeze })
            })
            .collect()
    }
}
