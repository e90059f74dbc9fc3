//! The service that a job's controller calls: what it observes goes in, what the master proposes comes out.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};

use flexor_engine::rendezvous::Event;
use flexor_wire::master::v1 as wire;
use flexor_wire::master::v1::control_server::Control;
use futures::{Stream, StreamExt};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use crate::job::Job;

const PROPOSALS: usize = 64;

pub(super) struct ControlService {
    job: Job,
}

impl ControlService {
    pub(super) fn new(job: Job) -> Self {
        Self { job }
    }
}

#[tonic::async_trait]
impl Control for ControlService {
    type FeedStream = Pin<Box<dyn Stream<Item = Result<wire::Proposal, Status>> + Send>>;

    async fn feed(&self, request: Request<Streaming<wire::Observed>>) -> Result<Response<Self::FeedStream>, Status> {
        let (proposals, receiver) = mpsc::channel(PROPOSALS);
        tokio::spawn(follow(self.job.clone(), request.into_inner(), proposals));
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn set_expected(&self, request: Request<wire::SetExpectedRequest>) -> Result<Response<wire::Done>, Status> {
        let nodes = request.into_inner().nodes;
        self.job.with(|store, now, out| store.tell(self.job.run(), Event::Expect { nodes }, now, out));
        Ok(Response::new(wire::Done {}))
    }

    async fn node_gone(&self, request: Request<wire::NodeGoneRequest>) -> Result<Response<wire::Done>, Status> {
        let wire::NodeGoneRequest { name, detail } = request.into_inner();
        let detail = if detail.is_empty() { "its controller says so".to_owned() } else { detail };
        let found = self.job.gone(&name, &detail);
        if found == 0 {
            return Err(Status::not_found(format!(
                "no member is called {name}, nor does any come from such a pod or host"
            )));
        }
        Ok(Response::new(wire::Done {}))
    }

    async fn retry(&self, _: Request<wire::RetryRequest>) -> Result<Response<wire::Done>, Status> {
        self.job.with(|store, now, out| store.tell(self.job.run(), Event::Reopen, now, out));
        Ok(Response::new(wire::Done {}))
    }
}

/// Takes in what the controller observes until its stream ends, and tells it of verdicts.
async fn follow(
    job: Job,
    mut observed: Streaming<wire::Observed>,
    proposals: mpsc::Sender<Result<wire::Proposal, Status>>,
) {
    let mut changes = job.with(|store, _, _| store.changes());
    let mut pods_before: BTreeSet<Arc<str>> = BTreeSet::new();
    let mut told = told_so_far(&job);
    loop {
        tokio::select! {
            message = observed.next() => match message {
                Some(Ok(message)) => take_in(&job, message, &mut pods_before),
                Some(Err(_)) | None => return,
            },
            _ = changes.changed() => {}
            () = proposals.closed() => return,
        }
        for proposal in news(&job, &mut told) {
            if proposals.send(Ok(proposal)).await.is_err() {
                return;
            }
        }
    }
}

fn take_in(job: &Job, observed: wire::Observed, pods_before: &mut BTreeSet<Arc<str>>) {
    let alive = |pod: &&wire::Pod| !pod.deleting && matches!(pod.phase.as_str(), "Pending" | "Running");
    let pods: BTreeSet<Arc<str>> = observed.pods.iter().filter(alive).map(|pod| pod.name.as_str().into()).collect();
    let gone: Vec<Arc<str>> = pods_before.difference(&pods).cloned().collect();
    for pod in &gone {
        job.gone(pod, "its pod is gone or going");
    }
    job.with(|store, now, out| {
        store.tell(job.run(), Event::Expect { nodes: observed.expected }, now, out);
        store.announce(job.run(), pods.clone(), now, out);
    });
    *pods_before = pods;
}

/// The time of the last decision that was told.
fn told_so_far(job: &Job) -> u64 {
    let decisions = job.decisions().lock().unwrap_or_else(PoisonError::into_inner);
    decisions.latest.back().map_or(0, |decision| decision.at)
}

fn news(job: &Job, told: &mut u64) -> Vec<wire::Proposal> {
    let decisions = job.decisions().lock().unwrap_or_else(PoisonError::into_inner);
    let since = *told;
    let fresh = decisions.latest.iter().filter(|decision| decision.at > since);
    let proposals = fresh.filter_map(|decision| {
        let reason = decision.reason.map(|reason| reason.to_string()).unwrap_or_default();
        let detail = decision.detail.clone();
        let kind = match (decision.what, &decision.node) {
            ("lost", Some(node)) => wire::proposal::Kind::Verdict(wire::Verdict { node: node.clone(), reason, detail }),
            ("closed", _) => {
                wire::proposal::Kind::Closed(wire::RunClosed { run: decision.run.clone(), reason, detail })
            }
            _ => return None,
        };
        Some(wire::Proposal { generation: job.generation().0, kind: Some(kind) })
    });
    let proposals: Vec<_> = proposals.collect();
    *told = decisions.latest.back().map_or(since, |decision| decision.at);
    proposals
}
