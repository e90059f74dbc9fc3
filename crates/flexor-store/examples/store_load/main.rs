//! A load generator for any TCPStore server: the clients of `cargo xtask bench store`.
//!
//! `store_load ADDRESS SERVER_PID LOAD` puts one load on the server and prints each measurement as a line with a name and a
//! number. It is its own process, because it needs as many open files as the server. It uses plain sockets, because on a
//! machine with few cores its own CPU time is missing for the server.

mod crowd;
mod load;
mod one_client;
mod socket;

use std::net::SocketAddr;

use anyhow::{Context, Result};

use self::load::Load;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, pid, load] = &arguments[..] else { anyhow::bail!("usage: store_load ADDRESS SERVER_PID LOAD") };
    let address: SocketAddr = address.parse().context("ADDRESS is no IP address and port")?;
    let pid: u32 = pid.parse().context("SERVER_PID is no number")?;
    let load = Load::named(load)?;
    socket::allow_many()?;
    for (name, number) in load.put_on(address, pid)? {
        println!("{name} {number}");
    }
    Ok(())
}
