//! Tests invalid bytes and oversized lengths on every port.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

use flexor_store::codec::{Opcode, Request};

use super::deadline::PATIENCE;
use super::master::Master;
use super::process::Process;
use super::random::Random;
use super::store_client::StoreClient;

const FOUR_GIB: u64 = 1 << 32;
/// A server that believed the lengths would need thousands; a debug build with all its threads is below 40.
const ENOUGH_MIB: u64 = 128;
const RANDOM: usize = 100;

/// A master and a sidecar, with all the ports they have.
struct Targets {
    master: Master,
    sidecar: Process,
}

impl Targets {
    fn start() -> Self {
        let master = Master::start("1:2");
        let sidecar = Process::sidecar("pod", master.ports.grpc);
        Self { master, sidecar }
    }

    fn stores(&self) -> [SocketAddr; 2] {
        [self.master.ports.store, self.sidecar.address("listen")]
    }

    fn ports(&self) -> [SocketAddr; 4] {
        let [store, listen] = self.stores();
        [store, listen, self.master.ports.grpc, self.master.ports.http]
    }

    fn are_unharmed(&self) {
        assert_eq!(self.master.ready().0, 200);
        assert_eq!(self.master.status()["job"], "mnist");
        for store in self.stores() {
            StoreClient::connect(store).unwrap().add("/n", 1).unwrap();
        }
        for process in [&*self.master, &self.sidecar] {
            let peak = process.peak_memory();
            println!("at most {peak} MiB");
            assert!(peak < ENOUGH_MIB, "{peak} MiB");
            assert!(!process.log().contains("panicked"), "{}", process.log());
        }
    }
}

/// Opens a connection and sends bytes; the server may close it before they are complete.
fn say(address: SocketAddr, bytes: &[u8]) -> TcpStream {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let _ = socket.write_all(bytes);
    socket
}

/// Whether the server ends the connection when no more bytes follow.
fn ends(mut socket: TcpStream) -> bool {
    let _ = socket.shutdown(Shutdown::Write);
    let Err(error) = socket.read_to_end(&mut Vec::new()) else { return true };
    // A reset is an end, too.
    !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

#[test]
fn garbage_on_any_port_affects_no_other_client() {
    let targets = Targets::start();
    let mut random = Random::new();
    let mut open = Vec::new();
    for port in targets.ports() {
        for _ in 0..RANDOM {
            let length = usize::try_from(1 + random.below(3000)).unwrap();
            let mut bytes = random.bytes(length);
            if random.one_in(2) {
                // Half of it gets behind the greeting.
                bytes.splice(0..0, greeting(&mut random));
            }
            open.push(say(port, &bytes));
        }
    }
    targets.are_unharmed();
    assert!(open.into_iter().all(ends));
}

#[test]
fn lengths_beyond_reason_are_not_believed() {
    let targets = Targets::start();
    let mut open = Vec::new();
    for store in targets.stores() {
        for opcode in Opcode::ALL {
            if matches!(
                opcode,
                Opcode::Validate | Opcode::Ping | Opcode::GetNumKeys | Opcode::CancelWait | Opcode::ListKeys
            ) {
                continue;
            }
            // The first field after these is a length or a count.
            let bytes = [&Request::Validate.to_bytes()[..], &[opcode as u8], &FOUR_GIB.to_le_bytes()].concat();
            let mut socket = say(store, &bytes);
            assert_eq!(socket.read(&mut [0]).unwrap_or(0), 0, "{opcode:?} with 4 GiB is refused at once");
        }
        let value_of_4_gib =
            [&Request::Validate.to_bytes()[..], &[1, 1, 0, 0, 0, 0, 0, 0, 0, b'k'], &FOUR_GIB.to_le_bytes()];
        assert_eq!(say(store, &value_of_4_gib.concat()).read(&mut [0]).unwrap_or(0), 0);
    }
    for port in [targets.master.ports.grpc, targets.master.ports.http] {
        let posts = ["/api/expected", "/api/retry", "/ready"];
        open.extend(posts.map(|path| {
            let head = format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n");
            say(port, format!("{head}Content-Length: {FOUR_GIB}\r\n\r\n{{\"nodes\": ").as_bytes())
        }));
        open.push(say(port, format!("GET /{} HTTP/1.1\r\n", "x".repeat(1 << 20)).as_bytes()));
        open.push(say(port, &[b"GET / HTTP/1.1\r\nX: ".to_vec(), vec![b'x'; 1 << 20]].concat()));
    }
    let grpc = targets.master.ports.grpc;
    for service in ["Master/Session", "Master/Call", "StoreLink/Link", "Control/SetExpected"] {
        open.push(say(grpc, &grpc_message_of_4_gib(&format!("/flexor.master.v1.{service}"))));
    }
    // A frame of the greatest length, and one of an unknown kind.
    open.push(say(grpc, &[HTTP2_PREFACE, &[0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1]].concat()));
    open.push(say(grpc, &[HTTP2_PREFACE, &frame(0xfe, 0, &[0; 100])].concat()));
    targets.are_unharmed();
    assert!(open.into_iter().all(ends));
}

#[test]
fn truncated_frames_have_no_effect() {
    let targets = Targets::start();
    let add = Request::Add { key: "/cut".into(), delta: 1 };
    let whole = [Request::Validate.to_bytes(), add.to_bytes()].concat();
    for store in targets.stores() {
        for length in 0..whole.len() {
            drop(say(store, &whole[..length]));
        }
    }
    targets.are_unharmed();
    for store in targets.stores() {
        assert_eq!(StoreClient::connect(store).unwrap().add("/cut", 0).unwrap(), 0);
    }
}

fn greeting(random: &mut Random) -> Vec<u8> {
    let greetings = [&Request::Validate.to_bytes()[..], HTTP2_PREFACE, b"GET /ready HTTP/1.1\r\n"];
    greetings[usize::try_from(random.below(3)).unwrap()].to_vec()
}

const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// An HTTP/2 frame on the first stream, or on none for those that belong to none.
fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let stream = if kind == SETTINGS { 0 } else { 1 };
    [&length[1..], &[kind, flags, 0, 0, 0, stream], payload].concat()
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const END_HEADERS: u8 = 4;

/// A call that announces a message of almost 4 GiB and sends its first bytes.
fn grpc_message_of_4_gib(path: &str) -> Vec<u8> {
    let text = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    // POST, http, and the path, by their numbers in HPACK's table; the others by name.
    let mut head = vec![0x83, 0x86, 0x04];
    head.extend(text(path));
    for (name, value) in [("content-type", "application/grpc"), ("te", "trailers")] {
        head.push(0);
        head.extend([text(name), text(value)].concat());
    }
    let message = [&[0, 0xff, 0xff, 0xff, 0xff], &[7; 1000][..]].concat();
    [HTTP2_PREFACE, &frame(SETTINGS, 0, &[]), &frame(HEADERS, END_HEADERS, &head), &frame(DATA, 0, &message)].concat()
}
