//! The background process that owns the cluster between `up` and `down`.
//!
//! The cluster lives as long as its state file: `down` removes the file and waits for the lock. No command therefore
//! signals a process id that the kernel may have reused, and a wiped cache folder also ends the cluster.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use flexor_testbed::Cluster;

use super::nodes::NodeArgs;
use super::state::{ClusterFiles, ClusterState};
use super::tutorials;

/// The line that the holder prints when the cluster is usable.
const READY: &str = "ready";
/// How often the holder checks whether it should end, and `down` whether it has.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
const END_DEADLINE: Duration = Duration::from_secs(30);
/// How much of its log is shown when it did not start.
const LOG_LINES: usize = 40;

/// Starts a holder in the background and waits until the cluster is ready.
pub(super) fn start(files: &ClusterFiles, nodes: &NodeArgs) -> Result<()> {
    let log = File::create(files.log()).with_context(|| format!("cannot make {}", files.log().display()))?;
    let mut holder = Command::new(std::env::current_exe()?)
        .args(["cluster", "hold", "--name", &files.name().to_string()])
        .args(nodes.to_args())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        // A Ctrl-C in the terminal that it was started from is not meant for it.
        .process_group(0)
        .spawn()
        .context("cannot start the process that holds the cluster")?;
    // It may say what it builds before it is ready.
    let said = holder.stdout.take().map(|stdout| BufReader::new(stdout).lines().map_while(Result::ok));
    if said.is_some_and(|mut lines| lines.any(|line| line == READY)) {
        return Ok(());
    }
    let status = holder.wait()?;
    let log = fs::read_to_string(files.log()).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    let end = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n");
    bail!("the cluster did not start ({status})\n{end}");
}

/// Asks the holder to end and waits until it has.
pub(super) fn end(files: &ClusterFiles) -> Result<()> {
    fs::remove_file(files.state()).context("the cluster is still starting; try again in a few seconds")?;
    let started = Instant::now();
    while files.is_held()? {
        if started.elapsed() > END_DEADLINE {
            bail!("the cluster is still ending after {END_DEADLINE:?}; see {}", files.log().display());
        }
        sleep(LOOK_INTERVAL);
    }
    Ok(())
}

/// Owns a cluster until its state file is removed.
pub(super) fn hold(files: &ClusterFiles, nodes: &NodeArgs) -> Result<()> {
    let lock = files.lock_file()?;
    lock.try_lock().context("another process holds the cluster")?;
    // A killed holder leaves its state behind; it has no owner any more.
    let _ = fs::remove_file(files.state());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let cluster = runtime.block_on(Cluster::start(nodes.config()?))?;
    if nodes.are_for_tutorials() {
        tutorials::add_images(&cluster)?;
    }
    files.write(&ClusterState::of(&cluster)?)?;
    println!("{READY}");
    while files.state().exists() {
        sleep(LOOK_INTERVAL);
    }
    // First the cluster, then the lock: a process that waits for the lock may rely on the end of the cluster.
    drop(cluster);
    drop(lock);
    Ok(())
}
