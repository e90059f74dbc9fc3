//! A watch over the objects of a resource: each listing is compared with what the client was sent before.

use std::collections::BTreeMap;
use std::time::Duration;

use flexor_wire::local::v1::{Change, Changes, ResourceSelector};
use tokio::sync::{mpsc, watch};
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::objects;
use crate::cluster::Cluster;

/// The least time between two listings, so that a thousand pods that start are not listed a thousand times.
const LIST_EVERY: Duration = Duration::from_millis(20);

/// Sends all objects first, then what changes, until the client hangs up or the cluster ends.
pub(super) fn start(
    cluster: Cluster,
    selector: ResourceSelector,
    mut closed: watch::Receiver<bool>,
) -> impl Stream<Item = Result<Changes, Status>> + Send {
    let (sender, receiver) = mpsc::channel(4);
    tokio::spawn(async move {
        let mut changed = cluster.changes();
        let mut sent = BTreeMap::new();
        let mut is_first = true;
        loop {
            changed.mark_unchanged();
            let changes = compare(&mut sent, &cluster, &selector);
            if (is_first || !changes.is_empty()) && sender.send(Ok(Changes { changes })).await.is_err() {
                return;
            }
            is_first = false;
            tokio::time::sleep(LIST_EVERY).await;
            tokio::select! {
                () = sender.closed() => return,
                _ = closed.wait_for(|is_closed| *is_closed) => return,
                change = changed.changed() => if change.is_err() { return },
            }
        }
    });
    ReceiverStream::new(receiver)
}

/// What has changed since the last listing, which is replaced by this one.
fn compare(sent: &mut BTreeMap<String, String>, cluster: &Cluster, selector: &ResourceSelector) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut before = std::mem::take(sent);
    for object in objects::list(cluster, selector.resource(), &selector.namespace) {
        let json = object.json.to_string();
        if before.remove(&object.id).is_none_or(|known| known != json) {
            changes.push(Change { gone: false, json: json.clone() });
        }
        sent.insert(object.id, json);
    }
    let gone = before.into_values().map(|json| Change { gone: true, json });
    // A replacement comes after what it replaces.
    gone.chain(changes).collect()
}
