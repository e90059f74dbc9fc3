//! The service that a job's controller calls: what it observes goes in, what the master proposes comes out.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::{Arc, PoisonError};

use flexor_wire::master::v1 as wire;
use flexor_wire::master::v1::control_server::Control;
use futures::{Stream, StreamExt};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use crate::job::Job;
use crate::recorder::What;

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
        self.job.with(|store, now, out| store.expect(self.job.run(), nodes, now, out));
        Ok(Response::new(wire::Done {}))
    }

    async fn node_gone(&self, request: Request<wire::NodeGoneRequest>) -> Result<Response<wire::Done>, Status> {
        let wire::NodeGoneRequest { name, detail } = request.into_inner();
        let detail = if detail.is_empty() { "its controller says so".to_owned() } else { detail };
        if !self.job.gone(&name, &detail) {
            return Err(Status::not_found(format!(
                "no member is called {name}, nor does any come from such a pod or host"
            )));
        }
        Ok(Response::new(wire::Done {}))
    }

    async fn retry(&self, _: Request<wire::RetryRequest>) -> Result<Response<wire::Done>, Status> {
        self.job.with(|store, now, out| store.reopen(self.job.run(), now, out));
        Ok(Response::new(wire::Done {}))
    }
}

/// Takes in what the controller observes until its stream ends, and tells it of verdicts. A new stream is told first
/// which runs are closed; everything else it learns from what comes.
async fn follow(
    job: Job,
    mut observed: Streaming<wire::Observed>,
    proposals: mpsc::Sender<Result<wire::Proposal, Status>>,
) {
    let mut decided = job.decided();
    let mut told = *decided.borrow_and_update();
    let closed = job.status().runs.into_iter().filter(|run| run.closed).map(|run| {
        let (reason, detail) = (run.standing.reason.to_string(), run.standing.detail);
        proposal(&job, wire::proposal::Kind::Closed(wire::RunClosed { run: run.run, reason, detail }))
    });
    let mut to_tell: Vec<wire::Proposal> = closed.collect();
    loop {
        for proposal in to_tell {
            if proposals.send(Ok(proposal)).await.is_err() {
                return;
            }
        }
        tokio::select! {
            message = observed.next() => match message {
                Some(Ok(message)) => take_in(&job, message),
                Some(Err(_)) | None => return,
            },
            _ = decided.changed() => {}
            () = proposals.closed() => return,
        }
        to_tell = news(&job, &mut told);
    }
}

fn take_in(job: &Job, observed: wire::Observed) {
    let alive = |pod: &wire::Pod| !pod.deleting && matches!(pod.phase.as_str(), "Pending" | "Running");
    let pods: BTreeMap<String, String> =
        observed.pods.into_iter().filter(alive).map(|pod| (pod.name, pod.uid)).collect();
    job.observe(&pods);
    let names: BTreeSet<Arc<str>> = pods.keys().map(|name| name.as_str().into()).collect();
    job.with(|store, now, out| {
        store.expect(job.run(), observed.expected, now, out);
        store.announce(job.run(), &names, now, out);
    });
}

/// What was decided since, as far as a controller has to know it.
fn news(job: &Job, told: &mut u64) -> Vec<wire::Proposal> {
    let decisions = job.decisions().lock().unwrap_or_else(PoisonError::into_inner);
    let fresh = decisions.latest.iter().filter(|decision| decision.number > *told);
    let proposals = fresh.filter_map(|decision| {
        let reason = decision.reason.map(|reason| reason.to_string()).unwrap_or_default();
        let detail = decision.detail.clone();
        let kind = match decision.what {
            What::Lost => {
                let node = decision.node.clone().unwrap_or_default();
                wire::proposal::Kind::Verdict(wire::Verdict { node, reason, detail })
            }
            What::Closed => wire::proposal::Kind::Closed(wire::RunClosed { run: decision.run.clone(), reason, detail }),
            What::Joined
            | What::Spared
            | What::Left
            | What::Finished
            | What::Ended
            | What::RoundComplete
            | What::Reopened
            | What::Expected => return None,
        };
        Some(proposal(job, kind))
    });
    let proposals: Vec<_> = proposals.collect();
    *told = decisions.latest.back().map_or(*told, |decision| decision.number);
    proposals
}

fn proposal(job: &Job, kind: wire::proposal::Kind) -> wire::Proposal {
    wire::Proposal { generation: job.generation().0, kind: Some(kind) }
}
