//! Tells what changes of the objects of a resource: each look is compared with what was told before.

use std::collections::BTreeMap;
use std::time::Duration;

use flexor_wire::local::v1::{Change, Changes, Wanted};
use tokio::sync::{mpsc, watch};
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::objects;
use crate::cluster::Cluster;

/// People cannot read faster, and a thousand pods that start are not looked at a thousand times.
const AT_MOST_EVERY: Duration = Duration::from_millis(20);

/// Everything first, then what changes, until nobody listens or the cluster ends.
pub(super) fn start(
    cluster: Cluster,
    wanted: Wanted,
    mut closed: watch::Receiver<bool>,
) -> impl Stream<Item = Result<Changes, Status>> + Send {
    let (sender, receiver) = mpsc::channel(4);
    tokio::spawn(async move {
        let mut heard = cluster.changes();
        let mut told = BTreeMap::new();
        let mut is_first = true;
        loop {
            heard.mark_unchanged();
            let changes = compare(&mut told, &cluster, &wanted);
            if (is_first || !changes.is_empty()) && sender.send(Ok(Changes { changes })).await.is_err() {
                return;
            }
            is_first = false;
            tokio::time::sleep(AT_MOST_EVERY).await;
            tokio::select! {
                () = sender.closed() => return,
                _ = closed.wait_for(|is_closed| *is_closed) => return,
                changed = heard.changed() => if changed.is_err() { return },
            }
        }
    });
    ReceiverStream::new(receiver)
}

fn compare(told: &mut BTreeMap<String, String>, cluster: &Cluster, wanted: &Wanted) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut before = std::mem::take(told);
    for object in objects::list(cluster, wanted.resource(), &wanted.namespace) {
        let json = object.json.to_string();
        if before.remove(&object.id).is_none_or(|known| known != json) {
            changes.push(Change { gone: false, json: json.clone() });
        }
        told.insert(object.id, json);
    }
    let gone = before.into_values().map(|json| Change { gone: true, json });
    // What comes in the place of something comes after it.
    gone.chain(changes).collect()
}
