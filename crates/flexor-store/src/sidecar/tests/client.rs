//! A raw TCPStore client.

use std::io;
use std::net::SocketAddr;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::soon;
use crate::codec::Request;

pub(super) struct Client(TcpStream);

impl Client {
    pub(super) async fn connect(address: SocketAddr) -> Client {
        let mut client = Client(TcpStream::connect(address).await.unwrap());
        client.0.set_nodelay(true).unwrap();
        client.ask(Request::Validate).await;
        client.ask(Request::Ping { nonce: 17 }).await;
        assert_eq!(client.read::<4>().await, 17u32.to_le_bytes());
        client
    }

    pub(super) async fn ask(&mut self, request: Request) {
        self.send(&request.to_bytes()).await;
    }

    pub(super) async fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).await.unwrap();
    }

    /// The next bytes of a reply.
    pub(super) async fn read<const N: usize>(&mut self) -> [u8; N] {
        let mut reply = [0; N];
        soon(self.0.read_exact(&mut reply)).await.expect("the connection stays");
        reply
    }

    /// Whether no bytes have arrived.
    pub(super) fn has_no_reply(&self) -> bool {
        matches!(self.0.try_read(&mut [0]), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Waits until the other side has closed the connection. Returns the bytes before that.
    pub(super) async fn read_to_end(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        // A reset counts as the end.
        let _ = soon(self.0.read_to_end(&mut rest)).await;
        rest
    }

    pub(super) async fn set(&mut self, key: &str, value: &str) {
        self.ask(Request::Set { key: own(key), value: own(value) }).await;
    }

    /// WAIT and GET, as torch does it.
    pub(super) async fn get(&mut self, key: &str) -> String {
        self.wait(key).await;
        self.ask(Request::Get { key: own(key) }).await;
        self.value().await
    }

    pub(super) async fn wait(&mut self, key: &str) {
        self.ask(Request::Wait { keys: vec![own(key)] }).await;
        assert_eq!(self.read().await, [0]);
    }

    pub(super) async fn add(&mut self, key: &str) -> i64 {
        self.ask(Request::Add { key: own(key), delta: 1 }).await;
        i64::from_le_bytes(self.read().await)
    }

    pub(super) async fn compare_set(&mut self, key: &str, expected: &str, desired: &str) -> String {
        self.ask(Request::CompareSet { key: own(key), expected: own(expected), desired: own(desired) }).await;
        self.value().await
    }

    pub(super) async fn barrier(&mut self, key: &str, world_size: i64) {
        self.ask(Request::Barrier { key: own(key), world_size }).await;
        assert_eq!(self.read().await, [0]);
    }

    async fn value(&mut self) -> String {
        let length = u64::from_le_bytes(self.read().await);
        let mut value = vec![0; usize::try_from(length).unwrap()];
        soon(self.0.read_exact(&mut value)).await.unwrap();
        String::from_utf8(value).unwrap()
    }
}

fn own(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}
