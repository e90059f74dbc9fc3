//! A network namespace for the race with nothing but loopback.
//!
//! Torch's server queries the DNS for the name of every client that it accepts, and waits for the answer. Without a DNS
//! server the query fails at once, so the race measures the server and not the machine's DNS.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::Uid;

/// Moves this process, and all it starts from here on, into a network with loopback alone.
pub(super) fn leave_for_loopback() -> Result<()> {
    let user = Uid::effective();
    if user.is_root() {
        unshare(CloneFlags::CLONE_NEWNET).context("cannot make a network namespace")?;
    } else {
        let both = CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET;
        unshare(both).context("cannot make a user and network namespace; run as root")?;
        fs::write("/proc/self/uid_map", format!("0 {user} 1")).context("cannot become root of the namespace")?;
    }
    let up = Command::new("ip").args(["link", "set", "lo", "up"]).status();
    ensure!(up.context("cannot start ip; install iproute2")?.success(), "cannot bring up loopback");
    Ok(())
}
