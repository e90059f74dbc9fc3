//! `flexor sidecar`: the address inside a pod that outlives restarts of the master.

use std::net::SocketAddr;

use anyhow::Context;
use flexor_client::Upstream;
use flexor_store::sidecar::{Pod, Sidecar, SidecarEnd};
use serde::Serialize;

use crate::cli::SidecarArgs;
use crate::exit::Exit;
use crate::inherited::Inherited;
use crate::output::{self, Format};
use crate::{logging, signals};

/// What is printed once the sidecar listens.
#[derive(Debug, Serialize)]
struct Listening {
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
    // One pod's traffic is small; one thread keeps the memory small too.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve(&args, pod, upstream))
}

async fn serve(args: &SidecarArgs, pod: Pod, upstream: Upstream) -> anyhow::Result<Exit> {
    let mut termination = signals::terminated()?;
    let mut end = Exit::Success;
    let mut sockets = Inherited::of_this_process();
    let listener = sockets.listen(args.listen, "--listen", "is another store or sidecar running here?").await?;
    let listen = listener.local_addr()?;
    if !listen.ip().is_loopback() {
        tracing::warn!(%listen, "TCPStore has no authentication: whoever reaches this address can read and write keys");
    }
    let sidecar = Sidecar::new(listener, pod, upstream)?;
    tell(args, &Listening { listen })?;
    match sidecar.run(async { end = termination.wait().await }).await {
        SidecarEnd::Stopped => Ok(end),
        SidecarEnd::PodRejected(fault) => {
            output::note(&format!("error: {fault}; its connections are closed"));
            Ok(Exit::Failure)
        }
    }
}

fn tell(args: &SidecarArgs, listening: &Listening) -> anyhow::Result<()> {
    match args.output {
        Format::Json => output::text(&format!("{}\n", serde_json::to_string(listening)?)),
        Format::Text => output::text(&format!("sidecar: store at {}, master at {}\n", listening.listen, args.upstream)),
    }
}

fn host_name() -> anyhow::Result<String> {
    let name = nix::unistd::gethostname().context("the name of this host is not known; give --pod")?;
    Ok(name.to_string_lossy().into_owned())
}
