//! Reading the model as it was at one moment, while others train it.
//!
//! Every server keeps what training changes aside, up to a number of bytes, as long as the snapshot is held. One that is
//! lost, because there was no room or because partitions have moved, is not mended: whoever reads takes a new one, or
//! reads something else.

use std::collections::BTreeMap;
use std::sync::Arc;

use flexor_wire::ps::v1 as wire;
use thiserror::Error;
use tonic::{Status, Streaming};

use super::connection::Connection;
use super::map::Route;
use super::pull::For;
use super::{Client, ClientError};
use crate::dial::is_final;
use crate::layout::{SliceId, TableId};
use crate::placement::PartitionId;

/// How often a snapshot is tried to be taken while the servers change.
const TRIES: u32 = 5;

/// Why a snapshot cannot be read.
#[derive(Debug, Error)]
pub enum SnapshotError {
    /// Training changed more than there was room for.
    #[error("{0}")]
    Overrun(String),
    /// The servers have changed since.
    #[error("{0}")]
    Moved(String),
    /// A server will not do it.
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// The model as it was; it is kept by the servers until this is dropped.
pub struct Snapshot<'a> {
    client: &'a mut Client,
    route: Arc<Route>,
    servers: BTreeMap<usize, Taken>,
    has_variables: bool,
}

/// One server's part of it.
struct Taken {
    number: u64,
    connection: Arc<Connection>,
    /// While this is open the server keeps it.
    _kept: Streaming<wire::SnapshotTaken>,
}

impl Client {
    /// Takes a snapshot of the whole model; each server may put so many bytes aside for it. Every partition is as it was at
    /// one moment, which is not the same moment for all of them.
    pub async fn snapshot(&mut self, budget: u64) -> Result<Snapshot<'_>, SnapshotError> {
        let mut why = SnapshotError::Moved(String::new());
        for attempt in 0..TRIES {
            let route = self.route().await;
            match self.take_all(&route, budget).await {
                Ok(servers) => {
                    // Versions of the model as it moves are not those of the snapshot.
                    self.slices.clear();
                    return Ok(Snapshot { client: self, route, servers, has_variables: false });
                }
                Err(error) => why = error,
            }
            self.look_again(route.epoch, attempt).await?;
        }
        Err(why)
    }

    /// A snapshot of every server that has a partition; or which has none.
    async fn take_all(&self, route: &Route, budget: u64) -> Result<BTreeMap<usize, Taken>, SnapshotError> {
        let mut parts: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
        for id in PartitionId::all() {
            let nobody = || SnapshotError::Moved(format!("no server has partition {id} at present"));
            let server = route.server_of(id).ok_or_else(nobody)?;
            parts.entry(server).or_default().push(id.number());
        }
        let asked = wire::TakeSnapshot { model: self.layout.fingerprint().0, budget };
        let taking = parts.iter().map(async |(server, wanted)| {
            let nowhere = || SnapshotError::Moved("a server without an address".to_owned());
            let reached = route.reached(*server).ok_or_else(nowhere)?;
            let connection = self.connection(reached).await.map_err(|status| not_taken(&status))?;
            let (taken, kept) = connection.take_snapshot(asked).await.map_err(|status| not_taken(&status))?;
            match wanted.iter().find(|id| !taken.partitions.contains(id)) {
                Some(id) => {
                    let address = &reached.address;
                    let moved = format!("the server at {address} does not answer for partition {id} any more");
                    Err(SnapshotError::Moved(moved))
                }
                None => Ok((*server, Taken { number: taken.snapshot, connection, _kept: kept })),
            }
        });
        futures::future::try_join_all(taking).await.map(|taken| taken.into_iter().collect())
    }
}

/// Why a server has taken none.
fn not_taken(status: &Status) -> SnapshotError {
    let why = status.message().to_owned();
    if is_final(status) { ClientError::Refused(why).into() } else { SnapshotError::Moved(why) }
}

impl Snapshot<'_> {
    /// Reads rows of tables, and all dense variables when it is called first. Rows that were not there have their initial
    /// values.
    pub async fn pull(&mut self, wanted: &[(TableId, &[u64])], out: &mut Vec<Vec<f32>>) -> Result<(), SnapshotError> {
        let missing = self.client.missing(wanted, out)?;
        let slices: Vec<SliceId> = if self.has_variables { Vec::new() } else { self.client.layout.slices().collect() };
        // Every partition has its server: that was looked at when the snapshot was taken.
        let (asked, _) = self.client.sort(&self.route, &missing, &slices);
        let answers = futures::future::join_all(asked.iter().map(|(server, asked)| {
            let taken = self.servers.get(server);
            let why = For::Snapshot(taken.map_or(0, |taken| taken.number));
            let op = self.client.request(&missing, asked, why);
            async move { taken?.connection.ask(op).await }
        }))
        .await;
        for ((_, asked), answer) in asked.iter().zip(answers) {
            match answer {
                Some(wire::reply::Result::Pulled(pulled)) => {
                    if let Some(id) = self.client.take(pulled, &missing, asked, out)?.first() {
                        return Err(SnapshotError::Moved(format!("partition {id} has moved to another server")));
                    }
                }
                Some(wire::reply::Result::Lost(wire::SnapshotLost { overrun, detail })) => {
                    return Err(if overrun { SnapshotError::Overrun(detail) } else { SnapshotError::Moved(detail) });
                }
                Some(wire::reply::Result::Refused(why)) => return Err(ClientError::Refused(why).into()),
                Some(wire::reply::Result::Pushed(_)) => {
                    return Err(ClientError::Nonsense("a push is answered to a pull").into());
                }
                Some(wire::reply::Result::NotYet(_)) | None => {
                    return Err(SnapshotError::Moved("a server is gone that had a part of it".to_owned()));
                }
            }
        }
        self.has_variables = true;
        Ok(())
    }

    /// The values of all dense variables, once something was pulled.
    pub fn variables(&self) -> Vec<Vec<f32>> {
        self.client.variables()
    }
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        self.client.slices.clear();
    }
}
