//! `flexor sidecar`: serves TCPStore inside a pod, at an address that outlives restarts of the master.

use std::net::SocketAddr;

use anyhow::Context;
use flexor_agent::workers::LeftError;
use flexor_client::Upstream;
use flexor_store::sidecar::{Pod, Sidecar, SidecarEnd};
use serde::Serialize;
use tokio::net::TcpListener;

use crate::cli::SidecarArgs;
use crate::exit::Exit;
use crate::inherited::InheritedSockets;
use crate::output::{self, Format};
use crate::{logging, signals};

/// Longer messages are cut, in characters: a kubelet keeps 4096 bytes of a container's.
const LONGEST_MESSAGE: usize = 1000;

/// The line that is printed when the sidecar listens.
#[derive(Debug, Serialize)]
struct ReadyLine {
    listen: SocketAddr,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    also_at: Vec<SocketAddr>,
}

pub fn run(args: SidecarArgs) -> anyhow::Result<Exit> {
    logging::start();
    let upstream = match Upstream::new(&args.upstream, args.token_file.clone()) {
        Ok(upstream) => upstream,
        Err(error) => {
            output::note(&format!("error: --upstream {error}"));
            return Ok(Exit::Failure);
        }
    };
    let name = args.pod.clone().map_or_else(host_name, Ok)?;
    let pod = Pod { name, uid: args.pod_uid.clone().unwrap_or_default() };
    // The traffic of one pod is small, and one thread needs less memory.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve(&args, pod, upstream))
}

async fn serve(args: &SidecarArgs, pod: Pod, upstream: Upstream) -> anyhow::Result<Exit> {
    let mut termination = signals::terminated()?;
    let mut end = Exit::Success;
    let mut sockets = InheritedSockets::of_this_process();
    let (first, more) = args.listen.split_first().context("--listen has no address")?;
    let (listener, listen) = open(&mut sockets, *first).await?;
    let mut sidecar = Sidecar::new(listener, pod, upstream)?;
    let mut ready = ReadyLine { listen, also_at: Vec::new() };
    for address in more {
        let (listener, listen) = open(&mut sockets, *address).await?;
        sidecar = sidecar.also_at(listener)?;
        ready.also_at.push(listen);
    }
    print_ready(args, &ready)?;
    let ended = sidecar.run(async { end = termination.wait().await }).await;
    report_error(args);
    match ended {
        SidecarEnd::Stopped => Ok(end),
        SidecarEnd::PodRejected(fault) => {
            output::note(&format!("error: {fault}; its connections are closed"));
            Ok(Exit::Failure)
        }
    }
}

/// Passes on what the pod's program has left: a kubelet ends sidecars after the program.
fn report_error(args: &SidecarArgs) {
    let (Some(from), Some(to)) = (&args.error_file, &args.message_file) else { return };
    // What a launcher says follows from the failure of its program, about which its own output says more.
    let of_program = LeftError::read(from).filter(|error| !error.is_of_launcher);
    let of_processes = || from.parent().and_then(LeftError::of_processes);
    let Some(error) = of_program.or_else(of_processes) else { return };
    let message: String = error.message.chars().take(LONGEST_MESSAGE).collect();
    tracing::info!(message, "the program has left an error");
    if let Err(error) = std::fs::write(to, message) {
        tracing::warn!(%error, "cannot write {}", to.display());
    }
}

async fn open(sockets: &mut InheritedSockets, address: SocketAddr) -> anyhow::Result<(TcpListener, SocketAddr)> {
    let listener = sockets.listen(address, "--listen", "is another store or sidecar running here?").await?;
    let listen = listener.local_addr()?;
    if !listen.ip().is_loopback() {
        tracing::warn!(%listen, "TCPStore has no authentication: every client that reaches this address can read and write keys");
    }
    Ok((listener, listen))
}

fn print_ready(args: &SidecarArgs, ready: &ReadyLine) -> anyhow::Result<()> {
    match args.output {
        Format::Json => output::text(&format!("{}\n", serde_json::to_string(ready)?)),
        Format::Text => {
            let addresses: Vec<String> = [ready.listen].iter().chain(&ready.also_at).map(ToString::to_string).collect();
            output::text(&format!("sidecar: store at {}, master at {}\n", addresses.join(" and "), args.upstream))
        }
    }
}

fn host_name() -> anyhow::Result<String> {
    let name = nix::unistd::gethostname().context("cannot determine the name of this host; give --pod")?;
    Ok(name.to_string_lossy().into_owned())
}
