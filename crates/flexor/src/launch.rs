//! `flexor launch`: runs the processes of one node with torchrun's command line, for any program.
//!
//! Nodes meet at a `flexor master`, or at a master that this process runs itself ([`own_master`]). The launching itself is
//! `flexor_agent::launch`'s; here are arguments, signals and exit codes.

pub mod devices;
mod help;
mod own_master;
mod shared_port;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use flexor_agent::launch::{self, FixedStore, Launch, LaunchEnd, RequestedLimits, Signals};
use flexor_agent::processes::Keeper;
use flexor_agent::workers::{LinePrefix, LocalRank, LogFolder, LogOptions, Shim, StreamChoice, Streams};
use flexor_client::Upstream;
use flexor_dialects::Finding;
use flexor_dialects::launch_options::{
    self, Address, Asked, ForwardedSignal, LaunchOptions, Nodes, OutputOptions, ProgramKind, Rendezvous,
};
use flexor_engine::rendezvous::STRAGGLER_LIMIT;
use flexor_model::{env, ports};
use nix::sys::signal::Signal;
use tokio::signal::unix::{SignalKind, signal};

use self::own_master::OwnMaster;
use crate::exit::Exit;
use crate::{logging, output};

pub use self::help::document;

/// Hidden command that runs [`flexor_agent::workers::exec_shim`].
pub const SHIM: &str = "start-worker";
/// Hidden command that runs [`flexor_agent::processes::run_keeper`].
pub const KEEPER: &str = "end-what-is-left";

/// torchrun's default timeout of a rendezvous.
const TORCHRUN_JOIN_TIMEOUT: Duration = Duration::from_secs(600);
/// How long processes that keep running through a change have to leave their world.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(20);

/// The exit code of a shell for a program that is not there.
const NO_SUCH_FILE: u8 = 127;

const COMMAND: &str = "flexor launch";

pub fn run(words: &[OsString]) -> anyhow::Result<Exit> {
    let Some(words) = words.iter().map(|word| word.to_str().map(str::to_owned)).collect::<Option<Vec<_>>>() else {
        output::note(&format!("error: {COMMAND} takes arguments in UTF-8 only"));
        return Ok(Exit::Usage);
    };
    let variables: BTreeMap<String, String> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let parsed = match launch_options::parse(&words, &variables) {
        Ok(parsed) => parsed,
        Err(findings) => {
            findings.iter().for_each(note);
            output::note(&format!("{COMMAND} --help lists the options"));
            return Ok(Exit::Usage);
        }
    };
    parsed.warnings.iter().for_each(note);
    let options = match parsed.asked {
        Asked::Help => {
            output::text(&help::text())?;
            return Ok(Exit::Success);
        }
        Asked::Launch(options) => *options,
    };
    logging::start_for_launch();
    // The keeper starts first and ends last. It is no process that this launch supervises.
    let _keeper = match std::env::current_exe().and_then(|us| Keeper::start(us.into(), [KEEPER.into()])) {
        Ok(keeper) => Some(keeper),
        Err(error) => {
            output::note(&format!(
                "warning: if this launch is killed, processes of the program will keep running: {error}"
            ));
            None
        }
    };
    // Workers are killed when the thread that started them ends, so the main thread runs everything.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let exit = runtime.block_on(launch(options));
    logging::flush();
    exit
}

fn note(finding: &Finding) {
    let kind = if finding.is_error() { "error" } else { "warning" };
    output::note(&format!("{kind}: {finding}"));
}

