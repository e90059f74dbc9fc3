//! The partition map as the client routes by it, and the watcher that keeps it current.

use std::sync::Arc;

use flexor_wire::Token;
use flexor_wire::master::v1 as master;
use flexor_wire::master::v1::ps_membership_client::PsMembershipClient;
use tokio::sync::watch;

use crate::call_target::CallTarget;
use crate::dial::{DialEndpoint, MAX_MESSAGE};
use crate::placement::PartitionId;

/// The primary of each partition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Route {
    /// Epoch of the map.
    pub epoch: u64,
    /// Generation of the master.
    generation: u64,
    servers: Vec<ServerAddress>,
    /// Indexes into `servers`, by partition.
    primaries: Vec<Option<u32>>,
}

impl Route {
    fn of(map: &master::PartitionMap) -> Self {
        Self {
            epoch: map.epoch,
            generation: map.generation,
            servers: map.servers.iter().map(ServerAddress::of).collect(),
            primaries: map.partitions.iter().map(|replicas| replicas.primary).collect(),
        }
    }

    /// Index of the primary of a partition; none while there is none.
    pub(super) fn server_of(&self, partition: PartitionId) -> Option<usize> {
        let index = self.primaries.get(partition.index()).copied().flatten()? as usize;
        self.servers.get(index).filter(|server| !server.address.is_empty()).map(|_| index)
    }

    pub(super) fn primary_of(&self, partition: PartitionId) -> Option<&ServerAddress> {
        self.address(self.server_of(partition)?)
    }

    pub(super) fn server_count(&self) -> usize {
        self.servers.len()
    }

    pub(super) fn address(&self, server: usize) -> Option<&ServerAddress> {
        self.servers.get(server)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ServerAddress {
    pub(super) address: String,
    pub(super) server: CallTarget,
}

impl ServerAddress {
    fn of(server: &master::Server) -> Self {
        Self { address: server.address.clone(), server: CallTarget::new(&server.name, server.incarnation) }
    }
}

/// Takes over every newer map. Maps of an earlier master generation are ignored.
pub(super) async fn watch(master: DialEndpoint, token: Option<Token>, routes: watch::Sender<Arc<Route>>) {
    let mut reconnect = master.reconnect();
    loop {
        reconnect.next_attempt().await;
        if let Ok(channel) = master.connect().await {
            let mut client = PsMembershipClient::with_interceptor(channel, Token::carried(token.as_ref()))
                .max_decoding_message_size(MAX_MESSAGE);
            if let Ok(maps) = client.watch_partition_map(master::WatchPartitionMapRequest {}).await {
                reconnect.established();
                let mut maps = maps.into_inner();
                while let Ok(Some(map)) = maps.message().await {
                    let route = Route::of(&map);
                    routes.send_if_modified(|known| {
                        let is_newer =
                            (route.generation, route.epoch) >= (known.generation, known.epoch) && **known != route;
                        if is_newer {
                            *known = Arc::new(route);
                        }
                        is_newer
                    });
                }
            }
        }
    }
}
