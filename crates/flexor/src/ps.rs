//! `flexor ps`: runs one parameter server of a job.
//!
//! The server listens before it registers with the master, and hands over its partitions before it ends.

mod elasticdl;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, anyhow};
use clap::Args;
use flexor_client::token_file;
use flexor_listen::HttpServer;
use flexor_model::{env, ports};
use flexor_ps::server::{Server, ServerName, follow_master};
use tokio::net::TcpListener;

use self::elasticdl::ElasticdlArgs;
use crate::exit::{Exit, Misused};
use crate::inherited::InheritedSockets;
use crate::{logging, output, signals};

/// Arguments of `flexor ps`.
#[derive(Debug, Args)]
pub struct PsArgs {
    /// Address of the job's master
    #[arg(long, value_name = "HOST:PORT", env = env::MASTER.name, required_unless_present = "elasticdl")]
    pub master: Option<String>,
    /// Name of this server in the job
    #[arg(long, value_name = "NAME", env = "POD_NAME", required_unless_present = "elasticdl")]
    pub name: Option<String>,
    /// Address to serve on [default: port 2222 of the pod's address, or a free port if that is in use]
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,
    /// Address that others connect to, if it differs from --listen
    #[arg(long, value_name = "HOST:PORT")]
    pub address: Option<String>,
    /// IP address of the pod
    #[arg(long, value_name = "ADDRESS", env = "POD_IP", hide = true)]
    pub pod_ip: Option<IpAddr>,
    /// File with the job's token
    #[arg(long, value_name = "FILE", env = env::TOKEN_FILE.name)]
    pub token_file: Option<PathBuf>,
    #[command(flatten)]
    pub elasticdl: ElasticdlArgs,
}

/// Serves until a signal ends the process, or until the master no longer needs this server.
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
    let token = args.token_file.as_deref().map(token_file::read).transpose()?;
    let listener = listen(args).await?;
    flexor_listen::prepare(&listener)?;
    let listening = listener.local_addr()?;
    if token.is_none() && !listening.ip().is_loopback() {
        let why = format!("{listening} is reachable from other machines, so the job needs a token: give --token-file");
        return Err(Misused(anyhow!(why)).into());
    }
    let address = args.address.clone().unwrap_or_else(|| listening.to_string());
    let me = ServerName { name: name.to_owned(), incarnation: new_incarnation()? };
    let (server, reports) = Server::new(me, token);
    let http = http_server();
    tracing::info!(name, %listening, master, "serves");
    tokio::select! {
        exit = terminate(&mut termination, &server) => Ok(exit),
        () = http.serve(&listener, server.routes().into_axum_router()) => Ok(Exit::Success),
        followed = follow_master(&server, master, &address, reports) => {
            if let Err(error) = followed {
                output::note(&format!("error: {error}"));
            }
            Ok(Exit::Infrastructure)
        }
    }
}

fn http_server() -> HttpServer {
    // Pings close the connections of clients whose machine is lost.
    HttpServer::grpc().with_windows(8 << 20, 16 << 20).with_pings(Duration::from_secs(5), Duration::from_secs(10))
}

/// Binds the port of the server. Clients learn it from the master, so any free port will do unless one was requested.
async fn listen(args: &PsArgs) -> anyhow::Result<TcpListener> {
    let mut sockets = InheritedSockets::of_this_process();
    let hint = "is another server running here? --listen takes another address, with port 0 a free one";
    if let Some(address) = args.listen {
        return sockets.listen(address, "--listen", hint).await;
    }
    let own = args.pod_ip.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    match TcpListener::bind(SocketAddr::new(own, ports::PARAMETER_SERVER)).await {
        // The ports of ElasticDL's servers are fixed in the arguments of its workers.
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse && !args.elasticdl.elasticdl => {
            tracing::info!(port = ports::PARAMETER_SERVER, "the port is in use; takes a free one");
            sockets.listen(SocketAddr::new(own, 0), "port", hint).await
        }
        bound => bound.with_context(|| format!("{own} cannot be listened on; --listen takes another address")),
    }
}

/// Waits for a signal, then until the server has handed over its partitions as far as other servers can take them.
async fn terminate(termination: &mut signals::Termination, server: &Server) -> Exit {
    let exit = termination.wait().await;
    tracing::info!("drains: hands over its partitions before it ends");
    tokio::select! {
        () = server.drain() => exit,
        // A second signal ends the server at once.
        again = termination.wait() => again,
    }
}

/// The time of the start in milliseconds: later incarnations of the same name have greater numbers.
pub fn new_incarnation() -> anyhow::Result<u64> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970")?;
    Ok(u64::try_from(since.as_millis())?)
}
