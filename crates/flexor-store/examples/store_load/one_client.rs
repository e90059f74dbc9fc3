//! One client that sends as fast as the server answers.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use anyhow::{Context, Result};
use bytes::Bytes;
use flexor_store::codec::Request;

use crate::load::Measured;
use crate::socket;

pub(crate) struct OneClient {
    stream: TcpStream,
}

/// Times in seconds, of all round trips and of a single one.
pub(crate) struct Times {
    pub(crate) all: f64,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

impl Times {
    pub(crate) fn of(all: f64, mut each: Vec<f64>) -> Result<Times> {
        each.sort_by(f64::total_cmp);
        let at = |share: f64| each.get((each.len() as f64 * share) as usize).copied().context("nothing was measured");
        Ok(Times { all, p50: at(0.50)?, p99: at(0.99)? })
    }
}

impl From<Times> for Measured {
    fn from(times: Times) -> Measured {
        vec![("all", times.all), ("p50", times.p50), ("p99", times.p99)]
    }
}

impl OneClient {
    pub(crate) fn connect(address: SocketAddr) -> Result<OneClient> {
        let mut client = OneClient { stream: socket::connected(address)?.into() };
        let (greeting, answer) = socket::greeting();
        client.round_trip(&greeting, &mut vec![0; answer])?;
        Ok(client)
    }

    pub(crate) fn set(&mut self, key: &Bytes, length: usize) -> Result<()> {
        let set = Request::Set { key: key.clone(), value: vec![b'v'; length].into() };
        Ok(self.stream.write_all(&set.to_bytes())?)
    }

    /// Sends a request many times without waiting for the replies, which have the given length. Returns the seconds until
    /// the last reply. The reply to a final PING shows that requests without a reply were served.
    pub(crate) fn pipelined(&mut self, request: &Request, count: usize, reply: usize) -> Result<f64> {
        const TOGETHER: usize = 500;
        let bytes = request.to_bytes().repeat(TOGETHER);
        let mut writer = self.stream.try_clone()?;
        let start = Instant::now();
        let writing = std::thread::spawn(move || -> std::io::Result<()> {
            (0..count / TOGETHER).try_for_each(|_| writer.write_all(&bytes))?;
            writer.write_all(&Request::Ping { nonce: 1 }.to_bytes())
        });
        let mut missing = count / TOGETHER * TOGETHER * reply + 4;
        let mut buffer = vec![0; 256 << 10];
        while missing > 0 {
            let read = self.stream.read(&mut buffer)?;
            anyhow::ensure!(0 < read && read <= missing, "the server closed, or sent too much");
            missing -= read;
        }
        let seconds = start.elapsed().as_secs_f64();
        writing.join().ok().context("the writer panicked")??;
        Ok(seconds)
    }

    /// Sends a request many times and waits for each reply.
    pub(crate) fn ping_pong(&mut self, request: &Request, count: usize, reply: usize) -> Result<Times> {
        let (bytes, mut buffer) = (request.to_bytes(), vec![0; reply]);
        let mut each = Vec::with_capacity(count);
        let start = Instant::now();
        for _ in 0..count {
            let sent = Instant::now();
            self.round_trip(&bytes, &mut buffer)?;
            each.push(sent.elapsed().as_secs_f64());
        }
        Times::of(start.elapsed().as_secs_f64(), each)
    }

    fn round_trip(&mut self, bytes: &[u8], reply: &mut [u8]) -> Result<()> {
        self.stream.write_all(bytes)?;
        Ok(self.stream.read_exact(reply)?)
    }
}
