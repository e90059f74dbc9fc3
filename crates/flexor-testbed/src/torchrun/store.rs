//! A stock TCPStore server in its own process, as a careful user of torchrun would run it.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, bail};

use crate::{flexor_processes::Namespace, torch::Torch};

const SCRIPT: &str = include_str!("../../python/store.py");

/// A running server; it ends with the guard, or with the process that holds it.
#[derive(Debug)]
pub struct StockStore {
    server: Child,
    port: u16,
}

impl StockStore {
    /// Starts a server on a port that the kernel chooses.
    pub fn start(torch: &Torch) -> anyhow::Result<Self> {
        Self::start_at(torch, 0)
    }

    /// Starts a server on this port, for instance where another one was.
    pub fn start_at(torch: &Torch, port: u16) -> anyhow::Result<Self> {
        Self::serve(torch.command(), port)
    }

    /// Starts a server in this network, or on loopback where there is none.
    pub fn start_in(torch: &Torch, network: Option<&Namespace>) -> anyhow::Result<Self> {
        Self::serve(network.map_or_else(|| torch.command(), |network| network.command(torch.python())), 0)
    }

    fn serve(mut python: Command, port: u16) -> anyhow::Result<Self> {
        let mut server = python
            .args(["-W", "ignore", "-c", SCRIPT, &port.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("start a stock store")?;
        let mut line = String::new();
        if let Some(stdout) = server.stdout.take() {
            BufReader::new(stdout).read_line(&mut line).context("read the port of a stock store")?;
        }
        match line.trim().parse() {
            Ok(port) => Ok(Self { server, port }),
            Err(_) => {
                let status = server.wait().context("wait for a stock store")?;
                bail!("the stock store ended with {status} before it printed its port");
            }
        }
    }

    /// Its port on loopback.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where it listens: `127.0.0.1:PORT`.
    pub fn endpoint(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.server.id()
    }

    /// Ends it at once and waits for its end.
    pub fn kill(&mut self) {
        let _ = self.server.kill().and_then(|()| self.server.wait());
    }
}

impl Drop for StockStore {
    fn drop(&mut self) {
        self.kill();
    }
}
