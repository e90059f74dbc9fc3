//! The session of a server with its master: sends reports and load, and carries out plans. Reconnects after a failure.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::Duration;

use flexor_wire::Token;
use flexor_wire::master::v1 as master;
use flexor_wire::master::v1::ps_membership_client::PsMembershipClient;
use thiserror::Error;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use super::plan_executor::PlanError;
use super::{Reports, Server};
use crate::dial::{MAX_MESSAGE, is_final};

/// How often the server reports its load.
const LOAD_EVERY: Duration = Duration::from_secs(1);
/// Interval and number of the first load reports, which come sooner for the sake of short jobs.
const FIRST_LOADS: (Duration, u32) = (Duration::from_millis(200), 20);
/// Reports that may wait to be sent.
const MAX_QUEUED: usize = 256;
/// Reports from this time before a session broke may be lost. Keep-alive ends a dead connection within it.
const IN_DOUBT: Duration = Duration::from_secs(10);

/// Why a session ended for good.
#[derive(Debug, Error)]
pub enum SessionError {
    /// A later incarnation has connected, or another final reason.
    #[error("the master refuses this server: {0}")]
    Refused(String),
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error("the master's address cannot be used: {0}")]
    Address(String),
}

/// Follows the master at this address until it refuses the server. While the master is unreachable, the server keeps
/// serving clients.
pub async fn follow_master(
    server: &Server,
    master: &str,
    my_address: &str,
    mut reports: Reports,
) -> Result<(), SessionError> {
    let endpoint = server.0.dialer.endpoint(master).map_err(|error| SessionError::Address(error.to_string()))?;
    let mut generation = 0;
    let mut recent = RecentReports::default();
    let mut reconnect = endpoint.reconnect();
    loop {
        reconnect.next_attempt().await;
        if let Some(outage) = reconnect.outage_to_report() {
            tracing::warn!(master, ?outage, "cannot reach the master; will keep trying");
        }
        if let Ok(channel) = endpoint.connect().await {
            let mut client = PsMembershipClient::with_interceptor(channel, Token::carried(server.0.token.as_ref()))
                .max_decoding_message_size(MAX_MESSAGE);
            let (outgoing, receiver) = mpsc::channel(MAX_QUEUED);
            let name = server.name();
            let incarnation = master::Node { name: name.name.clone(), incarnation: name.incarnation };
            let hello = master::ServerHello {
                server: Some(incarnation),
                address: my_address.to_owned(),
                leaving: server.0.is_leaving.load(Ordering::Acquire),
            };
            let hello = master::FromServer { message: Some(master::from_server::Message::Hello(hello)) };
            let hello_sent = outgoing.send(hello).await;
            let opened = match hello_sent {
                Ok(()) => client.serve(ReceiverStream::new(receiver)).await,
                Err(_) => Err(Status::unavailable("the first message cannot be sent")),
            };
            if let Err(status) = &opened
                && is_final(status)
            {
                return Err(SessionError::Refused(status.message().to_owned()));
            }
            if let Ok(messages) = opened {
                reconnect.established();
                let session = Session {
                    server,
                    outgoing,
                    reports: &mut reports,
                    recent: &mut recent,
                    generation: &mut generation,
                };
                // A master that has not journalled the found checkpoints needs the report again.
                server.0.has_listed_checkpoints.store(false, Ordering::Release);
                server.set_connected(true);
                let followed = session.follow(messages.into_inner()).await;
                server.set_connected(false);
                followed?;
            }
        }
    }
}

impl Server {
    fn set_connected(&self, is_connected: bool) {
        self.0.is_connected.store(is_connected, Ordering::Release);
        self.0.changed.notify_waiters();
    }
}

/// Recent reports, which may have to be sent again in the next session.
#[derive(Default)]
struct RecentReports {
    recent: VecDeque<(Instant, master::from_server::Message)>,
    to_resend: VecDeque<master::from_server::Message>,
}

impl RecentReports {
    fn add(&mut self, report: &master::from_server::Message) {
        if !is_awaited(report) {
            return;
        }
        let now = Instant::now();
        while self.recent.front().is_some_and(|(at, _)| now.duration_since(*at) > IN_DOUBT) {
            self.recent.pop_front();
        }
        self.recent.push_back((now, report.clone()));
    }

