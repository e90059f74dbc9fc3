//! `flexor sidecar`: serves TCPStore inside a pod, at an address that outlives restarts of the master.

use std::net::SocketAddr;

use anyhow::Context;
use flexor_client::Upstream;
use flexor_store::sidecar::{Pod, Sidecar, SidecarEnd};
use serde::Serialize;

use crate::cli::SidecarArgs;
use crate::exit::Exit;
use crate::inherited::InheritedSockets;
use crate::output::{self, Format};
use crate::{logging, signals};

/// The line that is printed when the sidecar listens.
#[derive(Debug, Serialize)]
struct ReadyLine {
    listen: SocketAddr,
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
    let listener = sockets.listen(args.listen, "--listen", "is another store or sidecar running here?").await?;
    let listen = listener.local_addr()?;
    if !listen.ip().is_loopback() {
        tracing::warn!(%listen, "TCPStore has no authentication: every client that reaches this address can read and write keys");
    }
    let sidecar = Sidecar::new(listener, pod, upstream)?;
    print_ready(args, &ReadyLine { listen })?;
    match sidecar.run(async { end = termination.wait().await }).await {
        SidecarEnd::Stopped => Ok(end),
        SidecarEnd::PodRejected(fault) => {
            output::note(&format!("error: {fault}; its connections are closed"));
            Ok(Exit::Failure)
        }
    }
}

fn print_ready(args: &SidecarArgs, ready: &ReadyLine) -> anyhow::Result<()> {
    match args.output {
        Format::Json => output::text(&format!("{}\n", serde_json::to_string(ready)?)),
        Format::Text => output::text(&format!("sidecar: store at {}, master at {}\n", ready.listen, args.upstream)),
    }
}

fn host_name() -> anyhow::Result<String> {
    let name = nix::unistd::gethostname().context("cannot determine the name of this host; give --pod")?;
    Ok(name.to_string_lossy().into_owned())
}
