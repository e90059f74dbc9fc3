//! A server's session with its master: it says how far it is and what it has done, and carries out what it is told.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::Duration;

use flexor_wire::Token;
use flexor_wire::master::v1 as master;
use flexor_wire::master::v1::servers_client::ServersClient;
use thiserror::Error;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use super::planning::PlanError;
use super::{Reports, Server};
use crate::dial::{MAX_MESSAGE, is_final};

/// How often it says what it has done.
const LOAD_EVERY: Duration = Duration::from_secs(1);
/// The first times sooner, so that something is known of short jobs.
const LOAD_AT_FIRST: (Duration, u32) = (Duration::from_millis(200), 20);
const WAITING: usize = 256;
/// What was said in this time before a session broke may not have arrived. A connection at whose other end nobody is
/// does not stand for longer.
const IN_DOUBT: Duration = Duration::from_secs(10);

/// Why a server cannot go on.
#[derive(Debug, Error)]
pub enum SessionError {
    /// Another life of it has begun, or it is not wanted for another reason that stays.
    #[error("the master refuses this server: {0}")]
    Refused(String),
    /// It was told something that cannot be.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The master's address is none.
    #[error("the master's address cannot be used: {0}")]
    Address(String),
}

/// Follows the master at this address until it refuses the server. A master that is away is waited for: clients are
/// answered meanwhile.
pub async fn follow_master(
    server: &Server,
    master: &str,
    my_address: &str,
    mut reports: Reports,
) -> Result<(), SessionError> {
    let way = server.0.dialer.way_to(master).map_err(|error| SessionError::Address(error.to_string()))?;
    let mut generation = 0;
    let mut said = Said::default();
    let mut reconnect = way.reconnect();
    loop {
        reconnect.next_attempt().await;
        if let Some(outage) = reconnect.outage_to_report() {
            tracing::warn!(master, ?outage, "the master cannot be reached; keeps trying");
        }
        if let Ok(channel) = way.connect().await {
            let mut client = ServersClient::with_interceptor(channel, Token::carried(server.0.token.as_ref()))
                .max_decoding_message_size(MAX_MESSAGE);
            let (outgoing, receiver) = mpsc::channel(WAITING);
            let name = server.name();
            let life = master::Node { name: name.name.clone(), incarnation: name.incarnation };
            let hello = master::ServerHello {
                server: Some(life),
                address: my_address.to_owned(),
                leaving: server.0.is_leaving.load(Ordering::Acquire),
            };
            let hello = master::FromServer { message: Some(master::from_server::Message::Hello(hello)) };
            let greeted = outgoing.send(hello).await;
            let begun = match greeted {
                Ok(()) => client.serve(ReceiverStream::new(receiver)).await,
                Err(_) => Err(Status::unavailable("nobody takes the first word")),
            };
            if let Err(status) = &begun
                && is_final(status)
            {
                return Err(SessionError::Refused(status.message().to_owned()));
            }
            if let Ok(messages) = begun {
                reconnect.established();
                let session =
                    Session { server, outgoing, reports: &mut reports, said: &mut said, generation: &mut generation };
                // A master that has not written down what was found has to hear it again.
                server.0.has_looked.store(false, Ordering::Release);
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

/// What the master was told lately, and what has to be told again.
#[derive(Default)]
struct Said {
    lately: VecDeque<(Instant, master::from_server::Message)>,
    again: VecDeque<master::from_server::Message>,
}

impl Said {
    fn add(&mut self, report: &master::from_server::Message) {
        if !is_awaited(report) {
            return;
        }
        let now = Instant::now();
        while self.lately.front().is_some_and(|(at, _)| now.duration_since(*at) > IN_DOUBT) {
            self.lately.pop_front();
        }
        self.lately.push_back((now, report.clone()));
    }

    /// A session has just begun: what was said last in the one before may not have arrived. To hear it twice does no
    /// harm.
    fn say_again(&mut self) {
        let lately = std::mem::take(&mut self.lately).into_iter().map(|(_, report)| report);
        self.again = lately.chain(std::mem::take(&mut self.again)).collect();
    }
}

struct Session<'a> {
    server: &'a Server,
    outgoing: mpsc::Sender<master::FromServer>,
    reports: &'a mut Reports,
    said: &'a mut Said,
    /// The latest that was seen.
    generation: &'a mut u64,
}

impl Session<'_> {
    /// Until the stream breaks.
    async fn follow(self, mut messages: Streaming<master::ToServer>) -> Result<(), SessionError> {
        let Self { server, outgoing, reports, said, generation } = self;
        let mut pulse = tokio::time::interval(LOAD_AT_FIRST.0);
        let mut told = 0;
        said.say_again();
        loop {
            let report = tokio::select! {
                message = messages.message() => {
                    let Ok(Some(message)) = message else { return Ok(()) };
                    if message.generation < *generation {
                        // A master of an earlier life, which another has taken over from.
                        return Ok(());
                    }
                    *generation = message.generation;
                    take(server, message)?;
                    continue;
                }
                Some(report) = async { said.again.pop_front() }, if !said.again.is_empty() => report,
                Some(report) = reports.recv(), if said.again.is_empty() => report,
                _ = pulse.tick() => {
                    told += 1;
                    if told == LOAD_AT_FIRST.1 {
                        pulse = tokio::time::interval_at(Instant::now() + LOAD_EVERY, LOAD_EVERY);
                    }
                    master::from_server::Message::Load(server.load())
                }
            };
            said.add(&report);
            if outgoing.send(master::FromServer { message: Some(report) }).await.is_err() {
                return Ok(());
            }
        }
    }
}

/// Whether somebody waits for this word, so that it must not be lost with a session.
fn is_awaited(report: &master::from_server::Message) -> bool {
    use master::from_server::Message;
    match report {
        // The one is said every second, the other again for every plan as long as it is so.
        Message::Load(_) | Message::Unreachable(_) => false,
        // That something gets on is said as long as it does.
        Message::Copy(copy) => copy.state() != master::copy_report::State::Copying,
        Message::Save(save) => !matches!(save.result, Some(master::save_report::Result::Writing(_))),
        // That a checkpoint is out of reach is said as long as it is waited for.
        Message::Begun(begun) => begun.unreadable.is_none() || begun.damaged,
        Message::Hello(_) | Message::Found(_) | Message::NeedSteps(_) | Message::Leaving(_) => true,
    }
}

fn take(server: &Server, message: master::ToServer) -> Result<(), SessionError> {
    match message.message {
        Some(master::to_server::Message::Plan(plan)) => server.plan(&plan)?,
        Some(master::to_server::Message::Closed(closed)) => server.close(&closed),
        Some(master::to_server::Message::Steps(steps)) => server.follow_steps(&steps),
        Some(master::to_server::Message::Refusal(refusal)) => {
            return Err(SessionError::Refused(format!("{}: {}", refusal.reason, refusal.detail)));
        }
        None => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use flexor_wire::master::v1::copy_report::State;
    use flexor_wire::master::v1::from_server::Message;
    use flexor_wire::master::v1::save_report::Result as Saved;

    use super::*;

    #[tokio::test]
    async fn that_something_gets_on_is_not_said_again() {
        let copy = |state: State| Message::Copy(master::CopyReport { state: state.into(), ..Default::default() });
        let save = |result| Message::Save(master::SaveReport { number: 1, result: Some(result) });
        let mut said = Said::default();
        for _ in 0..100 {
            said.add(&copy(State::Copying));
            said.add(&save(Saved::Writing(true)));
            said.add(&Message::Load(master::ServerLoad::default()));
        }
        let awaited = [copy(State::Synced), copy(State::Frozen), save(Saved::Held(true)), save(Saved::Sealed(true))];
        awaited.iter().for_each(|report| said.add(report));
        said.say_again();
        assert_eq!(Vec::from(said.again), awaited);
    }
}
