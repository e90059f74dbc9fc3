//! Ownership of a cluster's processes: where they run, and the guarantee that they end with their owner.
//!
//! Each cluster has a *keeper*, a small shell whose standard input is a pipe, the life line. Only the owner process
//! holds the other end. When the owner ends in any way (drop, panic, Ctrl-C, kill -9), the kernel closes the pipe. The
//! keeper then ends all processes of the cluster and removes its folder.
//!
//! As root the processes run in their own network, mount and process-id [namespaces](Sandbox::Namespaces); the end of
//! the first process in there ends all. Otherwise they run on [loopback](Sandbox::Loopback) in a process group that the
//! keeper kills. This module knows nothing of Kubernetes.

pub(crate) mod cgroups;
mod folder;
pub(crate) mod process_table;
mod sandbox;

use std::{
    io::{BufRead as _, BufReader},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};

pub(crate) use self::sandbox::{RunningProgram, Sandbox};

/// How long the owner waits for the end of a cluster; the keeper continues without it.
const END_DEADLINE: Duration = Duration::from_secs(20);

/// `cat` waits on the life line; then the shell kills the group and removes the folder.
const LOOPBACK_KEEPER: &str = r#"echo up; cat; kill -s KILL -- "-$2" 2>/dev/null; rm -rf -- "$1""#;

/// The first process of the namespaces is a shell: when it ends, the kernel ends all others in there. It waits for
/// `cat` at the life line and meanwhile reaps orphans, such as the shims of containers. Real nodes leave cgroups, which
/// have the name of the folder; nothing is in them by then.
const NAMESPACE_KEEPER: &str = r#"
if command -v ip >/dev/null; then
    unshare --net --mount --pid --fork --kill-child --mount-proc sh -c '
        ip link set lo up || exit
        exec 3<&0
        cat <&3 3<&- >/dev/null &
        exec 3<&-
        echo up
        wait $!' 2>&1
else
    echo 'the program `ip` is missing; install the package iproute2'
fi
for group in /sys/fs/cgroup/"${1##*/}" /sys/fs/cgroup/*/"${1##*/}"; do
    if test -d "$group"; then find "$group" -depth -type d -exec rmdir -- {} +; fi
done
rm -rf -- "$1""#;

/// How far a cluster is kept away from the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Isolation {
    /// Namespaces as root where the system allows them, else loopback.
    WherePossible,
    /// Namespaces or nothing.
    Required,
    /// Loopback.
    None,
}

/// Owns a sandbox whose processes end with their owner.
#[derive(Debug)]
pub(crate) struct Keeper {
    folder: PathBuf,
    sandbox: Sandbox,
    keeper: Child,
    /// On loopback, the process that the group is named after.
    group_leader: Option<Child>,
}

impl Keeper {
    /// Makes a folder and a sandbox.
    pub(crate) fn start(isolation: Isolation) -> anyhow::Result<Self> {
        let parent = std::path::absolute(std::env::temp_dir()).context("find the folder for temporary files")?;
        folder::sweep(&parent);
        match isolation {
            Isolation::Required => return in_namespaces(folder::create(&parent)?),
            Isolation::WherePossible if nix::unistd::geteuid().is_root() => {
                match in_namespaces(folder::create(&parent)?) {
                    Ok(keeper) => return Ok(keeper),
                    Err(error) => {
                        eprintln!("no namespaces for this cluster ({error:#}); it runs on the host's loopback instead");
                    }
                }
            }
            Isolation::WherePossible | Isolation::None => {}
        }
        on_loopback(folder::create(&parent)?)
    }

    /// The cluster's folder, removed at the end.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where the processes live.
    pub(crate) fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // Dropping the standard input closes the life line.
        drop(self.keeper.stdin.take());
        let ended = wait_until(END_DEADLINE, || matches!(self.keeper.try_wait(), Ok(Some(_))));
        if let Some(leader) = &mut self.group_leader {
            let _ = leader.kill().and_then(|()| leader.wait());
        }
        if !ended {
            eprintln!("the cluster in {} is still ending; it will go on by itself", self.folder.display());
        }
    }
}

fn in_namespaces(folder: PathBuf) -> anyhow::Result<Keeper> {
    let keeper = spawn_keeper(NAMESPACE_KEEPER, &folder, None)?;
    // The keeper's shell waits for `unshare`, which waits for the first process of the namespaces.
    let init = process_table::child_of(keeper.id())
        .and_then(process_table::child_of)
        .context("find the first process of the new namespaces in /proc")?;
    let sandbox = Sandbox::namespaces(init)?;
    Ok(Keeper { folder, sandbox, keeper, group_leader: None })
}

fn on_loopback(folder: PathBuf) -> anyhow::Result<Keeper> {
    // It reads from a pipe of its own, so it cannot outlive the owner even if the keeper never starts.
    let leader = Command::new("cat")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .process_group(0)
        .spawn()
        .context("start `cat`")?;
    let group = i32::try_from(leader.id()).context("a process id")?;
    let keeper = spawn_keeper(LOOPBACK_KEEPER, &folder, Some(group))?;
    let sandbox = Sandbox::Loopback { group };
    Ok(Keeper { folder, sandbox, keeper, group_leader: Some(leader) })
}

/// Starts a keeper's script and waits until it prints `up`; any other output is the reason of its failure.
fn spawn_keeper(script: &str, folder: &Path, group: Option<i32>) -> anyhow::Result<Child> {
    let mut keeper = Command::new("sh")
        .args(["-c", script, "flexor-testbed-keeper"])
        .arg(folder)
        .args(group.map(|group| group.to_string()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        // A Ctrl-C on the terminal must reach the owner only; the keeper acts on the owner's end.
        .process_group(0)
        .spawn()
        .context("start the keeper's shell")?;
    let mut line = String::new();
    if let Some(stdout) = keeper.stdout.take() {
        BufReader::new(stdout).read_line(&mut line).context("read from the keeper")?;
    }
    if line.trim() == "up" {
        return Ok(keeper);
    }
    keeper.wait().context("wait for the keeper")?;
    match line.trim() {
        "" => bail!("the keeper's shell ended without a word"),
        reason => bail!("{reason}"),
    }
}

/// Polls until `done` or the deadline; for the ends of processes, which have no wait with a deadline.
pub(crate) fn wait_until(deadline: Duration, mut done: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while !done() {
        if start.elapsed() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}
