//! The stream between a job's controller and its master.
//!
//! It carries what the controller observes to the master, and the master's proposals back. It is dialled again whenever
//! it breaks; a new stream begins with everything that is observed. What the messages mean is decided elsewhere
//! ([`observed_by_master`](crate::observed_by_master), [`read_proposal`](crate::read_proposal)).

use std::time::Duration;

use flexor_store::sidecar::Upstream;
use flexor_wire::master::v1 as wire;
use flexor_wire::master::v1::control_client::ControlClient;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;

/// A master that cannot be reached is dialled again after this.
const REDIAL_AFTER: Duration = Duration::from_millis(100);

/// A feed to one master. Dropping it ends the stream.
pub struct MasterFeed {
    observed: watch::Sender<wire::Observed>,
    task: JoinHandle<()>,
}

impl MasterFeed {
    /// A feed to this master, which shows it the token that `upstream` has. Each proposal goes to `on_proposal`.
    pub fn open(upstream: Upstream, on_proposal: impl Fn(wire::Proposal) + Send + Sync + 'static) -> Self {
        let (observed, receiver) = watch::channel(wire::Observed::default());
        Self { observed, task: tokio::spawn(keep_open(upstream, receiver, on_proposal)) }
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
    on_proposal: impl Fn(wire::Proposal) + Send + Sync,
) {
    loop {
        if let Err(error) = run_stream(&upstream, &mut observed, &on_proposal).await {
            tracing::debug!("the feed to the master broke: {error}");
        }
        tokio::time::sleep(REDIAL_AFTER).await;
    }
}

async fn run_stream(
    upstream: &Upstream,
    observed: &mut watch::Receiver<wire::Observed>,
    on_proposal: &(impl Fn(wire::Proposal) + Send + Sync),
) -> Result<(), String> {
    let (sender, receiver) = mpsc::channel(4);
    let (channel, request) = upstream.open(ReceiverStream::new(receiver)).await?;
    // A new stream begins with everything.
    observed.mark_changed();
    let first = observed.borrow_and_update().clone();
    sender.send(first).await.map_err(|error| error.to_string())?;
    let proposals = ControlClient::new(channel).feed(request).await.map_err(|status| status.to_string())?;
    let mut proposals = proposals.into_inner();
    loop {
        tokio::select! {
            proposal = proposals.message() => {
                match proposal.map_err(|status| status.to_string())? {
                    Some(proposal) => on_proposal(proposal),
                    None => return Ok(()),
                }
            }
            changed = observed.changed() => {
                changed.map_err(|error| error.to_string())?;
                let next = observed.borrow_and_update().clone();
                sender.send(next).await.map_err(|error| error.to_string())?;
            }
        }
    }
}
