//! The master's map as a client goes by it.

use std::sync::Arc;

use flexor_wire::Token;
use flexor_wire::master::v1 as master;
use flexor_wire::master::v1::servers_client::ServersClient;
use tokio::sync::watch;

use crate::addressee::Addressee;
use crate::dial::{MAX_MESSAGE, Way};
use crate::placement::PartitionId;

/// Where each partition is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Route {
    /// The number of the map.
    pub epoch: u64,
    generation: u64,
    servers: Vec<Reached>,
    /// Of each partition the place of its owner's address.
    owners: Vec<Option<u32>>,
}

impl Route {
    fn of(map: &master::ServerMap) -> Self {
        Self {
            epoch: map.epoch,
            generation: map.generation,
            servers: map.servers.iter().map(Reached::of).collect(),
            owners: map.seats.iter().map(|seat| seat.owner).collect(),
        }
    }

    /// Which of the servers has a partition, by its place; none while nobody has it.
    pub(super) fn server_of(&self, partition: PartitionId) -> Option<usize> {
        let place = self.owners.get(partition.index()).copied().flatten()? as usize;
        self.servers.get(place).filter(|server| !server.address.is_empty()).map(|_| place)
    }

    /// Who answers for a partition; none while nobody does.
    pub(super) fn owner_of(&self, partition: PartitionId) -> Option<&Reached> {
        self.reached(self.server_of(partition)?)
    }

    /// How many servers there are.
    pub(super) fn servers(&self) -> usize {
        self.servers.len()
    }

    /// Where a server is reached.
    pub(super) fn reached(&self, server: usize) -> Option<&Reached> {
        self.servers.get(server)
    }
}

/// A server, and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reached {
    pub(super) address: String,
    pub(super) server: Addressee,
}

impl Reached {
    fn of(server: &master::Server) -> Self {
        Self { address: server.address.clone(), server: Addressee::new(&server.name, server.incarnation) }
    }
}

/// Takes over every map that the master tells, whichever master it is, as long as it is not one from before.
pub(super) async fn follow(master: Way, token: Option<Token>, maps: watch::Sender<Arc<Route>>) {
    let mut reconnect = master.reconnect();
    loop {
        reconnect.next_attempt().await;
        if let Ok(channel) = master.connect().await {
            let mut client = ServersClient::with_interceptor(channel, Token::carried(token.as_ref()))
                .max_decoding_message_size(MAX_MESSAGE);
            if let Ok(told) = client.follow(master::FollowServers {}).await {
                reconnect.established();
                let mut told = told.into_inner();
                while let Ok(Some(map)) = told.message().await {
                    let route = Route::of(&map);
                    maps.send_if_modified(|known| {
                        let is_news =
                            (route.generation, route.epoch) >= (known.generation, known.epoch) && **known != route;
                        if is_news {
                            *known = Arc::new(route);
                        }
                        is_news
                    });
                }
            }
        }
    }
}
