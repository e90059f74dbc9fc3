//! `flexor launch`: torchrun's command line for any program, at a master or with one of its own.

mod devices;
mod help;
mod own_master;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use flexor_agent::launch::{self, Launch, LaunchEnd, RequestedLimits, Signals};
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
use crate::master::read_token;
use crate::{logging, output};

pub use self::help::document;

/// What leads to [`flexor_agent::workers::exec_shim`].
pub const SHIM: &str = "start-worker";
/// What leads to [`flexor_agent::processes::run_keeper`].
pub const KEEPER: &str = "end-what-is-left";

/// How long a rendezvous of torchrun waits for nodes.
const TORCHRUN_JOINS_WITHIN: Duration = Duration::from_secs(600);
/// How long processes that outlive a change have to leave their world.
const CHANGE_WITHIN: Duration = Duration::from_secs(20);

/// What `PROGRAM` and its options are called in error messages.
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
            output::note(&format!("{COMMAND} --help tells what there is"));
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
    // Before anything else is started, and until the end: it is not one of what this launch supervises.
    let _keeper = match std::env::current_exe().and_then(|us| Keeper::start(us.into(), [KEEPER.into()])) {
        Ok(keeper) => Some(keeper),
        Err(error) => {
            output::note(&format!("warning: nobody ends what the program leaves if this launch is killed: {error}"));
            None
        }
    };
    // Workers die with the thread that started them; on this runtime that is the one that waits for everything.
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
    if let Some(Err(error)) = token_file.as_deref().map(read_token) {
        output::note(&format!("error: {}: {}", env::TOKEN_FILE.name, output::with_causes(&error)));
        return Ok(Exit::Infrastructure);
    }
    let Meeting { address, run, mut own, node } = match meeting(&options, token_file.as_deref()).await {
        Ok(meeting) => meeting,
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
        return Ok(Exit::Failure);
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
        change_timeout: options.rendezvous_conf.change_timeout.unwrap_or(CHANGE_WITHIN),
        virtual_local_rank: options.virtual_local_rank,
        shim: Shim::new(std::env::current_exe().context("cannot find this program")?, [SHIM]),
        logs: log_options(&options.output).open(&run)?,
        run,
    };
    let over = tokio::select! {
        over = launch.run(signals) => over,
        error = master_ends(&mut own) => {
            output::note(&format!("error: the master of this launch has ended: {}", output::with_causes(&error)));
            return Ok(Exit::Infrastructure);
        }
    };
    // Where it ended for all, all are to hear of it.
    if let (Some(own), Ok(LaunchEnd::Finished | LaunchEnd::Closed { .. })) = (&own, &over) {
        own.until_all_have_gone().await;
    }
    logging::flush();
    match over {
        Ok(over) => Ok(tell(&over)),
        Err(error) => {
            output::note(&format!("error: {error}"));
            Ok(if error.is_of_the_program() { Exit::Failure } else { Exit::Infrastructure })
        }
    }
}

/// A node whose processes end more slowly than others wait for it is left out of their next world.
fn warn_of_slow_ends(options: &LaunchOptions) {
    let (limit, seconds) = (STRAGGLER_LIMIT.as_secs(), options.shutdown_timeout.as_secs());
    if options.rendezvous != Rendezvous::Alone && options.shutdown_timeout >= STRAGGLER_LIMIT {
        output::note(&format!(
            "warning: --shutdown-timeout {seconds}: other nodes go on without this one if its processes need more than \
             {limit} s to end"
        ));
    }
}

/// Where a node meets the others.
struct Meeting {
    address: String,
    run: String,
    /// The master, where it is in this process.
    own: Option<OwnMaster>,
    node: (Arc<str>, u64),
}

