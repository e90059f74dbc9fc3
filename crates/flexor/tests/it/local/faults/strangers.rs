//! Tests connections that say nothing, or half of something, on every port: they are closed, clients that are quiet for a
//! reason are not, and a process without file descriptors rests.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use flexor_store::codec::Request;
use flexor_wire::master::v1 as wire;
use flexor_wire::master::v1::master_client::MasterClient;
use flexor_wire::master::v1::ps_membership_client::PsMembershipClient;
use serde_json::json;

use super::super::data::api;
use super::super::launch::launcher::Launcher;
use super::super::verbs::laptop::{Laptop, dlrover};
use super::deadline::{PATIENCE, eventually};
use super::http;
use super::master::{Master, Ports, master};
use super::process::{Process, inside, server};
use super::store_client::StoreClient;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// An empty SETTINGS frame.
const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
/// The head of a HEADERS frame of 40 bytes, and the first of them.
const HALF_HEADERS: &[u8] = &[0, 0, 40, 1, 4, 0, 0, 0, 1, 0x83];
const HALF_BODY: &[u8] =
    b"POST /api/expected HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{";

/// What strangers send to a port of gRPC.
fn half_of_http2() -> Vec<Vec<u8>> {
    vec![vec![], PREFACE[..9].to_vec(), PREFACE[..23].to_vec(), [PREFACE, SETTINGS, HALF_HEADERS].concat()]
}

/// What they send to a port that also speaks HTTP/1.
fn half_of_http() -> Vec<Vec<u8>> {
    let http1 = [&b"GET /live HTTP/1.1\r\nHost: "[..], b"G", HALF_BODY];
    half_of_http2().into_iter().chain(http1.map(<[u8]>::to_vec)).collect()
}

/// What they send to a TCPStore: nothing, half of VALIDATE, and half of a SET.
fn half_of_a_store_request() -> Vec<Vec<u8>> {
    let half_a_set = [0, 0xce, 0xf7, 0x85, 0x3c, 1, 3, 0, 0, 0, 0, 0, 0, 0, b'/'];
    vec![vec![], vec![0, 0xce], half_a_set.to_vec()]
}

/// A parameter server at an address of its own, once it serves.
fn parameter_server(mut command: Command) -> (Launcher, SocketAddr) {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let running = Launcher::start(command.args(["--listen", &address.to_string()]));
    eventually("a parameter server", || TcpStream::connect(address).ok());
    (running, address)
}

/// Waits until the other end has closed a connection.
fn is_closed(socket: &mut impl Read) -> bool {
    match socket.read_to_end(&mut Vec::new()) {
        Ok(_) => true,
        // A reset is an end, too.
        Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
    }
}

#[test]
fn idle_strangers_are_closed_on_every_port_and_quiet_clients_are_not() {
    let master = Master::start("1:2");
    let sidecar = Process::sidecar("pod", master.ports.grpc);
    let listen = sidecar.address("listen");
    let (_ps, ps) = parameter_server(server(&["ps", "--master", &master.ports.grpc.to_string(), "--name", "ps-0"]));
    let sgd = ["ps", "--elasticdl", "--opt-type", "SGD", "--opt-args", "learning_rate=0.1;momentum=0.0;nesterov=False"];
    let (_elasticdl, elasticdl) = parameter_server(server(&sgd));
    let laptop = Laptop::with(&[dlrover("torch-mnist")]);

    let mut waiting = [master.ports.store, listen].map(|store| StoreClient::connect(store).unwrap());
    for client in &mut waiting {
        client.send(&Request::Wait { keys: vec!["/late".into()] }).unwrap();
    }
    api::post(master.ports.grpc, "datasets", &json!({ "name": "d", "records": 1, "batch": 1 }));
    let lease = json!({ "worker": "w", "holds": [] });
    assert_eq!(api::post(master.ports.grpc, "datasets/d/lease", &lease).0, 200);
    let poll = json!({ "worker": "other", "waitMs": 28_000 });
    let grpc = master.ports.grpc;
    let polling = thread::spawn(move || api::post(grpc, "datasets/d/lease", &poll));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut streams = runtime.block_on(QuietStreams::open(grpc));

    let began = Instant::now();
    let mut strangers: Vec<(String, TcpStream)> = Vec::new();
    for (port, address, sent) in [
        ("gRPC", grpc, half_of_http()),
        ("probes", master.ports.http, half_of_http()),
        ("store", master.ports.store, half_of_a_store_request()),
        ("sidecar", listen, half_of_a_store_request()),
        ("ps", ps, half_of_http2()),
        ("ps --elasticdl", elasticdl, half_of_http2()),
    ] {
        for bytes in sent {
            let mut socket = TcpStream::connect(address).unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            socket.write_all(&bytes).unwrap();
            strangers.push((format!("{port}: {:?}", String::from_utf8_lossy(&bytes)), socket));
        }
    }
    let mut of_the_api = Vec::new();
    for bytes in [&b""[..], &PREFACE[..9]] {
        let mut socket = UnixStream::connect(laptop.state_dir().join("socket")).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.write_all(bytes).unwrap();
        of_the_api.push(socket);
    }
    for (what, socket) in &mut strangers {
        assert!(is_closed(socket), "{what} is open after {:?}", began.elapsed());
        println!("{:?}: {what}", began.elapsed());
    }
    assert!(of_the_api.iter_mut().all(is_closed), "a connection to the API is open after {:?}", began.elapsed());

    let (code, answer) = polling.join().unwrap();
    assert_eq!(code, 200, "a long poll is answered: {answer}");
    assert!(runtime.block_on(streams.are_open()), "quiet streams are open after {:?}", began.elapsed());
    StoreClient::connect(master.ports.store).unwrap().set("/late", "now").unwrap();
    for client in &mut waiting {
        assert_eq!(client.read_byte().unwrap(), 0, "a WAIT is answered");
    }
}

