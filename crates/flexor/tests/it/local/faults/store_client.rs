//! A minimal TCPStore client: one request, one reply, over one socket without reconnection.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use bytes::Bytes;
use flexor_store::codec::Request;

use super::deadline::PATIENCE;

const NONCE: u32 = 4711;

/// A connection to a store.
pub struct StoreClient {
    socket: TcpStream,
}

impl StoreClient {
    /// Connects and sends torch's first message.
    pub fn connect(address: SocketAddr) -> io::Result<Self> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let mut client = Self { socket };
        client.send(&Request::Validate)?;
        client.ping()?;
        Ok(client)
    }

    /// Sends a request without waiting for a reply.
    pub fn send(&mut self, request: &Request) -> io::Result<()> {
        self.socket.write_all(&request.to_bytes())
    }

    /// Sends a PING.
    pub fn ping(&mut self) -> io::Result<()> {
        self.send(&Request::Ping { nonce: NONCE })?;
        assert_eq!(self.read_array()?, NONCE.to_le_bytes());
        Ok(())
    }

    /// Adds to a number and returns the sum.
    pub fn add(&mut self, key: &str, delta: i64) -> io::Result<i64> {
        self.send(&Request::Add { key: key.to_owned().into(), delta })?;
        self.read_number()
    }

    /// Stores a value.
    pub fn set(&mut self, key: &str, value: &str) -> io::Result<()> {
        self.send(&Request::Set { key: key.to_owned().into(), value: value.to_owned().into() })
    }

    /// Reads a value.
    pub fn get(&mut self, key: &str) -> io::Result<Bytes> {
        self.send(&Request::Get { key: key.to_owned().into() })?;
        self.read_value()
    }

    /// Reads a one-byte reply.
    pub fn read_byte(&mut self) -> io::Result<u8> {
        self.read_array().map(|[byte]| byte)
    }

    /// Reads a number.
    pub fn read_number(&mut self) -> io::Result<i64> {
        self.read_array().map(i64::from_le_bytes)
    }

    /// Reads a value.
    pub fn read_value(&mut self) -> io::Result<Bytes> {
        let length = u64::from_le_bytes(self.read_array()?);
        let mut value = vec![0; usize::try_from(length).unwrap()];
        self.socket.read_exact(&mut value)?;
        Ok(value.into())
    }

    /// Whether unread bytes have arrived, or the connection has ended.
    pub fn has_answer(&self) -> bool {
        self.socket.set_nonblocking(true).unwrap();
        let found = self.socket.peek(&mut [0]);
        self.socket.set_nonblocking(false).unwrap();
        !matches!(found, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// A second hand on the connection, to end it from outside.
    pub fn socket(&self) -> TcpStream {
        self.socket.try_clone().unwrap()
    }

    fn read_array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.socket.read_exact(&mut bytes)?;
        Ok(bytes)
    }
}
