//! The network and mount namespaces of one node, held open by a small process in the cluster's process-id namespace.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    path::Path,
};

use anyhow::{Context as _, bail};

use crate::keeper::{RunningProgram, Sandbox};

const SCRIPT: &str = include_str!("namespaces.sh");

/// Makes the namespaces of the node with this folder. The process that holds them ends with the cluster.
pub(super) fn create(cluster: &Sandbox, folder: &Path) -> anyhow::Result<(RunningProgram, Sandbox)> {
    let (reader, writer) = std::io::pipe().context("make a pipe")?;
    let mut command = cluster.owned_command("unshare".as_ref());
    command
        .args(["--mount", "--net", "sh", "-c", SCRIPT, "flexor-testbed-node"])
        .arg(folder)
        .stdout(writer.try_clone()?)
        .stderr(writer);
    let holder = RunningProgram::spawn(cluster, &mut command).context("start nsenter; install util-linux")?;
    // Its copies of the pipe would keep the reader waiting for ever.
    drop(command);
    let mut reader = BufReader::new(reader);
    let mut line = String::new();
    reader.read_line(&mut line).context("read from the holder of a node's namespaces")?;
    if line != "up\n" {
        reader.read_to_string(&mut line)?;
        bail!("no namespaces for a node: {}", line.trim());
    }
    let pid = holder.pid().context("find the holder of a node's namespaces in /proc")?;
    let sandbox = Sandbox::namespaces(pid)?;
    Ok((holder, sandbox))
}
