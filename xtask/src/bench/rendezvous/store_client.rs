//! A client of a TCPStore server, ours or torch's: one connection, one request at a time, as in torch.

use anyhow::{Context, Result, ensure};
use bytes::{Bytes, BytesMut};
use flexor_store::codec::{Request, STOP_WAITING};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// More than any state of a rendezvous has; a length beyond it is a sign that both sides disagree.
const MAX_VALUE: u64 = 16 << 20;

/// An open connection.
pub(super) struct StoreClient {
    stream: TcpStream,
    request: BytesMut,
}

impl StoreClient {
    /// Connects and greets the server.
    pub(super) async fn connect(endpoint: &str) -> Result<StoreClient> {
        const NONCE: u32 = 17;
        let stream = TcpStream::connect(endpoint).await.with_context(|| format!("cannot connect to {endpoint}"))?;
        stream.set_nodelay(true)?;
        let mut client = StoreClient { stream, request: BytesMut::new() };
        Request::Validate.encode(&mut client.request);
        client.send(&Request::Ping { nonce: NONCE }).await?;
        ensure!(client.stream.read_u32_le().await? == NONCE, "{endpoint} is no TCPStore: it answers no ping");
        Ok(client)
    }

    /// Waits for a key and reads it.
    pub(super) async fn get(&mut self, key: &Bytes) -> Result<Bytes> {
        self.send(&Request::Wait { keys: vec![key.clone()] }).await?;
        ensure!(self.stream.read_u8().await? == STOP_WAITING, "a wait was answered with something else");
        self.send(&Request::Get { key: key.clone() }).await?;
        self.value().await
    }

    /// Writes a value if the present one is `expected`; the value that holds afterwards.
    pub(super) async fn compare_set(&mut self, key: &Bytes, expected: Bytes, desired: Bytes) -> Result<Bytes> {
        self.send(&Request::CompareSet { key: key.clone(), expected, desired }).await?;
        self.value().await
    }

    async fn send(&mut self, request: &Request) -> Result<()> {
        request.encode(&mut self.request);
        self.stream.write_all(&self.request).await?;
        self.request.clear();
        Ok(())
    }

    async fn value(&mut self) -> Result<Bytes> {
        let length = self.stream.read_u64_le().await.context("the server closed the connection")?;
        ensure!(length <= MAX_VALUE, "a value of {length} bytes");
        let mut value = vec![0; usize::try_from(length)?];
        self.stream.read_exact(&mut value).await?;
        Ok(value.into())
    }
}