async fn meeting(options: &LaunchOptions, token_file: Option<&Path>) -> anyhow::Result<Meeting> {
    let node = || node(options.local_addr.as_deref());
    match &options.rendezvous {
        Rendezvous::Alone => {
            let own = OwnMaster::start(options, token_file).await?;
            Ok(Meeting { address: own.address(), run: own_master::JOB.to_owned(), own: Some(own), node: node()? })
        }
        Rendezvous::Elastic { at, id } => {
            // torchrun's users know the port of the store; the services are on another one of the same host.
            let port = if at.port == ports::STORE { ports::MASTER } else { at.port };
            let at = Address { host: at.host.clone(), port };
            let own = match options.rendezvous_conf.is_host {
                Some(true) => Some(OwnMaster::start_for_all(options, id, &at, options.nodes, token_file).await?),
                Some(false) | None => None,
            };
            Ok(Meeting { address: join_host_port(&at), run: id.clone(), own, node: node()? })
        }
        Rendezvous::Static { at, rank, id } => {
            let all = Nodes { min: options.nodes.max, max: options.nodes.max };
            let own = match rank {
                0 => Some(OwnMaster::start_for_all(options, id, at, all, token_file).await?),
                1.. => None,
            };
            // A first world is in the order of the names.
            let node = (format!("rank-{rank}").into(), life());
            Ok(Meeting { address: join_host_port(at), run: id.clone(), own, node })
        }
    }
}

/// What the command line requests of a master that is not this launch's own. The launcher warns where the master differs.
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

/// How long a node waits for a world. A master is started again when it is lost; a node that serves, as the first of a
/// static rendezvous does, may be gone for good, and is waited for as long as torchrun does.
fn join_timeout(options: &LaunchOptions) -> Option<Duration> {
    let a_node_serves = matches!(options.rendezvous, Rendezvous::Static { .. });
    options.rendezvous_conf.join_timeout.or(a_node_serves.then_some(TORCHRUN_JOINS_WITHIN))
}

async fn master_ends(own: &mut Option<OwnMaster>) -> anyhow::Error {
    match own {
        Some(own) => own.ended().await,
        None => std::future::pending().await,
    }
}

fn tell(over: &LaunchEnd) -> Exit {
    match over {
        LaunchEnd::Finished => Exit::Success,
        LaunchEnd::FinishedBefore => {
            output::note("the run had ended well before this node came; POST /api/retry to its master opens it again");
            Exit::Success
        }
        LaunchEnd::Closed { cause, report } => {
            if let Some(report) = report {
                output::note(&report.to_string());
            }
            output::note(&format!("error: the run is closed: {cause}"));
            Exit::Failure
        }
        LaunchEnd::Fenced(cause) => {
            output::note(&format!("error: {cause}; this node takes no part any more"));
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
                "error: there was no world for this node within the {seconds} s of join_timeout; it waited for \
                 {waited_for}"
            ));
            Exit::Infrastructure
        }
        LaunchEnd::Signal(signal) => {
            output::note(&format!("ended by {signal}"));
            Exit::Interrupted
        }
    }
}

/// The name of this node and which life of it this is: the pod's where there is one, else the machine's with the process,
/// because several may run on one machine. In containers that is no name of their own: there both may be the same, one
/// after the other or at once.
fn node(local_addr: Option<&str>) -> anyhow::Result<(Arc<str>, u64)> {
    let pod = std::env::var("POD_NAME").ok().filter(|name| !name.is_empty());
    if let Some(pod) = pod {
        return Ok((pod.into(), life()));
    }
    let host = match local_addr {
        Some(address) => address.to_owned(),
        None => {
            let name = nix::unistd::gethostname().context("the name of this host is not known; give --local-addr")?;
            name.to_string_lossy().into_owned()
        }
    };
    Ok((format!("{host}_{}", std::process::id()).into(), life()))
}

/// A number that is greater for whoever starts later.
fn life() -> u64 {
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

/// From here on these signals do not end the process but are passed on.
fn signals(wanted: &[ForwardedSignal]) -> anyhow::Result<Signals> {
    let (sender, signals) = launch::signals();
    for name in wanted {
        let which: Signal = name.as_str().parse().context("an unknown signal")?;
        let mut stream = signal(SignalKind::from_raw(which as i32)).context("signals cannot be watched")?;
        let sender = sender.clone();
        tokio::spawn(async move {
            while stream.recv().await.is_some() {
                sender.send(which);
            }
        });
    }
    Ok(signals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_launcher_has_a_later_life_than_those_before_it() {
        // In a container each is process 1 of a host that may be called like all others.
        let [(name, earlier), (again, later)] = [(); 2].map(|()| {
            std::thread::sleep(Duration::from_millis(1));
            node(Some("host")).unwrap()
        });
        assert_eq!(name, again);
        assert!(earlier < later, "{earlier} {later}");
    }
}
