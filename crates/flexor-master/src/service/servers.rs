//! The gRPC service for parameter servers and their clients: sessions, partition maps, and declarations.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use flexor_engine::Cause;
use flexor_engine::ps_membership::{Partition, ServerId};
use flexor_model::Reason;
use flexor_wire::master::v1 as wire;
use flexor_wire::master::v1::ps_membership_server::PsMembership;
use futures::{Stream, StreamExt};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use crate::job::Job;
use crate::servers::{Closed, PublishedState};

/// Messages that may wait for a slow server. Plans replace one another, so they do not pile up.
const MAX_QUEUED: usize = 4;

/// Pause before a report is applied again while the journal is full.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// How often a server gets all closed records again: a partition or a replicated batch may have arrived after the last list.
const RESEND_CLOSED: Duration = Duration::from_secs(10);

/// How long a server may take for its hello.
const HELLO_LIMIT: Duration = Duration::from_secs(10);

pub(super) struct ServersService {
    job: Job,
}

impl ServersService {
    pub(super) fn new(job: Job) -> Self {
        Self { job }
    }
}

type Messages<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl PsMembership for ServersService {
    type ServeStream = Messages<wire::ToServer>;
    type WatchPartitionMapStream = Messages<wire::PartitionMap>;

    async fn serve(
        &self,
        request: Request<Streaming<wire::FromServer>>,
    ) -> Result<Response<Self::ServeStream>, Status> {
        let mut reports = request.into_inner();
        let Ok(first) = tokio::time::timeout(HELLO_LIMIT, reports.next()).await else {
            return Err(Status::deadline_exceeded("a server sends its hello as soon as it is connected"));
        };
        let (server, address, leaving) = match first {
            Some(Ok(wire::FromServer { message: Some(wire::from_server::Message::Hello(hello)) })) => {
                let server = hello.server.unwrap_or_default();
                (ServerId::new(server.name, server.incarnation), hello.address, hello.leaving)
            }
            Some(Err(status)) => return Err(status),
            Some(Ok(_)) | None => return Err(Status::invalid_argument("the first message of a server is its hello")),
        };
        if server.name.is_empty() || address.is_empty() {
            return Err(Status::invalid_argument("a server has a name and an address"));
        }
        let (messages, receiver) = mpsc::channel(MAX_QUEUED);
        let opened = self.job.servers().open_session(&server, &address);
        let opened = opened.and_then(|()| if leaving { self.job.servers().drain_server(&server) } else { Ok(()) });
        match opened {
            Err(cause) if cause.reason == Reason::JournalFull => return Err(not_now(&cause)),
            Ok(()) => {
                let session = Session { job: self.job.clone(), server };
                tokio::spawn(session.follow(reports, messages));
            }
            // A stream error would look like an unreachable master; this refusal is final.
            Err(cause) => {
                let refusal = wire::to_server::Message::Refusal(refusal(&cause));
                let _ = messages.send(Ok(to_server(&self.job, refusal))).await;
            }
        }
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn watch_partition_map(
        &self,
        _: Request<wire::WatchPartitionMapRequest>,
    ) -> Result<Response<Self::WatchPartitionMapStream>, Status> {
        let mut published = self.job.servers().published();
        published.mark_changed();
        let maps = futures::stream::unfold((published, None), async |(mut published, last)| {
            loop {
                published.changed().await.ok()?;
                let map = published.borrow_and_update().map.clone();
                if last.as_ref() != Some(&map) {
                    return Some((Ok(map.clone()), (published, Some(map))));
                }
            }
        });
        Ok(Response::new(Box::pin(maps)))
    }

    async fn declare_model(&self, request: Request<wire::DeclareModelRequest>) -> Result<Response<wire::Done>, Status> {
        let declared = self.job.servers().declare(&request.into_inner().model).await;
        declared.map_err(|cause| status(&cause))?;
        Ok(Response::new(wire::Done {}))
    }

    async fn save_model(&self, _: Request<wire::SaveModelRequest>) -> Result<Response<wire::ModelSaved>, Status> {
        let saved = self.job.servers().save_final_checkpoint().await;
        let is_finished = saved.map_err(|cause| status(&cause))?;
        Ok(Response::new(wire::ModelSaved { unfinished: !is_finished }))
    }
}

/// The session of a server; it closes on drop.
struct Session {
    job: Job,
    server: ServerId,
}

impl Session {
    async fn follow(
        self,
        mut reports: Streaming<wire::FromServer>,
        messages: mpsc::Sender<Result<wire::ToServer, Status>>,
    ) {
        let mut outbox = ServerOutbox::new(self.job.servers());
        outbox.update(&self.server);
        loop {
            tokio::select! {
                // Reports are read whether or not the server reads plans: it may send more than the stream buffers first.
                permit = messages.reserve(), if !outbox.messages.is_empty() => {
                    let (Ok(permit), Some(message)) = (permit, outbox.messages.pop_front()) else { return };
                    permit.send(Ok(to_server(&self.job, message)));
                },
                is_running = outbox.changed(&self.server), if outbox.messages.is_empty() => if !is_running {
                    return;
                },
                report = reports.next() => match report {
                    Some(Ok(wire::FromServer {
                        message: Some(wire::from_server::Message::RequestSteps(wire::RequestSteps { first })),
                    })) => {
                        let steps = self.job.servers().steps_from(first);
                        outbox.messages.extend(steps.map(wire::to_server::Message::Steps));
                    }
                    Some(Ok(wire::FromServer { message: Some(report) })) => {
                        // The journal can be written again when the disk has room.
                        while !self.apply_report(report.clone()) {
                            tokio::select! {
                                () = tokio::time::sleep(RETRY_PAUSE) => {}
                                () = messages.closed() => return,
                            }
                        }
                    }
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => return,
                },
                () = messages.closed() => return,
            }
        }
    }

    /// Applies a report; returns whether it is done, or has to be retried.
    fn apply_report(&self, report: wire::from_server::Message) -> bool {
        let servers = self.job.servers();
        let server = &self.server;
        let applied = match report {
            wire::from_server::Message::Hello(_) | wire::from_server::Message::RequestSteps(_) => Ok(()),
            wire::from_server::Message::Sync(report) => {
                let (partition, sync_id) = (Partition(report.partition), report.sync_id);
                match wire::sync_report::State::try_from(report.state).unwrap_or_default() {
                    wire::sync_report::State::Syncing => servers.apply_report(|members, now, _| {
                        members.record_sync_progress(server, partition, sync_id, now);
                    }),
                    wire::sync_report::State::InSync => servers.apply_report(|members, now, facts| {
                        members.complete_sync(server, partition, sync_id, now, facts);
                    }),
                    wire::sync_report::State::Frozen => servers.apply_report(|members, now, facts| {
                        members.confirm_freeze(server, partition, sync_id, now, facts);
                    }),
                    wire::sync_report::State::Failed => {
                        // One report per partition: the log of a broken link is in the server.
                        tracing::debug!(%server, %partition, detail = report.detail, "a sync failed");
                        servers.apply_report(|members, now, facts| {
                            members.abort_sync(server, partition, sync_id, now, facts);
                        })
                    }
                    wire::sync_report::State::Unspecified => {
                        let detail = format!("a report of a sync has the state {}, which no sync has", report.state);
                        Err(Cause::new(Reason::ProtocolViolation, detail))
                    }
                }
            }
            wire::from_server::Message::Unreachable(report) => servers.apply_report(|members, now, facts| {
                let backup = report.server.unwrap_or_default();
                let backup = ServerId::new(backup.name, backup.incarnation);
                let partitions: Vec<Partition> = report.partitions.iter().copied().map(Partition).collect();
                members.drop_unreachable_backups(server, &partitions, &backup, now, facts);
            }),
            wire::from_server::Message::CheckpointsFound(found) => servers.record_found_checkpoints(&found),
            wire::from_server::Message::Checkpoint(report) => servers.record_checkpoint_report(server, report),
            wire::from_server::Message::Restore(report) => servers.record_restore_report(server, &report),
            wire::from_server::Message::Leaving(_) => servers.drain_server(server),
            wire::from_server::Message::Load(load) => {
                servers.record_load(server, load);
                Ok(())
            }
        };
        if let Err(cause) = &applied {
            tracing::warn!(%server, %cause, "cannot apply the report of a server");
        }
        !matches!(applied, Err(cause) if cause.reason == Reason::JournalFull)
    }
}

/// Messages for one server. It is updated when everything before was sent, so that plans replace one another.
struct ServerOutbox {
    published: watch::Receiver<Arc<PublishedState>>,
    closed: watch::Receiver<Arc<Closed>>,
    /// The closed records that the server has.
    known_closed: Arc<Closed>,
    /// When all closed records are sent again.
    resend_at: Instant,
    plan: Option<wire::ServerPlan>,
    steps: Option<wire::CommittedSteps>,
    messages: VecDeque<wire::to_server::Message>,
}

impl ServerOutbox {
    fn new(servers: &crate::servers::Servers) -> Self {
        let (published, closed, known_closed) = (servers.published(), servers.closed(), Arc::default());
        let resend_at = Instant::now() + RESEND_CLOSED;
        Self { published, closed, known_closed, resend_at, plan: None, steps: None, messages: VecDeque::new() }
    }

    /// Waits until there is something to send; returns whether the master still runs.
    async fn changed(&mut self, server: &ServerId) -> bool {
        tokio::select! {
            changed = self.published.changed() => {
                self.update(server);
                changed.is_ok()
            },
            Ok(()) = self.closed.changed() => {
                self.send_closed();
                true
            },
            () = tokio::time::sleep_until(self.resend_at) => {
                self.resend_closed();
                true
            },
        }
    }

    /// Queues a new plan and new steps.
    fn update(&mut self, server: &ServerId) {
        let (plan, steps) = {
            let published = self.published.borrow_and_update();
            (Some(published.plan_for(server)), published.steps.clone())
        };
        if self.plan != plan {
            let map = |plan: &Option<wire::ServerPlan>| plan.as_ref().and_then(|plan| plan.map.clone());
            let is_new_map = map(&self.plan) != map(&plan);
            self.plan.clone_from(&plan);
            self.messages.extend(plan.map(wire::to_server::Message::Plan));
            // Partitions that arrive or restart by the map may not know what was closed before.
            if is_new_map {
                self.resend_closed();
            }
        }
        // After the map, which has the rewind that the steps count from.
        if steps.is_some() && self.steps != steps {
            self.steps.clone_from(&steps);
            self.messages.extend(steps.map(wire::to_server::Message::Steps));
        }
    }

    /// Queues closed records that are new to the server.
    fn send_closed(&mut self) {
        let closed = self.closed.borrow_and_update().clone();
        let ranges = closed.beyond(&self.known_closed);
        self.known_closed = closed;
        if !ranges.is_empty() {
            self.messages.push_back(wire::to_server::Message::Closed(wire::ClosedBatches { ranges }));
        }
    }

    /// Queues all closed records.
    fn resend_closed(&mut self) {
        self.known_closed = Arc::default();
        self.resend_at = Instant::now() + RESEND_CLOSED;
        self.send_closed();
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.job.servers().close_session(&self.server);
    }
}

fn to_server(job: &Job, message: wire::to_server::Message) -> wire::ToServer {
    wire::ToServer { generation: job.generation().0, message: Some(message) }
}

/// Tells final failures apart from a full journal, which may have room later.
fn status(cause: &Cause) -> Status {
    if cause.reason == Reason::JournalFull {
        return not_now(cause);
    }
    Status::failed_precondition(cause.to_string())
}

fn not_now(cause: &Cause) -> Status {
    Status::unavailable(cause.to_string())
}

fn refusal(cause: &Cause) -> wire::Refusal {
    wire::Refusal { reason: cause.reason.to_string(), detail: cause.message.clone() }
}
