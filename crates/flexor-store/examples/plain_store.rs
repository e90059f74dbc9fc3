//! A plain TCPStore server that torch programs can use in place of torch's own. Also our side of `cargo xtask bench store`.
//!
//! Prints its port, serves on loopback, and ends when its standard input ends.

use std::sync::{Arc, Mutex};

use flexor_store::keyspace::Keyspace;
use flexor_store::server::{FAIR_EVENT_INTERVAL, Limits, Server, clock_from_now};
use tokio::net::TcpListener;

fn main() -> std::io::Result<()> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().event_interval(FAIR_EVENT_INTERVAL).enable_all().build()?;
    runtime.block_on(serve())
}

async fn serve() -> std::io::Result<()> {
    let files = rlimit_to_the_hard_limit()?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?.port());
    let keyspace = Arc::new(Mutex::new(Keyspace::new()));
    let limits = Limits { connections: files, ..Limits::default() };
    let server = Server::new(listener, keyspace, clock_from_now(), limits)?;
    let ended = tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink()));
    tokio::select! {
        () = server.run() => {}
        _ = ended => {}
    }
    Ok(())
}

/// Raises the limit of open files, because many clients need many.
fn rlimit_to_the_hard_limit() -> std::io::Result<usize> {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    Ok(usize::try_from(hard).unwrap_or(usize::MAX))
}
