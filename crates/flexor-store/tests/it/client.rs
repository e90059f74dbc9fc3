//! A server in this process and plain sockets to talk to it.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use flexor_store::codec::Request;
use flexor_store::keyspace::Keyspace;
use flexor_store::server::{Handle, Limits, Server, clock_from_now};
use flexor_store::service::Service;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};

/// The timeout of every wait; long enough for a busy machine.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A server that ends with the test.
pub(crate) struct Store<S> {
    pub(crate) address: SocketAddr,
    pub(crate) handle: Handle<S>,
    _runtime: Runtime,
}

impl Store<Keyspace> {
    pub(crate) fn start() -> Store<Keyspace> {
        Store::with(Keyspace::new(), Limits::default())
    }
}

impl<S: Service> Store<S> {
    pub(crate) fn with(service: S, limits: Limits) -> Store<S> {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (address, handle) = runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let server = Server::new(listener, Arc::new(Mutex::new(service)), clock_from_now(), limits).unwrap();
            let handle = server.handle();
            tokio::spawn(server.run());
            (address, handle)
        });
        Store { address, handle, _runtime: runtime }
    }

    /// Opens a connection that has sent nothing.
    pub(crate) fn connect(&self) -> Client {
        let socket = TcpStream::connect(self.address).unwrap();
        socket.set_nodelay(true).unwrap();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        socket.set_write_timeout(Some(TIMEOUT)).unwrap();
        Client { socket }
    }

    /// Opens a connection that has sent VALIDATE and a PING.
    pub(crate) fn client(&self) -> Client {
        let mut client = self.connect();
        client.send(&Request::Validate);
        client.ping();
        client
    }
}

/// One side of a connection.
pub(crate) struct Client {
    pub(crate) socket: TcpStream,
}

impl Client {
    pub(crate) fn send(&mut self, request: &Request) {
        self.send_bytes(&request.to_bytes());
    }

    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).unwrap();
    }

    pub(crate) fn expect(&mut self, bytes: &[u8]) {
        let mut got = vec![0; bytes.len()];
        self.socket.read_exact(&mut got).unwrap();
        assert_eq!(got, bytes);
    }

    /// Checks that the connection is alive and has got no other bytes.
    pub(crate) fn ping(&mut self) {
        self.send(&Request::Ping { nonce: 0x5a17 });
        self.expect(&[0x17, 0x5a, 0, 0]);
    }

    /// Waits until the server has closed the connection without another byte.
    pub(crate) fn expect_closed(&mut self) {
        match self.socket.read(&mut [0; 64]) {
            Ok(0) => {}
            Ok(count) => panic!("{count} bytes arrived instead of the end"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}"),
        }
    }
}

/// Waits until a condition is true.
pub(crate) fn eventually(what: &str, is_true: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_true() {
        assert!(start.elapsed() < TIMEOUT, "{what} did not come true in {TIMEOUT:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
