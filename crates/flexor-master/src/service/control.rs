//! The service for a job's controller: the master feed takes observed pods and returns proposals and the training status.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use flexor_engine::ps_membership::DesiredServers;
use flexor_wire::master::v1 as wire;
use flexor_wire::master::v1::control_server::Control;
use futures::{Stream, StreamExt};
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use crate::job::Job;
use crate::recorder::DecisionKind;
use crate::sizing::Published;
use crate::training_status;

const PROPOSALS: usize = 64;
/// How often the feed checks whether the training status has changed.
const STATUS_INTERVAL: Duration = Duration::from_millis(250);

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
        self.job.with(|state, now, out| state.expect(self.job.run(), nodes, now, out));
        Ok(Response::new(wire::Done {}))
    }

    async fn node_gone(&self, request: Request<wire::NodeGoneRequest>) -> Result<Response<wire::Done>, Status> {
        let wire::NodeGoneRequest { name, detail } = request.into_inner();
        let detail = if detail.is_empty() { "its controller reported it gone".to_owned() } else { detail };
        if !self.job.drop_pod(&name, &detail) {
            return Err(Status::not_found(format!(
                "no member is called {name}, and none runs in a pod or on a host of that name"
            )));
        }
        Ok(Response::new(wire::Done {}))
    }

    async fn retry(&self, _: Request<wire::RetryRequest>) -> Result<Response<wire::Done>, Status> {
        self.job.with(|state, now, out| state.reopen(self.job.run(), now, out));
        Ok(Response::new(wire::Done {}))
    }
}

/// Serves one feed stream: takes over what the controller observes, and sends the training status, closed runs and
/// released parameter servers. A new stream first gets the runs that are closed.
async fn follow(
    job: Job,
    mut observed: Streaming<wire::Observed>,
    proposals: mpsc::Sender<Result<wire::Proposal, Status>>,
) {
    let mut decided = job.decided();
    let mut last_decision = *decided.borrow_and_update();
    let closed = job.status().runs.into_iter().filter(|run| run.closed).map(|run| {
        let (reason, detail) = (run.status.reason.to_string(), run.status.message);
        proposal(&job, wire::proposal::Kind::Closed(wire::RunClosed { run: run.run, reason, detail }))
    });
    let mut unsent: Vec<wire::Proposal> = closed.collect();
    let (mut last_status, mut last_report) = (None, 0);
    let mut released = Vec::new();
    let (mut sizing, mut sized) = (job.sizing().published(), Published::default());
    let mut unapplied: Option<wire::Observed> = None;
    let mut servers = job.servers().published();
    let delivery = job.report_delivery();
    let (mut reports, subscription) = (delivery.published(), delivery.subscribe());
    let mut ticks = tokio::time::interval(STATUS_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let report = *reports.borrow_and_update();
        let mut sent_reports = last_report;
        let status = training_status::of(&job);
        if last_status.as_ref() != Some(&status) || last_report < report {
            unsent.push(proposal(&job, wire::proposal::Kind::Training(Box::new(status.clone()))));
            (last_status, last_report) = (Some(status), report);
        }
        let free = servers.borrow_and_update().released.clone();
        if free != released {
            unsent.push(proposal(&job, wire::proposal::Kind::Released(wire::ServersReleased { pods: free.clone() })));
            released = free;
        }
        let published = sizing.borrow_and_update().clone();
        unsent.extend(published.messages(&sized).into_iter().map(|kind| proposal(&job, kind)));
        sized = published;
        for proposal in unsent {
            // The training status contains the reports; what is sent before it does not.
            if let Some(wire::proposal::Kind::Training(_)) = &proposal.kind {
                sent_reports = report;
            }
            if proposals.send(Ok(wire::Proposal { reports: sent_reports, ..proposal })).await.is_err() {
                return;
            }
        }
        tokio::select! {
            message = observed.next() => match message {
                Some(Ok(message)) => {
                    subscription.acknowledge(message.received_reports);
                    unapplied = Some(message);
                }
                Some(Err(_)) | None => return,
            },
            _ = decided.changed() => {}
            _ = servers.changed() => {}
            _ = sizing.changed() => {}
            _ = reports.changed() => {}
            _ = ticks.tick() => {}
            () = proposals.closed() => return,
        }
        // A controller sends each observation once. If the journal does not take it, the next turn tries again.
        let _ = unapplied.take_if(|observed| apply(&job, observed));
        unsent = new_proposals(&job, &mut last_decision);
    }
}

