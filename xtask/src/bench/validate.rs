//! How long a user waits for a verdict on the example manifests: `flexor validate`, which needs no cluster, against
//! kubectl's server-side dry run on a cluster with our definitions installed.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use flexor_testbed::{Cluster, ClusterConfig};

use super::row::Row;
use crate::compile;
use crate::tree::project_root;

/// Slower than asking a server would be a reason not to use it.
const TARGET: f64 = 1.0;

pub(super) fn run(repeats: u32) -> Result<Vec<Row>> {
    let root = project_root()?;
    let timed = |command| timed(&root, command);
    let flexor = compile::flexor(&root, "release")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start tokio")?;
    let cluster = runtime.block_on(Cluster::start(ClusterConfig::default()))?;
    // The overlays that the examples are written for: their kinds and their namespaces.
    let dialects: BTreeSet<_> = flexor_dialects::crds().into_iter().map(|(dialect, _)| dialect).collect();
    for dialect in dialects {
        timed(cluster.kubectl(["apply", "-k", &format!("deploy/{dialect}")]))?;
    }
    timed(cluster.kubectl(["wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"]))?;

    let ours = || {
        let mut command = Command::new(&flexor);
        command.args(["validate", "examples"]);
        timed(command)
    };
    let peer = || timed(cluster.kubectl(["apply", "--dry-run=server", "--recursive", "-f", "examples"]));
    // The first round fills caches on both sides and shows whether both work at all.
    ours()?;
    peer()?;
    let (mut our_times, mut peer_times) = (Vec::new(), Vec::new());
    for _ in 0..repeats {
        our_times.push(ours()?);
        peer_times.push(peer()?);
    }
    let metric = "time to check examples/";
    Ok(vec![Row::seconds(metric, &our_times, "kubectl --dry-run=server", &peer_times, TARGET)?])
}

/// Runs a command to its end in the root folder and returns the seconds it took.
fn timed(root: &Path, mut command: Command) -> Result<f64> {
    let started = Instant::now();
    let output = command.current_dir(root).output().with_context(|| format!("cannot start {command:?}"))?;
    let seconds = started.elapsed().as_secs_f64();
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} ended with {}: {}", output.status, complaint.trim());
    Ok(seconds)
}
