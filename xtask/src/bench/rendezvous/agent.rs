//! One simulated agent: torch's handler rules over a real connection, with its cache, its polls and its sleeps.

use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use flexor_store::state::{self, RendezvousState, SENTINEL, Stamp};

use super::handler_rules::{Action, Goal, Handler};
use super::store_client::StoreClient;

/// A state that was read is not read again for this long.
const CACHED: Duration = Duration::from_secs(1);
/// How long a handler sleeps between polls.
const POLL: Duration = Duration::from_secs(1);
/// The first round begins with a delay of up to this long.
const FIRST_DELAY: Duration = Duration::from_millis(300);

/// A connected agent.
pub(super) struct Agent {
    handler: Handler,
    client: StoreClient,
    key: Bytes,
    state: RendezvousState,
    /// The value that the state was read from.
    token: Option<Bytes>,
    read_at: Option<Instant>,
    /// Its part of the delay before a first round, 0 to 1.
    delay: f64,
}

impl Agent {
    /// Connects to a store as torchrun does when it starts.
    pub(super) async fn connect(endpoint: &str, run: &str, handler: Handler, delay: f64) -> Result<Agent> {
        let mut client = StoreClient::connect(endpoint).await?;
        let key = Bytes::from(format!("/torch.rendezvous.{run}"));
        client.compare_set(&key, Bytes::new(), Bytes::from_static(SENTINEL)).await?;
        let (state, token, read_at) = (RendezvousState::default(), None, None);
        Ok(Agent { handler, client, key, state, token, read_at, delay })
    }

    /// Leaves the world it is in, if any, and joins the next one; its rank there.
    pub(super) async fn next_rendezvous(&mut self) -> Result<u64> {
        // Torch compares with the round it knows, so that the second round is delayed too.
        if self.state.round == 0 {
            tokio::time::sleep(FIRST_DELAY.mul_f64(self.delay)).await;
        }
        self.pursue(Goal::Exit).await?;
        self.pursue(Goal::Join).await?;
        self.handler.rank(&self.state).context("a handler has finished without a rank")
    }

    /// Writes a heartbeat if one is due.
    pub(super) async fn keep_alive(&mut self) -> Result<()> {
        self.pursue(Goal::KeepAlive).await
    }

    async fn pursue(&mut self, aim: Goal) -> Result<()> {
        self.read().await?;
        loop {
            match self.handler.next(aim, &self.state, now()) {
                Action::Finish => return Ok(()),
                Action::Closed => bail!("{} found the run closed", self.handler.node),
                Action::LookAgain => {
                    tokio::time::sleep(POLL).await;
                    self.read().await?;
                }
                Action::Write(change) => {
                    self.handler.apply(change, &mut self.state, now());
                    self.write().await?;
                }
            }
        }
    }

    async fn read(&mut self) -> Result<()> {
        if self.read_at.is_some_and(|then| then.elapsed() <= CACHED) {
            return Ok(());
        }
        let value = self.client.get(&self.key).await?;
        self.take_over(value)
    }

    async fn write(&mut self) -> Result<()> {
        let expected = self.token.take().unwrap_or(Bytes::from_static(SENTINEL));
        let desired = state::encode(&self.state).into();
        let value = self.client.compare_set(&self.key, expected, desired).await?;
        self.take_over(value)
    }

    fn take_over(&mut self, value: Bytes) -> Result<()> {
        if value == SENTINEL {
            (self.state, self.token) = (RendezvousState::default(), None);
        } else {
            self.state = state::decode(&value).context("the store holds no state of a rendezvous")?;
            self.token = Some(value);
        }
        self.read_at = Some(Instant::now());
        self.handler.remove_expired(&mut self.state, now());
        Ok(())
    }
}

fn now() -> Stamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).ok().and_then(Stamp::from_unix_micros).unwrap_or(Stamp::MAX)
}
