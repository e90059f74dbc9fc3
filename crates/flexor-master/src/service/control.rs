//! The service that a job's controller calls: what it observes goes in, what the master proposes comes out.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use flexor_engine::psmembers::Wanted;
use flexor_wire::master::v1 as wire;
use flexor_wire::master::v1::control_server::Control;
use futures::{Stream, StreamExt};
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use crate::job::Job;
use crate::recorder::What;
use crate::standing;

const PROPOSALS: usize = 64;
/// How often it is looked whether training stands otherwise than it did.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

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

/// Takes in what the controller observes until its stream ends, and sends it the training status, closed runs and
/// released parameter servers. A new stream gets the closed runs first.
async fn follow(
    job: Job,
    mut observed: Streaming<wire::Observed>,
    proposals: mpsc::Sender<Result<wire::Proposal, Status>>,
) {
    let mut decided = job.decided();
    let mut told = *decided.borrow_and_update();
    let closed = job.status().runs.into_iter().filter(|run| run.closed).map(|run| {
        let (reason, detail) = (run.standing.reason.to_string(), run.standing.message);
        proposal(&job, wire::proposal::Kind::Closed(wire::RunClosed { run: run.run, reason, detail }))
    });
    let mut to_tell: Vec<wire::Proposal> = closed.collect();
    let mut last = None;
    let mut released = Vec::new();
    let mut untaken: Option<wire::Observed> = None;
    let mut servers = job.servers().told();
    let (mut said, listener) = (job.audience().said(), job.audience().listen());
    let mut ticks = tokio::time::interval(LOOK_AGAIN);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let words = *said.borrow_and_update();
        let now = standing::of(&job);
        if last.as_ref() != Some(&now) {
            to_tell.push(proposal(&job, wire::proposal::Kind::Training(Box::new(now.clone()))));
            last = Some(now);
        }
        let free = servers.borrow_and_update().released.clone();
        if free != released {
            to_tell.push(proposal(&job, wire::proposal::Kind::Released(wire::ServersReleased { pods: free.clone() })));
            released = free;
        }
        for proposal in to_tell {
            if proposals.send(Ok(proposal)).await.is_err() {
                return;
            }
        }
        listener.heard(words);
        tokio::select! {
            message = observed.next() => match message {
                Some(Ok(message)) => untaken = Some(message),
                Some(Err(_)) | None => return,
            },
            _ = decided.changed() => {}
            _ = servers.changed() => {}
            _ = said.changed() => {}
            _ = ticks.tick() => {}
            () = proposals.closed() => return,
        }
        // What cannot be written down now can be when the disk has room again; a controller says only once how it stands.
        let _ = untaken.take_if(|observed| take_in(&job, observed));
        to_tell = news(&job, &mut told);
    }
}

/// Takes over how things stand; whether all of it could be written down.
fn take_in(job: &Job, observed: &wire::Observed) -> bool {
    let are_servers_taken = take_in_servers(job, observed);
    let are_workers_taken = take_in_workers(job, observed);
    let alive = |pod: &wire::Pod| !pod.deleting && matches!(pod.phase.as_str(), "Pending" | "Running");
    let pods: BTreeMap<String, String> =
        observed.pods.iter().filter(|pod| alive(pod)).map(|pod| (pod.name.clone(), pod.uid.clone())).collect();
    job.observe(&pods);
    let names: BTreeSet<Arc<str>> = pods.keys().map(|name| name.as_str().into()).collect();
    job.with(|store, now, out| {
        store.expect(job.run(), observed.expected, now, out);
        store.announce(job.run(), &names, now, out);
    });
    are_servers_taken && are_workers_taken
}

/// Who leases data and is no node of a world is lost with its pod: nobody else says so.
fn take_in_workers(job: &Job, observed: &wire::Observed) -> bool {
    let is_over = |pod: &&wire::Pod| matches!(pod.phase.as_str(), "Succeeded" | "Failed");
    let here: BTreeSet<&str> = observed.workers.iter().map(|pod| pod.name.as_str()).collect();
    let over: BTreeSet<&str> = observed.workers.iter().filter(is_over).map(|pod| pod.name.as_str()).collect();
    let taken = if here.is_empty() { Ok(()) } else { job.data().pods_stand(&here, &over) };
    if let Err(cause) = &taken {
        tracing::warn!(%cause, "what ended pods had leased cannot be taken back");
    }
    taken.is_ok()
}

/// A server that is being deleted has a while to give away what it keeps, as one that is to leave has.
fn take_in_servers(job: &Job, observed: &wire::Observed) -> bool {
    if observed.servers.is_empty() && observed.expected_servers.is_none() {
        return true;
    }
    let alive = observed.servers.iter().filter(|pod| matches!(pod.phase.as_str(), "Pending" | "Running"));
    let leaving = alive.clone().filter(|pod| pod.leaving || pod.deleting).map(|pod| pod.name.as_str().into());
    let wanted = Wanted { expected: observed.expected_servers, leaving: leaving.collect() };
    let alive: BTreeSet<String> = alive.map(|pod| pod.name.clone()).collect();
    let taken = job.servers().follow(&wanted, alive);
    if let Err(cause) = &taken {
        tracing::warn!(%cause, "what the controller wants of the parameter servers cannot be written down");
    }
    taken.is_ok()
}

/// What was decided since, as far as a controller has to know it.
fn news(job: &Job, told: &mut u64) -> Vec<wire::Proposal> {
    let decisions = job.decisions().lock().unwrap_or_else(PoisonError::into_inner);
    let fresh = decisions.latest.iter().filter(|decision| decision.number > *told);
    let proposals = fresh.filter_map(|decision| {
        let reason = decision.reason.map(|reason| reason.to_string()).unwrap_or_default();
        let detail = decision.detail.clone();
        let kind = match decision.what {
            What::Closed => wire::proposal::Kind::Closed(wire::RunClosed { run: decision.run.clone(), reason, detail }),
            What::Joined
            | What::Spared
            | What::Left
            | What::Lost
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
