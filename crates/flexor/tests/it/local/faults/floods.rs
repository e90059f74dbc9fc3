//! Tests overload: thousands of half-open connections, and clients that send requests and never read.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use flexor_store::codec::Request;
use flexor_testbed::skip;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::Signal;

use super::deadline::{eventually, throughout};
use super::http;
use super::master::{Master, Ports};
use super::process::{Process, inside};
use super::store_client::StoreClient;

/// On each port.
const HALF_OPEN: usize = 2000;
/// A slower answer fails the test. The kernel takes a second to retry at a port with a long queue; the rest is for a
/// busy machine.
const SANE: Duration = Duration::from_secs(10);
/// An incomplete request to a store: VALIDATE and the head of a SET.
const HALF_A_SET: &[u8] = &[0, 0xce, 0xf7, 0x85, 0x3c, 1, 3, 0, 0, 0, 0, 0, 0, 0, b'/'];

/// Raises this process's limit of open files; returns whether it may.
fn may_open(files: u64) -> bool {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    soft >= files || setrlimit(Resource::RLIMIT_NOFILE, files.min(hard), hard).is_ok() && hard >= files
}

fn half_open(address: SocketAddr, bytes: &[u8]) -> TcpStream {
    let mut socket = TcpStream::connect(address).unwrap();
    // The server may already have closed a connection that it refused.
    let _ = socket.write_all(bytes);
    socket
}

/// A master and its sidecar that have answered a client. The first answer of a master waits for sidecars of its
/// predecessor, which must not count as an effect of the flood.
fn at_work() -> (Master, Process) {
    let master = Master::start("1:2");
    // With as many files as a shell gives a program, unless it asks for more.
    let plain = Process::sidecar_command("pod", master.ports.grpc);
    let script = r#"ulimit -Sn 1024; exec "$@""#;
    let sidecar = Process::start(&mut inside(Command::new("sh"), script, Path::new("sh"), &plain));
    assert_eq!(StoreClient::connect(sidecar.address("listen")).unwrap().add("/first", 1).unwrap(), 1);
    (master, sidecar)
}

/// Sends the requests of well-behaved clients until `stop`; returns the longest latency.
fn honest_work(ports: Ports, sidecar: SocketAddr, stop: &AtomicBool) -> Duration {
    let mut stores = [ports.store, sidecar].map(|store| StoreClient::connect(store).unwrap());
    let mut longest = Duration::ZERO;
    while !stop.load(Ordering::Relaxed) {
        let mut measure = |what: &mut dyn FnMut()| {
            let start = Instant::now();
            what();
            longest = longest.max(start.elapsed());
        };
        for store in &mut stores {
            measure(&mut || assert!(store.add("/honest", 1).unwrap() > 0));
        }
        measure(&mut || drop(StoreClient::connect(ports.store).unwrap()));
        measure(&mut || assert_eq!(http::get(ports.http, "/ready").0, 200));
        measure(&mut || assert_eq!(http::get(ports.grpc, "/api/status").0, 200));
        thread::sleep(Duration::from_millis(5));
    }
    longest
}

#[test]
fn thousands_of_half_open_connections_on_every_port_affect_no_other_client() {
    if !may_open(3 * HALF_OPEN as u64 + 1000) {
        skip!("thousands of connections need a higher limit of open files (ulimit -Hn)");
    }
    let (master, sidecar) = at_work();
    let (ports, listen, stop) = (master.ports, sidecar.address("listen"), AtomicBool::new(false));
    let before = master.memory();
    thread::scope(|scope| {
        let working = scope.spawn(|| honest_work(ports, listen, &stop));
        let mut open = Vec::new();
        for _ in 0..HALF_OPEN {
            open.push(half_open(ports.store, HALF_A_SET));
            open.push(half_open(ports.grpc, b"PRI * HTTP/2.0\r\n\r\nSM\r"));
            open.push(half_open(ports.http, b"GET /ready HTTP/1.1\r\nHost: "));
        }
        throughout(Duration::from_secs(2), || {});
        stop.store(true, Ordering::Relaxed);
        let longest = working.join().unwrap();
        let (after, count) = (master.memory(), open.len());
        println!("{before} MiB, with {count} half-open connections {after} MiB; the longest answer took {longest:?}");
        assert!(longest < SANE, "{longest:?}");
        assert!(after - before < 128, "{before} MiB, then {after} MiB");
    });
}

#[test]
fn a_sidecar_full_of_half_open_connections_serves_its_clients_and_closes_the_others() {
    if !may_open(2 * HALF_OPEN as u64) {
        skip!("thousands of connections need a higher limit of open files (ulimit -Hn)");
    }
    let (mut master, sidecar) = at_work();
    let listen = sidecar.address("listen");
    let mut client = StoreClient::connect(listen).unwrap();
    let open: Vec<_> = (0..HALF_OPEN).map(|_| half_open(listen, &[0, 0xce])).collect();
    sidecar.await_log("too many connections; refusing further ones");
    let start = Instant::now();
    assert!(client.add("/n", 1).unwrap() > 0);
    assert!(start.elapsed() < SANE, "{:?}", start.elapsed());
    master.end_with(Signal::SIGKILL);
    let _next = Master::run(&mut super::master::master("1:2", master.ports));
    assert!(client.add("/n", 1).unwrap() > 0, "there is still room for the way to the next master");
    eventually("room for another client", || StoreClient::connect(listen).ok());
    println!("room again after {:?}; at most {} MiB", start.elapsed(), sidecar.peak_memory());
    assert!(sidecar.peak_memory() < 64, "{} MiB", sidecar.peak_memory());
    drop(open);
}

#[test]
fn a_client_that_sends_requests_and_never_reads_costs_little_memory() {
    const VALUE: usize = 4 << 20;
    let (master, sidecar) = at_work();
    for (process, store) in [(&*master, master.ports.store), (&sidecar, sidecar.address("listen"))] {
        let mut honest = StoreClient::connect(store).unwrap();
        honest.send(&Request::Set { key: "/large".into(), value: Bytes::from(vec![7; VALUE]) }).unwrap();
        honest.ping().unwrap();
        let mut greedy = StoreClient::connect(store).unwrap().socket();
        greedy.set_nonblocking(true).unwrap();
        let ask = Request::Get { key: "/large".into() }.to_bytes().repeat(1000);
        // Its socket buffers what the server has not read; that is the point.
        let _ = greedy.write_all(&ask);
        throughout(Duration::from_secs(1), || {
            let start = Instant::now();
            honest.ping().unwrap();
            honest.add("/n", 1).unwrap();
            assert!(start.elapsed() < SANE, "{:?}", start.elapsed());
        });
        let peak = process.peak_memory();
        println!("at most {peak} MiB for 1000 values of 4 MiB that stay unread");
        assert!(peak < 256, "{peak} MiB");
    }
}
