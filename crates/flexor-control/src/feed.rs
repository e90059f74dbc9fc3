//! The stream between a job's controller and its master.
//!
//! It carries what the controller observes to the master, and the master's proposals back. It is dialled again whenever
//! it breaks; a new stream begins with everything that is observed. What the messages mean is decided elsewhere
//! ([`observed_by_master`](crate::observed_by_master), [`read_proposal`](crate::read_proposal)).

use flexor_client::{Reconnect, Upstream};
use flexor_wire::master::v1 as wire;
use flexor_wire::master::v1::control_client::ControlClient;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;

/// What a feed brings.
#[derive(Debug)]
pub enum FeedMessage {
    Proposal(wire::Proposal),
    /// The stream broke, or the master does not answer. The feed dials again.
    Broken,
}

/// A feed to one master. Dropping it ends the stream.
pub struct MasterFeed {
    observed: watch::Sender<wire::Observed>,
    task: JoinHandle<()>,
}

impl MasterFeed {
    /// A feed to this master, which shows it the token that `upstream` has. Each proposal goes to `on_message`, and so
    /// does every break of the stream.
    pub fn open(upstream: Upstream, on_message: impl Fn(FeedMessage) + Send + Sync + 'static) -> Self {
        let (observed, receiver) = watch::channel(wire::Observed::default());
        Self { observed, task: tokio::spawn(keep_open(upstream, receiver, on_message)) }
    }

    /// Sends what is observed to the master, if it has changed.
    pub fn send(&self, observed: wire::Observed) {
        self.observed.send_if_modified(|last| {
            let is_new = *last != observed;
            *last = observed;
            is_new
        });
    }
}

impl Drop for MasterFeed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn keep_open(
    upstream: Upstream,
    mut observed: watch::Receiver<wire::Observed>,
    on_message: impl Fn(FeedMessage) + Send + Sync,
) {
    let mut reconnect = Reconnect::default();
    loop {
        reconnect.next_attempt().await;
        if let Err(error) = run_stream(&upstream, &mut reconnect, &mut observed, &on_message).await {
            tracing::debug!("the feed to the master broke: {error}");
        }
        on_message(FeedMessage::Broken);
    }
}

async fn run_stream(
    upstream: &Upstream,
    reconnect: &mut Reconnect,
    observed: &mut watch::Receiver<wire::Observed>,
    on_message: &(impl Fn(FeedMessage) + Send + Sync),
) -> Result<(), String> {
    let (sender, receiver) = mpsc::channel(4);
    let (channel, request) =
        upstream.connect(ReceiverStream::new(receiver)).await.map_err(|error| error.to_string())?;
    let send = async |observed: wire::Observed| sender.send(observed).await.map_err(|error| error.to_string());
    // A new stream begins with everything.
    let first = observed.borrow_and_update().clone();
    send(first).await?;
    let proposals = ControlClient::new(channel).feed(request).await.map_err(|status| status.to_string())?;
    reconnect.established();
    let mut proposals = proposals.into_inner();
    let mut received_reports = 0;
    loop {
        tokio::select! {
            proposal = proposals.message() => {
                let Some(proposal) = proposal.map_err(|status| status.to_string())? else { return Ok(()) };
                let reports = proposal.reports;
                on_message(FeedMessage::Proposal(proposal));
                if reports <= received_reports {
                    continue;
                }
                received_reports = reports;
            }
            changed = observed.changed() => changed.map_err(|error| error.to_string())?,
        }
        let next = observed.borrow_and_update().clone();
        send(wire::Observed { received_reports, ..next }).await?;
    }
}

#[cfg(test)]
mod tests;