/// Applies an observation. Returns whether the journal took all of it.
fn apply(job: &Job, observed: &wire::Observed) -> bool {
    let are_servers_applied = apply_servers(job, observed);
    let are_workers_applied = apply_workers(job, observed);
    job.sizing().observe(observed);
    let alive = |pod: &wire::Pod| !pod.deleting && matches!(pod.phase.as_str(), "Pending" | "Running");
    let pods: BTreeMap<String, String> =
        observed.pods.iter().filter(|pod| alive(pod)).map(|pod| (pod.name.clone(), pod.uid.clone())).collect();
    job.observe_pods(&pods);
    let names: BTreeSet<Arc<str>> = pods.keys().map(|name| name.as_str().into()).collect();
    job.with(|state, now, out| {
        state.expect(job.run(), observed.expected, now, out);
        state.announce(job.run(), &names, now, out);
    });
    are_servers_applied && are_workers_applied
}

/// Releases the leases of workers whose pods have ended. For workers outside of a world, the feed is the only source of
/// their loss.
fn apply_workers(job: &Job, observed: &wire::Observed) -> bool {
    let has_ended = |pod: &&wire::Pod| matches!(pod.phase.as_str(), "Succeeded" | "Failed");
    let existing: BTreeSet<&str> = observed.workers.iter().map(|pod| pod.name.as_str()).collect();
    let ended: BTreeSet<&str> = observed.workers.iter().filter(has_ended).map(|pod| pod.name.as_str()).collect();
    let result = if existing.is_empty() { Ok(()) } else { job.data().observe_pods(&existing, &ended) };
    if let Err(cause) = &result {
        tracing::warn!(%cause, "the leases of ended pods cannot be released");
    }
    result.is_ok()
}

/// Applies what the controller wants of the parameter servers. A server that is being deleted hands over its partitions
/// like one that is to leave.
fn apply_servers(job: &Job, observed: &wire::Observed) -> bool {
    if observed.servers.is_empty() && observed.expected_servers.is_none() {
        return true;
    }
    let alive = observed.servers.iter().filter(|pod| matches!(pod.phase.as_str(), "Pending" | "Running"));
    let leaving = alive.clone().filter(|pod| pod.leaving || pod.deleting).map(|pod| pod.name.as_str().into());
    let wanted = DesiredServers { expected: observed.expected_servers, leaving: leaving.collect() };
    let alive: BTreeSet<String> = alive.map(|pod| pod.name.clone()).collect();
    let result = job.servers().set_desired(&wanted, alive);
    if let Err(cause) = &result {
        tracing::warn!(%cause, "the desired parameter servers cannot be journaled");
    }
    result.is_ok()
}

/// The decisions since `last` that a controller has to know.
fn new_proposals(job: &Job, last: &mut u64) -> Vec<wire::Proposal> {
    let decisions = job.decisions().lock().unwrap_or_else(PoisonError::into_inner);
    let fresh = decisions.latest.iter().filter(|decision| decision.number > *last);
    let proposals = fresh.filter_map(|decision| {
        let reason = decision.reason.map(|reason| reason.to_string()).unwrap_or_default();
        let detail = decision.detail.clone();
        let kind = match decision.what {
            DecisionKind::Closed => {
                wire::proposal::Kind::Closed(wire::RunClosed { run: decision.run.clone(), reason, detail })
            }
            DecisionKind::Joined
            | DecisionKind::Spared
            | DecisionKind::Left
            | DecisionKind::Lost
            | DecisionKind::Finished
            | DecisionKind::Ended
            | DecisionKind::RoundComplete
            | DecisionKind::Reopened
            | DecisionKind::Expected => return None,
        };
        Some(proposal(job, kind))
    });
    let proposals: Vec<_> = proposals.collect();
    *last = decisions.latest.back().map_or(*last, |decision| decision.number);
    proposals
}

fn proposal(job: &Job, kind: wire::proposal::Kind) -> wire::Proposal {
    wire::Proposal { generation: job.generation().0, kind: Some(kind), ..wire::Proposal::default() }
}
