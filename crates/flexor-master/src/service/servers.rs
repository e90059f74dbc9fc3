//! The service that parameter servers and their clients call.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use flexor_engine::Cause;
use flexor_engine::psmembers::{Partition, ServerId};
use flexor_model::Reason;
use flexor_wire::master::v1 as wire;
use flexor_wire::master::v1::servers_server::Servers;
use futures::{Stream, StreamExt};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use crate::job::Job;
use crate::servers::{Closed, Told};

/// How many messages wait for a server that reads slowly; plans replace one another, so that none piles up.
const WAITING: usize = 4;

/// How long after, while nothing can be written down.
const TRY_AGAIN: Duration = Duration::from_millis(500);

/// How often a server is told all that is closed, and not only what is new: a partition may have come to its place, and a
/// batch to a copy, behind the word of it.
const ALL_CLOSED: Duration = Duration::from_secs(10);

/// How long a server may take for its first message.
const HELLO: Duration = Duration::from_secs(10);

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
impl Servers for ServersService {
    type ServeStream = Messages<wire::ToServer>;
    type FollowStream = Messages<wire::ServerMap>;

    async fn serve(
        &self,
        request: Request<Streaming<wire::FromServer>>,
    ) -> Result<Response<Self::ServeStream>, Status> {
        let mut reports = request.into_inner();
        let Ok(first) = tokio::time::timeout(HELLO, reports.next()).await else {
            return Err(Status::deadline_exceeded("a server says hello as soon as it is connected"));
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
        let (messages, receiver) = mpsc::channel(WAITING);
        let begun = self.job.servers().session_begun(&server, &address);
        let begun = begun.and_then(|()| if leaving { self.job.servers().leaves(&server) } else { Ok(()) });
        match begun {
            Err(cause) if cause.reason == Reason::JournalFull => return Err(not_now(&cause)),
            Ok(()) => {
                let session = Session { job: self.job.clone(), server };
                tokio::spawn(session.follow(reports, messages));
            }
            // An error of the stream would look like a master that is away; this one is for good.
            Err(cause) => {
                let refusal = wire::to_server::Message::Refusal(refusal(&cause));
                let _ = messages.send(Ok(to_server(&self.job, refusal))).await;
            }
        }
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn follow(&self, _: Request<wire::FollowServers>) -> Result<Response<Self::FollowStream>, Status> {
        let mut told = self.job.servers().told();
        told.mark_changed();
        let maps = futures::stream::unfold((told, None), async |(mut told, last)| {
            loop {
                told.changed().await.ok()?;
                let map = told.borrow_and_update().map.clone();
                if last.as_ref() != Some(&map) {
                    return Some((Ok(map.clone()), (told, Some(map))));
                }
            }
        });
        Ok(Response::new(Box::pin(maps)))
    }

    async fn declare(&self, request: Request<wire::DeclareModel>) -> Result<Response<wire::Done>, Status> {
        let declared = self.job.servers().declare(&request.into_inner().model).await;
        declared.map_err(|cause| status(&cause))?;
        Ok(Response::new(wire::Done {}))
    }

    async fn save(&self, _: Request<wire::SaveModel>) -> Result<Response<wire::ModelSaved>, Status> {
        let saved = self.job.servers().save_at_last().await;
        let is_finished = saved.map_err(|cause| status(&cause))?;
        Ok(Response::new(wire::ModelSaved { unfinished: !is_finished }))
    }
}

/// A server's session; it ends with whoever holds this.
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
        let mut news = News::new(self.job.servers());
        news.look(&self.server);
        loop {
            tokio::select! {
                // What a server says is heard whether or not it listens: it may have more to say than fits on the way
                // before it does.
                place = messages.reserve(), if !news.messages.is_empty() => {
                    let (Ok(place), Some(message)) = (place, news.messages.pop_front()) else { return };
                    place.send(Ok(to_server(&self.job, message)));
                },
                is_there = news.changed(&self.server), if news.messages.is_empty() => if !is_there {
                    return;
                },
                report = reports.next() => match report {
                    Some(Ok(wire::FromServer {
                        message: Some(wire::from_server::Message::NeedSteps(wire::NeedSteps { first })),
                    })) => {
                        let steps = self.job.servers().steps_from(first);
                        news.messages.extend(steps.map(wire::to_server::Message::Steps));
                    }
                    Some(Ok(wire::FromServer { message: Some(report) })) => {
                        // What cannot be written down now can be when the disk has room again.
                        while !self.take(report.clone()) {
                            tokio::select! {
                                () = tokio::time::sleep(TRY_AGAIN) => {}
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

    /// Takes what a server says; whether that is done with, or has to be tried again.
    fn take(&self, report: wire::from_server::Message) -> bool {
        let servers = self.job.servers();
        let server = &self.server;
        let taken = match report {
            wire::from_server::Message::Hello(_) | wire::from_server::Message::NeedSteps(_) => Ok(()),
            wire::from_server::Message::Copy(copy) => {
                let (partition, number) = (Partition(copy.partition), copy.number);
                match copy.state() {
                    wire::copy_report::State::Copying => servers.report(|members, now, _| {
                        members.copying(server, partition, number, now);
                    }),
                    wire::copy_report::State::Synced => servers.report(|members, now, facts| {
                        members.synced(server, partition, number, now, facts);
                    }),
                    wire::copy_report::State::Frozen => servers.report(|members, now, facts| {
                        members.frozen(server, partition, number, now, facts);
                    }),
                    wire::copy_report::State::Failed => {
                        // There is one for each partition; who has lost its way to the copies has said so once.
                        tracing::debug!(%server, %partition, detail = copy.detail, "a copy cannot be made");
                        servers.report(|members, now, facts| members.failed(server, partition, number, now, facts))
                    }
                    wire::copy_report::State::Unspecified => Ok(()),
                }
            }
            wire::from_server::Message::Unreachable(missing) => servers.report(|members, now, facts| {
                let keeper = missing.server.unwrap_or_default();
                let keeper = ServerId::new(keeper.name, keeper.incarnation);
                let partitions: Vec<Partition> = missing.partitions.iter().copied().map(Partition).collect();
                members.unreachable(server, &partitions, &keeper, now, facts);
            }),
            wire::from_server::Message::Found(found) => servers.found(&found),
            wire::from_server::Message::Save(report) => servers.save_report(server, report),
            wire::from_server::Message::Begun(report) => servers.begin_report(server, &report),
            wire::from_server::Message::Leaving(_) => servers.leaves(server),
            wire::from_server::Message::Load(load) => {
                servers.load(server, load);
                Ok(())
            }
        };
        if let Err(cause) = &taken {
            tracing::warn!(%server, %cause, "what a server said could not be written down");
        }
        !matches!(taken, Err(cause) if cause.reason == Reason::JournalFull)
    }
}

/// What there is to tell a server. It is looked at when everything before was sent, so that plans replace one another.
struct News {
    told: watch::Receiver<Arc<Told>>,
    closed: watch::Receiver<Arc<Closed>>,
    /// What it was told of that.
    known_closed: Arc<Closed>,
    /// When it is told all of it again.
    all_closed: Instant,
    plan: Option<wire::ServerPlan>,
    steps: Option<wire::StepsTaken>,
    messages: VecDeque<wire::to_server::Message>,
}

impl News {
    fn new(servers: &crate::servers::Servers) -> Self {
        let (told, closed, known_closed) = (servers.told(), servers.closed(), Arc::default());
        let all_closed = Instant::now() + ALL_CLOSED;
        Self { told, closed, known_closed, all_closed, plan: None, steps: None, messages: VecDeque::new() }
    }

    /// Waits until there is something; whether there is still anybody who could have any.
    async fn changed(&mut self, server: &ServerId) -> bool {
        tokio::select! {
            changed = self.told.changed() => {
                self.look(server);
                changed.is_ok()
            },
            Ok(()) = self.closed.changed() => {
                self.close();
                true
            },
            () = tokio::time::sleep_until(self.all_closed) => {
                self.close_again();
                true
            },
        }
    }

    /// What a server is told, as far as it is new.
    fn look(&mut self, server: &ServerId) {
        let (plan, steps) = {
            let told = self.told.borrow_and_update();
            (Some(told.to(server)), told.steps.clone())
        };
        if self.plan != plan {
            let map = |plan: &Option<wire::ServerPlan>| plan.as_ref().and_then(|plan| plan.map.clone());
            let is_mapped_anew = map(&self.plan) != map(&plan);
            self.plan.clone_from(&plan);
            self.messages.extend(plan.map(wire::to_server::Message::Plan));
            // What it is given by a map, or begins again with, may not know what was closed before.
            if is_mapped_anew {
                self.close_again();
            }
        }
        // Behind the map, by which a server knows of which history they are.
        if steps.is_some() && self.steps != steps {
            self.steps.clone_from(&steps);
            self.messages.extend(steps.map(wire::to_server::Message::Steps));
        }
    }

    /// What is closed, as far as it is new.
    fn close(&mut self) {
        let closed = self.closed.borrow_and_update().clone();
        let ranges = closed.beyond(&self.known_closed);
        self.known_closed = closed;
        if !ranges.is_empty() {
            self.messages.push_back(wire::to_server::Message::Closed(wire::ClosedBatches { ranges }));
        }
    }

    /// All that is closed.
    fn close_again(&mut self) {
        self.known_closed = Arc::default();
        self.all_closed = Instant::now() + ALL_CLOSED;
        self.close();
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.job.servers().session_ended(&self.server);
    }
}

fn to_server(job: &Job, message: wire::to_server::Message) -> wire::ToServer {
    wire::ToServer { generation: job.generation().0, message: Some(message) }
}

/// What cannot be done for good is told apart from what can be when the disk has room again.
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
