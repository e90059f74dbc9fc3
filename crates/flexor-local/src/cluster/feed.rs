//! Tells a job's master how its pods stand, and hears from it how training does, over a stream that is opened again
//! whenever it breaks.

use std::net::SocketAddr;

use flexor_client::{Reconnect, TokenSource, Upstream};
use flexor_wire::master::v1 as wire;
use flexor_wire::master::v1::control_client::ControlClient;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;

/// Ended with its guard.
pub(super) struct Feed {
    observed: watch::Sender<wire::Observed>,
    task: JoinHandle<()>,
}

impl Feed {
    /// A feed to the master at this address, which is heard by `hear`.
    pub(super) fn to(master: SocketAddr, hear: impl Fn(wire::Proposal) + Send + Sync + 'static) -> Option<Self> {
        let upstream = Upstream::new(&master.to_string(), TokenSource::Absent).ok()?;
        let (observed, observes) = watch::channel(wire::Observed::default());
        Some(Self { observed, task: tokio::spawn(keep(upstream, observes, hear)) })
    }

    /// This is how the pods stand.
    pub(super) fn tell(&self, now: wire::Observed) {
        self.observed.send_if_modified(|last| {
            let is_news = *last != now;
            *last = now;
            is_news
        });
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn keep(
    upstream: Upstream,
    mut observes: watch::Receiver<wire::Observed>,
    hear: impl Fn(wire::Proposal) + Send + Sync,
) {
    let mut reconnect = Reconnect::default();
    loop {
        reconnect.next_attempt().await;
        if let Err(error) = hold(&upstream, &mut reconnect, &mut observes, &hear).await {
            tracing::debug!("the feed to the master broke: {error}");
        }
    }
}

async fn hold(
    upstream: &Upstream,
    reconnect: &mut Reconnect,
    observes: &mut watch::Receiver<wire::Observed>,
    hear: &(impl Fn(wire::Proposal) + Send + Sync),
) -> Result<(), String> {
    let (sender, receiver) = mpsc::channel(4);
    let (channel, stream) = upstream.connect(ReceiverStream::new(receiver)).await.map_err(|error| error.to_string())?;
    // A new stream is told everything.
    observes.mark_changed();
    let first = observes.borrow_and_update().clone();
    sender.send(first).await.map_err(|error| error.to_string())?;
    let proposals = ControlClient::new(channel).feed(stream).await.map_err(|status| status.to_string())?;
    reconnect.established();
    let mut proposals = proposals.into_inner();
    loop {
        tokio::select! {
            proposal = proposals.message() => {
                match proposal.map_err(|status| status.to_string())? {
                    Some(proposal) => hear(proposal),
                    None => return Ok(()),
                }
            }
            changed = observes.changed() => {
                changed.map_err(|error| error.to_string())?;
                let now = observes.borrow_and_update().clone();
                sender.send(now).await.map_err(|error| error.to_string())?;
            }
        }
    }
}
