//! The loads by name, with their sizes.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use bytes::Bytes;
use flexor_store::codec::Request;

use crate::crowd::{Crowd, storm};
use crate::one_client::OneClient;

/// Measurements: a name, and seconds or bytes.
pub(crate) type Measured = Vec<(&'static str, f64)>;

/// One kind of load.
#[derive(Clone, Copy)]
pub(crate) enum Load {
    AddPipelined,
    SetPipelined,
    GetPipelined,
    WaitPipelined,
    AddPingPong,
    GetLarge,
    Wake(usize),
    Storm,
    CrowdPingPong,
}

/// The approximate length of the rendezvous state of a thousand nodes, in bytes.
const LARGE: usize = 130_000;

impl Load {
    pub(crate) fn named(name: &str) -> Result<Load> {
        Ok(match name {
            "add-pipelined" => Load::AddPipelined,
            "set-pipelined" => Load::SetPipelined,
            "get-pipelined" => Load::GetPipelined,
            "wait-pipelined" => Load::WaitPipelined,
            "add-ping-pong" => Load::AddPingPong,
            "get-large" => Load::GetLarge,
            "wake-1000" => Load::Wake(1_000),
            "wake-10000" => Load::Wake(10_000),
            "storm" => Load::Storm,
            "crowd-ping-pong" => Load::CrowdPingPong,
            _ => None.with_context(|| format!("no load '{name}'"))?,
        })
    }

    pub(crate) fn put_on(self, address: SocketAddr, server: u32) -> Result<Measured> {
        let key = Bytes::from_static(b"/bench");
        let one = || OneClient::connect(address);
        match self {
            Load::AddPipelined => {
                let add = Request::Add { key: "/bench-count".into(), delta: 1 };
                Ok(vec![("all", one()?.pipelined(&add, 300_000, 8)?)])
            }
            Load::SetPipelined => {
                let set = Request::Set { key, value: vec![b'v'; 64].into() };
                Ok(vec![("all", one()?.pipelined(&set, 2_000_000, 0)?)])
            }
            Load::GetPipelined => {
                let mut client = one()?;
                client.set(&key, 64)?;
                Ok(vec![("all", client.pipelined(&Request::Get { key }, 300_000, 72)?)])
            }
            Load::WaitPipelined => {
                let mut client = one()?;
                client.set(&key, 64)?;
                Ok(vec![("all", client.pipelined(&Request::Wait { keys: vec![key] }, 300_000, 1)?)])
            }
            Load::AddPingPong => {
                let times = one()?.ping_pong(&Request::Add { key: "/bench-count".into(), delta: 1 }, 20_000, 8)?;
                Ok(times.into())
            }
            Load::GetLarge => {
                let mut client = one()?;
                client.set(&key, LARGE)?;
                let times = client.ping_pong(&Request::Get { key }, 4_000, 8 + LARGE)?;
                Ok(vec![("all", times.all)])
            }
            Load::Wake(clients) => {
                let before = resident_bytes(server)?;
                let mut crowd = Crowd::connect(address, clients)?;
                let per_connection = (resident_bytes(server)? - before).max(0.0) / clients as f64;
                crowd.all_wait_for("/bench-warm-up")?;
                crowd.wake_all("/bench-warm-up")?;
                crowd.all_wait_for("/bench-go")?;
                Ok(vec![("last-byte", crowd.wake_all("/bench-go")?), ("memory", per_connection)])
            }
            Load::Storm => Ok(vec![("all-answered", storm(address, 5_000)?)]),
            Load::CrowdPingPong => Ok(Crowd::connect(address, 1_000)?.ping_pong(100_000)?.into()),
        }
    }
}

fn resident_bytes(pid: u32) -> Result<f64> {
    let path = format!("/proc/{pid}/status");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS line")?;
    let kilobytes: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kilobytes * 1024.0)
}