/// Streams on which nothing is sent: one that the client opened and then said nothing on, one that the server has
/// nothing to say on.
struct QuietStreams {
    session: tonic::Streaming<wire::Reply>,
    maps: tonic::Streaming<wire::PartitionMap>,
    _requests: tokio::sync::mpsc::Sender<wire::Request>,
}

impl QuietStreams {
    async fn open(grpc: SocketAddr) -> Self {
        let channel = tonic::transport::Channel::from_shared(format!("http://{grpc}")).unwrap();
        let channel = channel.connect().await.unwrap();
        let (requests, receiver) = tokio::sync::mpsc::channel(1);
        let receiver = tokio_stream::wrappers::ReceiverStream::new(receiver);
        let session = MasterClient::new(channel.clone()).session(receiver).await.unwrap().into_inner();
        let request = wire::WatchPartitionMapRequest::default();
        let maps = PsMembershipClient::new(channel).watch_partition_map(request).await.unwrap().into_inner();
        Self { session, maps, _requests: requests }
    }

    async fn are_open(&mut self) -> bool {
        let limit = Duration::from_secs(1);
        while let Ok(map) = tokio::time::timeout(limit, self.maps.message()).await {
            if !matches!(map, Ok(Some(_))) {
                return false;
            }
        }
        tokio::time::timeout(limit, self.session.message()).await.is_err()
    }
}

/// The descriptors that the processes of the next test may have.
const DESCRIPTORS: &str = r#"ulimit -n 64; exec "$@""#;

/// The processor time of a process.
fn processor_time(process: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let after_name = stat.rsplit_once(')').unwrap().1;
    let ticks: u64 = after_name.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 10)
}

/// Checks that a process does not spin while strangers hold more connections than it has descriptors.
fn assert_rests(process: u32, port: SocketAddr, mut meanwhile: impl FnMut()) {
    let strangers: Vec<_> = (0..200).filter_map(|_| TcpStream::connect(port).ok()).collect();
    assert!(strangers.len() > 64, "only {} connections", strangers.len());
    let (began, before) = (Instant::now(), processor_time(process));
    while began.elapsed() < Duration::from_secs(3) {
        meanwhile();
        thread::sleep(Duration::from_millis(50));
    }
    let (used, wall) = (processor_time(process) - before, began.elapsed());
    assert!(used < wall / 3, "{used:?} of processor time in {wall:?}");
}

#[test]
fn a_process_without_descriptors_rests_and_its_probes_answer() {
    let limited = |command: &Command| inside(Command::new("sh"), DESCRIPTORS, Path::new("sh"), command);
    let master = Master::run(&mut limited(&master("1:2", Ports::free())));
    for port in [master.ports.grpc, master.ports.store] {
        assert_rests(master.id(), port, || {
            assert_eq!(http::get(master.ports.http, "/live").0, 200);
            assert_eq!(http::get(master.ports.http, "/ready").0, 200);
        });
    }
    eventually("room for clients again", || http::try_get(master.ports.grpc, "/api/status", "none").ok());
    let address = master.ports.grpc.to_string();
    let (ps, port) = parameter_server(limited(&server(&["ps", "--master", &address, "--name", "ps-0"])));
    assert_rests(ps.id().as_raw().unsigned_abs(), port, || {});
}