    /// Schedules recent reports for the new session: they may not have arrived. Duplicates do no harm.
    fn resend_recent(&mut self) {
        let recent = std::mem::take(&mut self.recent).into_iter().map(|(_, report)| report);
        self.to_resend = recent.chain(std::mem::take(&mut self.to_resend)).collect();
    }
}

struct Session<'a> {
    server: &'a Server,
    outgoing: mpsc::Sender<master::FromServer>,
    reports: &'a mut Reports,
    recent: &'a mut RecentReports,
    /// The latest generation of the master that was seen.
    generation: &'a mut u64,
}

impl Session<'_> {
    /// Runs until the stream breaks.
    async fn follow(self, mut messages: Streaming<master::ToServer>) -> Result<(), SessionError> {
        let Self { server, outgoing, reports, recent, generation } = self;
        let mut pulse = tokio::time::interval(FIRST_LOADS.0);
        let mut load_reports = 0;
        recent.resend_recent();
        loop {
            let report = tokio::select! {
                message = messages.message() => {
                    let Ok(Some(message)) = message else { return Ok(()) };
                    if message.generation < *generation {
                        // A master that another one has replaced.
                        return Ok(());
                    }
                    *generation = message.generation;
                    handle(server, message)?;
                    continue;
                }
                Some(report) = async { recent.to_resend.pop_front() }, if !recent.to_resend.is_empty() => report,
                Some(report) = reports.recv(), if recent.to_resend.is_empty() => report,
                _ = pulse.tick() => {
                    load_reports += 1;
                    if load_reports == FIRST_LOADS.1 {
                        pulse = tokio::time::interval_at(Instant::now() + LOAD_EVERY, LOAD_EVERY);
                    }
                    master::from_server::Message::Load(server.load())
                }
            };
            recent.add(&report);
            if outgoing.send(master::FromServer { message: Some(report) }).await.is_err() {
                return Ok(());
            }
        }
    }
}

/// Whether the master waits for the report, so that it must survive the session.
fn is_awaited(report: &master::from_server::Message) -> bool {
    use master::from_server::Message;
    match report {
        // Load is reported every second, unreachable backups with every plan.
        Message::Load(_) | Message::Unreachable(_) => false,
        // Progress is reported repeatedly.
        Message::Sync(sync) => sync.state() != master::sync_report::State::Syncing,
        Message::Checkpoint(checkpoint) => {
            !matches!(checkpoint.result, Some(master::checkpoint_report::Result::Writing(_)))
        }
        // An unreadable checkpoint is reported repeatedly.
        Message::Restore(restore) => restore.unreadable.is_none() || restore.damaged,
        Message::Hello(_) | Message::CheckpointsFound(_) | Message::RequestSteps(_) | Message::Leaving(_) => true,
    }
}

fn handle(server: &Server, message: master::ToServer) -> Result<(), SessionError> {
    match message.message {
        Some(master::to_server::Message::Plan(plan)) => server.apply_plan(&plan)?,
        Some(master::to_server::Message::Closed(closed)) => server.close_batches(&closed),
        Some(master::to_server::Message::Steps(steps)) => server.record_committed_steps(&steps),
        Some(master::to_server::Message::Refusal(refusal)) => {
            return Err(SessionError::Refused(format!("{}: {}", refusal.reason, refusal.detail)));
        }
        None => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use flexor_wire::master::v1::checkpoint_report::Result as CheckpointResult;
    use flexor_wire::master::v1::from_server::Message;
    use flexor_wire::master::v1::sync_report::State;

    use super::*;

    #[tokio::test]
    async fn progress_reports_are_not_sent_again() {
        let sync = |state: State| Message::Sync(master::SyncReport { state: state.into(), ..Default::default() });
        let checkpoint = |result| Message::Checkpoint(master::CheckpointReport { number: 1, result: Some(result) });
        let mut recent = RecentReports::default();
        for _ in 0..100 {
            recent.add(&sync(State::Syncing));
            recent.add(&checkpoint(CheckpointResult::Writing(true)));
            recent.add(&Message::Load(master::ServerLoad::default()));
        }
        let awaited = [
            sync(State::InSync),
            sync(State::Frozen),
            checkpoint(CheckpointResult::Held(true)),
            checkpoint(CheckpointResult::Sealed(true)),
        ];
        awaited.iter().for_each(|report| recent.add(report));
        recent.resend_recent();
        assert_eq!(Vec::from(recent.to_resend), awaited);
    }
}