async fn launch(options: LaunchOptions) -> anyhow::Result<Exit> {
    let processes = match options.processes.count(devices::count) {
        Ok(processes) => processes,
        Err(finding) => {
            note(&finding);
            return Ok(Exit::Failure);
        }
    };
    warn_of_slow_ends(&options);
    let signals = signals(&options.signals)?;
    let token_file = std::env::var_os(env::TOKEN_FILE.name).map(PathBuf::from);
    if let Some(Err(error)) = token_file.as_deref().map(flexor_client::token_file::read) {
        output::note(&format!("error: {}: {error}", env::TOKEN_FILE.name));
        return Ok(Exit::Infrastructure);
    }
    let RendezvousPoint { address, run, mut own, node, fixed_store } =
        match rendezvous(&options, token_file.as_deref()).await {
            Ok(point) => point,
            Err(error) => {
                output::note(&format!("error: {}", output::with_causes(&error)));
                return Ok(Exit::Infrastructure);
            }
        };
    let token_file = token_file.or_else(|| own.as_ref()?.token_file().map(Path::to_owned));
    let master = match Upstream::new(&address, token_file.clone()) {
        Ok(master) => master,
        Err(error) => {
            output::note(&format!("error: --rdzv-endpoint {error}"));
            return Ok(Exit::Usage);
        }
    };
    if let (ProgramKind::PythonScript, Some(script)) = (options.program.kind, options.program.argv.get(2))
        && !Path::new(script).exists()
    {
        output::note(&format!("error: there is no file '{script}'; check its path"));
        return Ok(Exit::NotStarted(NO_SUCH_FILE));
    }
    let (program, args) = options.program.argv.split_first().context("there is no program")?;
    let mut launch = Launch {
        master,
        master_address: address,
        token_file,
        node,
        processes,
        program: program.into(),
        args: args.iter().map(Into::into).collect(),
        role: options.role.clone(),
        requested: requested_limits(&options, own.is_none()),
        grace: options.shutdown_timeout,
        join_timeout: join_timeout(&options),
        change_timeout: options.rendezvous_conf.change_timeout.unwrap_or(CHANGE_TIMEOUT),
        fixed_store,
        virtual_local_rank: options.virtual_local_rank,
        shim: Shim::new(std::env::current_exe().context("cannot find this program")?, [SHIM]),
        logs: log_options(&options.output).open(&run)?,
        run,
    };
    let ended = tokio::select! {
        ended = launch.run(signals) => ended,
        error = master_ends(&mut own) => {
            output::note(&format!("error: the master of this launch has ended: {}", output::with_causes(&error)));
            return Ok(Exit::Infrastructure);
        }
    };
    // The run is over for all nodes: the master stays until they have learnt of it.
    if let (Some(own), Ok(LaunchEnd::Finished | LaunchEnd::Closed { .. })) = (&own, &ended) {
        own.await_departures().await;
    }
    logging::flush();
    match ended {
        Ok(end) => Ok(report_end(&end)),
        Err(error) => {
            output::note(&format!("error: {error}"));
            Ok(error.of_program().map_or(Exit::Infrastructure, |error| Exit::NotStarted(error.exit_code())))
        }
    }
}

/// The next world excludes a node whose processes end later than the straggler limit.
fn warn_of_slow_ends(options: &LaunchOptions) {
    let (limit, seconds) = (STRAGGLER_LIMIT.as_secs(), options.shutdown_timeout.as_secs());
    if options.rendezvous != Rendezvous::Alone && options.shutdown_timeout >= STRAGGLER_LIMIT {
        output::note(&format!(
            "warning: --shutdown-timeout {seconds}: other nodes continue without this one if its processes need more than \
             {limit} s to end"
        ));
    }
}

/// Where this node meets the others.
struct RendezvousPoint {
    address: String,
    run: String,
    /// The master, if this process runs it.
    own: Option<OwnMaster>,
    /// Name and incarnation of this node.
    node: (Arc<str>, u64),
    /// Where the programs of this node expect the store of their world.
    fixed_store: Option<FixedStore>,
}

