//! `flexor ps`: one parameter server of a job.

mod elasticdl;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use clap::Args;
use flexor_model::{env, ports};
use flexor_ps::server::{Server, ServerName, follow_master};
use tokio::net::TcpListener;
use tonic::transport::server::TcpIncoming;

use self::elasticdl::ElasticdlArgs;
use crate::exit::{Exit, Misused};
use crate::inherited::Inherited;
use crate::{logging, output, signals};

/// What `flexor ps` takes.
#[derive(Debug, Args)]
pub struct PsArgs {
    /// Where the job's master is
    #[arg(long, value_name = "HOST:PORT", env = env::MASTER.name, required_unless_present = "elasticdl")]
    pub master: Option<String>,
    /// Its name in the job
    #[arg(long, value_name = "NAME", env = "POD_NAME", required_unless_present = "elasticdl")]
    pub name: Option<String>,
    /// Where to serve; by default port 2222 of the pod's own address, or a free one where that is in use
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,
    /// Where others reach it, if that is not where it serves
    #[arg(long, value_name = "HOST:PORT")]
    pub address: Option<String>,
    /// The address of the pod
    #[arg(long, value_name = "ADDRESS", env = "POD_IP", hide = true)]
    pub pod_ip: Option<IpAddr>,
    /// A file with the job's token
    #[arg(long, value_name = "FILE", env = env::TOKEN_FILE.name)]
    pub token_file: Option<PathBuf>,
    /// A server for ElasticDL's workers instead
    #[command(flatten)]
    pub elasticdl: ElasticdlArgs,
}

/// Serves until it is told to stop, or until the master does not want it any more.
pub fn run(args: &PsArgs) -> anyhow::Result<Exit> {
    logging::start();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let served = runtime.block_on(serve(args));
    runtime.shutdown_timeout(Duration::from_secs(1));
    served.or_else(|error| match error.downcast::<Misused>() {
        Ok(misused) => {
            output::note(&format!("error: {misused:#}"));
            Ok(Exit::Hopeless)
        }
        Err(other) => Err(other),
    })
}

async fn serve(args: &PsArgs) -> anyhow::Result<Exit> {
    let mut termination = signals::terminated()?;
    if args.elasticdl.elasticdl {
        return elasticdl::run(&args.elasticdl, async || listen(args).await, &mut termination).await;
    }
    let (master, name) = args.master.as_deref().zip(args.name.as_deref()).context("--master and --name are needed")?;
    let token = args.token_file.as_deref().map(crate::master::read_token).transpose()?;
    let listener = listen(args).await?;
    let listening = listener.local_addr()?;
    let address = args.address.clone().unwrap_or_else(|| listening.to_string());
    let me = ServerName { name: name.to_owned(), incarnation: this_life()? };
    let (server, reports) = Server::new(me, token);
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let serving = tonic::transport::Server::builder()
        .initial_stream_window_size(8 << 20)
        .initial_connection_window_size(16 << 20)
        // A client whose machine is gone keeps nothing here.
        .http2_keepalive_interval(Some(Duration::from_secs(5)))
        .http2_keepalive_timeout(Some(Duration::from_secs(10)))
        .add_routes(server.routes())
        .serve_with_incoming(incoming);
    tracing::info!(name, %listening, master, "serves");
    tokio::select! {
        exit = ended(&mut termination, &server) => Ok(exit),
        served = serving => {
            served.context("cannot serve")?;
            Ok(Exit::Success)
        }
        followed = follow_master(&server, master, &address, reports) => {
            if let Err(error) = followed {
                output::note(&format!("error: {error}"));
            }
            Ok(Exit::Infrastructure)
        }
    }
}

/// The port it serves at. Others learn it from the master, so that any does where nobody has asked for one.
async fn listen(args: &PsArgs) -> anyhow::Result<TcpListener> {
    let mut sockets = Inherited::of_this_process();
    let hint = "is another server running here? --listen takes another address, with port 0 a free one";
    if let Some(address) = args.listen {
        return sockets.listen(address, "--listen", hint).await;
    }
    let own = args.pod_ip.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    match TcpListener::bind(SocketAddr::new(own, ports::PARAMETER_SERVER)).await {
        // ElasticDL's workers are told their servers' ports beforehand.
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse && !args.elasticdl.elasticdl => {
            tracing::info!(port = ports::PARAMETER_SERVER, "is in use; takes a free one");
            sockets.listen(SocketAddr::new(own, 0), "port", hint).await
        }
        bound => bound.with_context(|| format!("{own} cannot be listened on; --listen takes another address")),
    }
}

/// Until it is told to end, and has given away what it keeps as long as there is somebody to take it.
async fn ended(termination: &mut signals::Termination, server: &Server) -> Exit {
    let exit = termination.wait().await;
    tracing::info!("is to end, and gives away what it keeps");
    tokio::select! {
        () = server.drain() => exit,
        // Told twice, it does not wait.
        again = termination.wait() => again,
    }
}

/// A number that a later life of the same name has a greater one than: the time of its start.
pub fn this_life() -> anyhow::Result<u64> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970")?;
    Ok(u64::try_from(since.as_millis())?)
}
