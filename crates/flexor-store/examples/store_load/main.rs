//! Load for a TCPStore server, of any make: the clients of `cargo xtask bench store`.
//!
//! `store_load ADDRESS SERVER_PID LOAD` puts one load on the server and prints what it measured, a line each: a name and
//! a number. It is a process of its own, because it needs as many open files as the server, and speaks to plain sockets,
//! because on a machine with few cores whatever it spends is taken from the server.

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