async fn rendezvous(options: &LaunchOptions, token_file: Option<&Path>) -> anyhow::Result<RendezvousPoint> {
    let node = || node(options.local_addr.as_deref());
    match &options.rendezvous {
        Rendezvous::Alone => {
            let own = OwnMaster::start(options, token_file).await?;
            Ok(RendezvousPoint {
                address: own.address(),
                run: own_master::JOB.to_owned(),
                own: Some(own),
                node: node()?,
                fixed_store: None,
            })
        }
        Rendezvous::Elastic { at, id } => {
            // torchrun's users give the port of the store; gRPC is on another port of the same host.
            let port = if at.port == ports::STORE { ports::MASTER } else { at.port };
            let at = Address { host: at.host.clone(), port };
            let own = match options.rendezvous_conf.is_host {
                Some(true) => Some(OwnMaster::start_for_all(options, id, &at, options.nodes, token_file).await?),
                Some(false) | None => None,
            };
            let address = join_host_port(&at);
            Ok(RendezvousPoint { address, run: id.clone(), own, node: node()?, fixed_store: None })
        }
        Rendezvous::Static { at, rank, id } => {
            let all = Nodes { min: options.nodes.max, max: options.nodes.max };
            let (own, fixed_store) = match rank {
                0 => {
                    let (own, fixed) = OwnMaster::start_static(options, id, at, all, token_file).await?;
                    (Some(own), Some(fixed))
                }
                1.. => (None, None),
            };
            let port = own.as_ref().map_or(at.port, OwnMaster::port);
            let address = join_host_port(&Address { host: at.host.clone(), port });
            // The first world orders nodes by name, so each gets its rank.
            let node = (format!("rank-{rank}").into(), new_incarnation());
            Ok(RendezvousPoint { address, run: id.clone(), own, node, fixed_store })
        }
    }
}

/// Limits that the command line requests of another process's master. The launcher warns where the master differs.
fn requested_limits(options: &LaunchOptions, elsewhere: bool) -> RequestedLimits {
    let LaunchOptions { said, nodes, max_restarts, .. } = options;
    let id = match &options.rendezvous {
        Rendezvous::Elastic { id, .. } | Rendezvous::Static { id, .. } => own_master::named(id),
        Rendezvous::Alone => None,
    };
    RequestedLimits {
        nodes: (elsewhere && said.nodes).then_some(nodes.min..=nodes.max),
        max_restarts: (elsewhere && said.max_restarts).then_some(*max_restarts),
        job: id.filter(|_| elsewhere).map(str::to_owned),
    }
}

/// How long a node waits for a world. A lost master is restarted, so there is no default limit. The first node of a static
/// rendezvous serves it and may be gone for good, so torchrun's timeout applies.
fn join_timeout(options: &LaunchOptions) -> Option<Duration> {
    let a_node_serves = matches!(options.rendezvous, Rendezvous::Static { .. });
    options.rendezvous_conf.join_timeout.or(a_node_serves.then_some(TORCHRUN_JOIN_TIMEOUT))
}

async fn master_ends(own: &mut Option<OwnMaster>) -> anyhow::Error {
    match own {
        Some(own) => own.ended().await,
        None => std::future::pending().await,
    }
}

fn report_end(end: &LaunchEnd) -> Exit {
    match end {
        LaunchEnd::Finished => Exit::Success,
        LaunchEnd::FinishedBefore => {
            output::note("the run had succeeded before this node joined; POST /api/retry to its master reopens it");
            Exit::Success
        }
        LaunchEnd::Closed { cause, report } => {
            let first = report.as_ref().map(|report| format!("; {}", report.root_cause.summary()));
            if let Some(report) = report {
                output::note(&report.to_string());
            }
            output::note(&format!("error: the run is closed: {cause}{}", first.unwrap_or_default()));
            Exit::Failure
        }
        LaunchEnd::Refused { exit_code, report } => {
            let first = report.as_ref().map(|report| report.root_cause.summary()).unwrap_or_default();
            if let Some(report) = report {
                output::note(&report.to_string());
            }
            output::note(&format!("error: the program is not started again, which would change nothing: {first}"));
            Exit::NotStarted(u8::try_from(*exit_code).unwrap_or(1))
        }
        LaunchEnd::Fenced(cause) => {
            output::note(&format!("error: {cause}; this node no longer takes part"));
            Exit::Infrastructure
        }
        LaunchEnd::OtherJob(cause) => {
            output::note(&format!("error: {cause}"));
            Exit::Failure
        }
        LaunchEnd::Token(cause) => {
            output::note(&format!("error: {cause}"));
            Exit::Infrastructure
        }
        LaunchEnd::NoWorld { within, waited_for, report } => {
            if let Some(report) = report {
                output::note(&report.to_string());
            }
            let seconds = within.as_secs();
            output::note(&format!(
                "error: this node got no world within the {seconds} s of join_timeout; it waited for {waited_for}"
            ));
            Exit::Infrastructure
        }
        LaunchEnd::Signal(signal) => {
            output::note(&format!("ended by {signal}"));
            Exit::Interrupted
        }
    }
}

