//! A store server process that ends with its owner.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

/// A running server. It ends with its standard input, which closes when this is dropped.
pub(super) struct Server {
    process: Child,
    port: u16,
}

impl Server {
    /// Starts a program that prints its port when it is ready.
    pub(super) fn start(mut command: Command) -> Result<Server> {
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut process = started.with_context(|| format!("cannot start {command:?}"))?;
        let output = process.stdout.take().context("the server's output is not connected")?;
        let mut server = Server { process, port: 0 };
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        server.port = line.trim().parse().with_context(|| format!("{command:?} printed no port: '{}'", line.trim()))?;
        Ok(server)
    }

    pub(super) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(super) fn pid(&self) -> String {
        self.process.id().to_string()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A server may be busy when its input closes; it has nothing to lose.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
