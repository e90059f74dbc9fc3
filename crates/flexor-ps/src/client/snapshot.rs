//! Reads the model as of one moment, while training goes on.
//!
//! Every server puts aside what training changes, up to a number of bytes, as long as the snapshot is open. A snapshot is
//! lost when that is too little, or when partitions move. It is not repaired: the caller opens a new one.

use std::collections::BTreeMap;
use std::sync::Arc;

use flexor_wire::ps::v1 as wire;
use thiserror::Error;
use tonic::{Status, Streaming};

use super::connection::Connection;
use super::pull::PullSource;
use super::route::Route;
use super::{Client, ClientError};
use crate::dial::is_final;
use crate::layout::{SliceId, TableId};
use crate::placement::PartitionId;

/// Attempts to open a snapshot while the servers change.
const ATTEMPTS: u32 = 5;

/// Why a snapshot cannot be read.
#[derive(Debug, Error)]
pub enum SnapshotError {
    /// Training changed more than the budget.
    #[error("{0}")]
    Overrun(String),
    /// Partitions have moved.
    #[error("{0}")]
    Moved(String),
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// An open snapshot; it closes on drop.
pub struct Snapshot<'a> {
    client: &'a mut Client,
    route: Arc<Route>,
    servers: BTreeMap<usize, ServerSnapshot>,
    has_variables: bool,
}

/// The snapshot of one server.
struct ServerSnapshot {
    id: u64,
    connection: Arc<Connection>,
    /// The server closes the snapshot with this stream.
    _stream: Streaming<wire::SnapshotOpened>,
}

impl Client {
    /// Opens a snapshot of the whole model; each server may put `budget` bytes aside for it. Each partition is as of one
    /// moment, which differs between partitions.
    pub async fn snapshot(&mut self, budget: u64) -> Result<Snapshot<'_>, SnapshotError> {
        let mut why = SnapshotError::Moved(String::new());
        for attempt in 0..ATTEMPTS {
            let route = self.route().await;
            match self.open_all(&route, budget).await {
                Ok(servers) => {
                    // Cached slices belong to the live model, not to the snapshot.
                    self.slices.clear();
                    return Ok(Snapshot { client: self, route, servers, has_variables: false });
                }
                Err(error) => why = error,
            }
            self.pause_before_retry(route.epoch, attempt).await?;
        }
        Err(why)
    }

    /// Opens a snapshot on every server that is primary of a partition.
    async fn open_all(&self, route: &Route, budget: u64) -> Result<BTreeMap<usize, ServerSnapshot>, SnapshotError> {
        let mut parts: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
        for id in PartitionId::all() {
            let no_primary = || SnapshotError::Moved(format!("partition {id} has no primary at present"));
            let server = route.server_of(id).ok_or_else(no_primary)?;
            parts.entry(server).or_default().push(id.number());
        }
        let request = wire::OpenSnapshot { model: self.layout.fingerprint().0, budget };
        let opening = parts.iter().map(async |(server, partitions)| {
            let no_address = || SnapshotError::Moved("a server without an address".to_owned());
            let server_address = route.address(*server).ok_or_else(no_address)?;
            let connection = self.connection(server_address).await.map_err(|status| open_error(&status))?;
            let (opened, stream) = connection.open_snapshot(request).await.map_err(|status| open_error(&status))?;
            match partitions.iter().find(|id| !opened.partitions.contains(id)) {
                Some(id) => {
                    let address = &server_address.address;
                    let moved = format!("the server at {address} is no longer primary of partition {id}");
                    Err(SnapshotError::Moved(moved))
                }
                None => Ok((*server, ServerSnapshot { id: opened.snapshot, connection, _stream: stream })),
            }
        });
        futures::future::try_join_all(opening).await.map(|opened| opened.into_iter().collect())
    }
}

/// Why a server has not opened a snapshot.
fn open_error(status: &Status) -> SnapshotError {
    let why = status.message().to_owned();
    if is_final(status) { ClientError::Refused(why).into() } else { SnapshotError::Moved(why) }
}

impl Snapshot<'_> {
    /// Reads rows of tables, and at the first call all dense variables. Missing rows have their initial values.
    pub async fn pull(&mut self, wanted: &[(TableId, &[u64])], out: &mut Vec<Vec<f32>>) -> Result<(), SnapshotError> {
        let missing = self.client.missing(wanted, out)?;
        let slices: Vec<SliceId> = if self.has_variables { Vec::new() } else { self.client.layout.slices().collect() };
        // Every partition has a primary: that was checked when the snapshot was opened.
        let (asked, _) = self.client.sort(&self.route, &missing, &slices);
        let answers = futures::future::join_all(asked.iter().map(|(server, asked)| {
            let snapshot = self.servers.get(server);
            let source = PullSource::Snapshot(snapshot.map_or(0, |snapshot| snapshot.id));
            let op = self.client.request(&missing, asked, source);
            async move { snapshot?.connection.request(op).await }
        }))
        .await;
        for ((_, asked), answer) in asked.iter().zip(answers) {
            match answer {
                Some(wire::reply::Result::Pulled(pulled)) => {
                    if let Some(id) = self.client.store(pulled, &missing, asked, out)?.first() {
                        return Err(SnapshotError::Moved(format!("partition {id} has moved to another server")));
                    }
                }
                Some(wire::reply::Result::Lost(wire::SnapshotLost { overrun, detail })) => {
                    return Err(if overrun { SnapshotError::Overrun(detail) } else { SnapshotError::Moved(detail) });
                }
                Some(wire::reply::Result::Refused(why)) => return Err(ClientError::Refused(why).into()),
                Some(wire::reply::Result::Pushed(_)) => {
                    return Err(ClientError::InvalidReply("the reply to a pull is of another kind").into());
                }
                Some(wire::reply::Result::NotYet(_)) | None => {
                    return Err(SnapshotError::Moved("a server with a part of the snapshot is gone".to_owned()));
                }
            }
        }
        self.has_variables = true;
        Ok(())
    }

    /// The values of all dense variables, after the first pull.
    pub fn variables(&self) -> Vec<Vec<f32>> {
        self.client.variables()
    }
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        self.client.slices.clear();
    }
}
