//! PaddlePaddle's parameter server, from its package on PyPI: `BrpcPsServer` with tables in memory.
//!
//! Its process is Python only until it serves. Its own trainer is not the client: that is a Python program that merges
//! pushes and does not wait for them. The same kind of load as for the others ([`brpc`]) drives it: calls made before
//! the clock starts, one per client in flight, and a push is answered when it has been applied. Its figures therefore
//! contain neither Python nor fleet.
//!
//! A pull of missing rows returns zeros and creates nothing. The first push creates a row and draws its weights, so
//! that push is its first touch here.

mod brpc;
mod installed;
mod tables;

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;

pub(super) use self::installed::Installed;

use self::brpc::{Connection, PsRequest, framed};
use self::tables::{NEW, PRESENT};
use super::case::Case;
use super::keys;
use super::measure::{Lane, Lanes};
use super::our_server::{RunningServer, free_port};
use super::side::{Phase, Programs};

pub(super) const NAME: &str = "PaddlePaddle 2.6.2";

const SERVER: &str = include_str!("paddle/server.py");
/// How often it is asked whether it serves, every 100 ms: it loads for seconds.
const TRIES: u32 = 600;

const PULL: u32 = 2;
const PUSH: u32 = 3;

/// A running server.
pub(super) struct Paddle {
    server: RunningServer,
    case: Case,
}

impl Paddle {
    pub(super) async fn start(programs: &Programs, case: &Case) -> Result<Self> {
        let port = free_port()?;
        let mut command = programs.paddle.python(&programs.cores);
        command.args(["-c", SERVER, &port.to_string(), &case.clients.to_string(), &tables::description(case)]);
        let paddle = Self { server: RunningServer::start(&mut command, port)?, case: *case };
        paddle.serves().await?;
        Ok(paddle)
    }

    async fn serves(&self) -> Result<()> {
        for _ in 0..TRIES {
            if Connection::open(self.server.port()).await.is_ok() {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Connection::open(self.server.port()).await.map(drop)
    }

    pub(super) fn pid(&self) -> u32 {
        self.server.pid()
    }

    pub(super) async fn lanes(&self, phase: Phase) -> Result<Lanes> {
        let Case { batch, clients, keys, .. } = self.case;
        let mut lanes = Lanes::new();
        for client in 0..clients {
            let pulls = |requests: Vec<Vec<i64>>| requests.iter().map(|keys| self.pull(keys)).collect();
            let pushes = |table, requests: Vec<Vec<i64>>| requests.iter().map(|keys| self.push(table, keys)).collect();
            let (repeats, calls) = match phase {
                Phase::FirstTouch => (false, pushes(NEW, keys::new(batch, client, clients))),
                Phase::Fill | Phase::PushAll => (false, pushes(PRESENT, keys::present(batch, client, clients))),
                Phase::Pull => (true, pulls(keys.requests(batch, client))),
                Phase::Push => (true, pushes(PRESENT, keys.requests(batch, client))),
            };
            let connection = Connection::open(self.server.port()).await?;
            lanes.push(Box::new(Client { connection, repeats, calls }));
        }
        Ok(lanes)
    }

    fn pull(&self, keys: &[i64]) -> Call {
        let request = PsRequest { command: PULL, table: Some(PRESENT), params: vec![count(keys)], data: None };
        // The training flag; the keys; the number of occurrences of each.
        let mut attachment = vec![1];
        attachment.extend(keys.iter().flat_map(|key| key.to_le_bytes()));
        attachment.extend(std::iter::repeat_n(1_u32.to_le_bytes(), keys.len()).flatten());
        let answer = keys.len() * 4 * self.case.dim as usize;
        Call { rows: keys.len() as u64, bytes: framed(&request, &attachment), answer }
    }

    fn push(&self, table: u32, keys: &[i64]) -> Call {
        // Before its gradients a row has the slot of its feature and how often that was shown and clicked.
        let mut row: Vec<u8> = [0.0_f32, 1.0, 0.0].into_iter().flat_map(f32::to_le_bytes).collect();
        row.extend(std::iter::repeat_n(0.01_f32.to_le_bytes(), self.case.dim as usize).flatten());
        let mut data: Vec<u8> = keys.iter().flat_map(|key| key.to_le_bytes()).collect();
        keys.iter().for_each(|_| data.extend_from_slice(&row));
        let params = vec![count(keys)];
        let request = PsRequest { command: PUSH, table: Some(table), params, data: Some(data.into()) };
        Call { rows: keys.len() as u64, bytes: framed(&request, &[]), answer: 0 }
    }
}

fn count(keys: &[i64]) -> Bytes {
    // A request has 50,000 at most.
    Bytes::copy_from_slice(&(keys.len() as u32).to_le_bytes())
}

/// A call, and how many bytes are attached to its answer.
struct Call {
    rows: u64,
    bytes: Bytes,
    answer: usize,
}

struct Client {
    connection: Connection,
    repeats: bool,
    calls: Vec<Call>,
}

impl Lane for Client {
    fn ask(&mut self, turn: usize) -> Pin<Box<dyn Future<Output = Result<Option<u64>>> + Send + '_>> {
        Box::pin(async move {
            let index = if self.repeats { turn % self.calls.len() } else { turn };
            let Some(call) = self.calls.get(index) else { return Ok(None) };
            self.connection.ask(&call.bytes, call.answer).await?;
            Ok(Some(call.rows))
        })
    }
}