/// Name and incarnation of this node. The name is the pod's, or else the machine's with the process ID, because several
/// nodes may run on one machine. In containers both may be equal for different nodes; only the incarnation differs.
fn node(local_addr: Option<&str>) -> anyhow::Result<(Arc<str>, u64)> {
    let pod = std::env::var("POD_NAME").ok().filter(|name| !name.is_empty());
    if let Some(pod) = pod {
        return Ok((pod.into(), new_incarnation()));
    }
    let host = match local_addr {
        Some(address) => address.to_owned(),
        None => {
            let name =
                nix::unistd::gethostname().context("cannot determine the name of this host; give --local-addr")?;
            name.to_string_lossy().into_owned()
        }
    };
    Ok((format!("{host}_{}", std::process::id()).into(), new_incarnation()))
}

/// The time of the start in microseconds: later incarnations have greater numbers.
fn new_incarnation() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_micros());
    u64::try_from(since).unwrap_or(u64::MAX)
}

fn join_host_port(Address { host, port }: &Address) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

fn log_options(output: &OutputOptions) -> LogOptions {
    LogOptions {
        folder: LogFolder::from(output.log_dir.clone().map(OsString::from)),
        redirects: stream_choice(&output.redirects),
        tee: stream_choice(&output.tee),
        shown: output.console_ranks.as_ref().map(|ranks| ranks.iter().copied().map(LocalRank).collect()),
        prefix: output.prefix.clone().map_or_else(LinePrefix::default, LinePrefix::new),
    }
}

fn stream_choice(choice: &launch_options::StreamChoice) -> StreamChoice {
    let streams = |streams: &launch_options::Streams| Streams { stdout: streams.stdout, stderr: streams.stderr };
    match choice {
        launch_options::StreamChoice::All(all) => StreamChoice::All(streams(all)),
        launch_options::StreamChoice::ByLocalRank(ranks) => {
            StreamChoice::ByLocalRank(ranks.iter().map(|(rank, of)| (LocalRank(*rank), streams(of))).collect())
        }
    }
}

/// Forwards these signals from here on, instead of ending the process.
fn signals(forwarded: &[ForwardedSignal]) -> anyhow::Result<Signals> {
    let (sender, signals) = launch::signals();
    for name in forwarded {
        let number: Signal = name.as_str().parse().context("an unknown signal")?;
        let mut stream = signal(SignalKind::from_raw(number as i32)).context("cannot watch signals")?;
        let sender = sender.clone();
        tokio::spawn(async move {
            while stream.recv().await.is_some() {
                sender.send(number);
            }
        });
    }
    Ok(signals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_launcher_has_a_later_incarnation_than_those_before_it() {
        // In a container each launcher is process 1 of a host whose name may be the same.
        let [(name, earlier), (again, later)] = [(); 2].map(|()| {
            std::thread::sleep(Duration::from_millis(1));
            node(Some("host")).unwrap()
        });
        assert_eq!(name, again);
        assert!(earlier < later, "{earlier} {later}");
    }
}
