//! `cargo xtask cluster`: a Kubernetes cluster to experiment with, on this machine.
//!
//! It is the cluster of the tests, owned by a background process ([`holder`]) instead of a test. A small file
//! ([`state`]) holds what the other commands need. [`nodes`] are fake or, as root, real; [`images`] fills real ones.

mod holder;
mod images;
mod name;
mod nodes;
mod state;
mod tutorials;

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};

use self::name::ClusterName;
use self::nodes::NodeArgs;
use self::state::{ClusterFiles, ClusterState};

/// Arguments of `cargo xtask cluster`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  cargo xtask cluster up --nodes 10 --node-gpu 8
  cargo xtask cluster shell             a shell with KUBECONFIG and kubectl set up
  eval \"$(cargo xtask cluster env)\"     the same for the shell that you are in
  cargo xtask cluster down
  cargo xtask cluster up --name second  one more beside it; so for down, env, shell and load

With real containers, as root:
  cargo xtask cluster up --real-nodes 3 --tutorials
  cargo xtask cluster shell             and in it the commands of docs/tutorials
or with images of your own:
  cargo xtask cluster up --real-nodes 2
  cargo xtask image                     the image of Flexor, as an archive
  cargo xtask cluster load target/image/flexor.tar
  cargo xtask cluster shell             and in it: kubectl apply -k deploy/dlrover

The API server, controllers, scheduler and etcd are real; the nodes of --nodes are played by kwok.
A pod that is scheduled there runs at once and for ever, unless its annotations say otherwise, for
instance testbed.flexor.dev/complete-after: 30s (also start-after, fail-after, oom-after,
evict-after, stop-after). Nodes of --real-nodes have a kubelet and containers. They are in a
network without a registry: every image comes from an archive with `load`. Fake nodes beside them
are tainted with testbed.flexor.dev/fake, so pods go to real ones.

As root the cluster has a network of its own, so programs that talk to it must be started inside,
as `shell` does.")]
pub(crate) struct ClusterArgs {
    /// Which cluster, where there are several
    #[arg(long, value_name = "NAME", global = true, default_value_t)]
    name: ClusterName,

    #[command(subcommand)]
    command: ClusterCommand,
}

#[derive(Subcommand)]
enum ClusterCommand {
    /// Start the cluster; the first time builds it, which takes some minutes
    Up(NodeArgs),
    /// Import the images of an archive into all real nodes
    Load(images::LoadArgs),
    /// End the cluster and remove all that it wrote
    Down,
    /// Print the lines that set up a shell for the cluster
    Env,
    /// Open a shell that is set up for the cluster
    Shell,
    /// Keep the cluster in this process (what `up` starts in the background)
    #[command(hide = true)]
    Hold(NodeArgs),
}

pub(crate) fn run(args: ClusterArgs) -> Result<()> {
    let files = ClusterFiles::locate(args.name)?;
    match args.command {
        ClusterCommand::Up(nodes) => up(&files, &nodes),
        ClusterCommand::Load(archive) => images::load(&running(&files)?, &archive),
        ClusterCommand::Down => down(&files),
        ClusterCommand::Env => running(&files).map(|state| print!("{}", state.shell_lines())),
        ClusterCommand::Shell => shell(&running(&files)?),
        ClusterCommand::Hold(nodes) => holder::hold(&files, &nodes),
    }
}

fn up(files: &ClusterFiles, nodes: &NodeArgs) -> Result<()> {
    let option = files.name().option();
    if files.is_held()? {
        // The state of one that is still starting cannot be read yet.
        let since = files.read().map_or_else(|error| format!(": {error:#}"), |state| format!(" {}", state.origin()));
        bail!(
            "the cluster '{}' is up already{since}\n\
             end it with `cargo xtask cluster down{option}`, or start another with `cargo xtask cluster up --name NAME`",
            files.name()
        );
    }
    // Here, where its progress can be seen, and not in the background.
    nodes.ensure_tools()?;
    flexor_testbed::Tools::ensure()?;
    holder::start(files, nodes)?;
    println!("The cluster is up with {}. Next:", nodes.in_words());
    if nodes.has_containers() && !nodes.are_for_tutorials() {
        println!("  cargo xtask cluster load{option} ARCHIVE      an image for its nodes, as of cargo xtask image");
    }
    println!(
        "  cargo xtask cluster shell{option}             a shell with KUBECONFIG and kubectl set up\n  \
         eval \"$(cargo xtask cluster env{option})\"     the same for this shell\n  \
         cargo xtask cluster down{option}"
    );
    Ok(())
}

fn down(files: &ClusterFiles) -> Result<()> {
    if !files.is_held()? {
        bail!("no cluster '{}' is up; {}", files.name(), files.others_up()?);
    }
    holder::end(files)?;
    println!("The cluster '{}' is gone.", files.name());
    Ok(())
}

fn shell(state: &ClusterState) -> Result<()> {
    let shell = std::env::var_os("SHELL").unwrap_or_else(|| "sh".into());
    eprintln!("In the cluster's network, with its kubectl. Leave with `exit`; the cluster stays.");
    let mut command = match state.namespace_pid {
        Some(pid) => {
            let mut command = Command::new("nsenter");
            command.args(["--target", &pid.to_string(), "--net", "--"]).arg(&shell);
            command
        }
        None => Command::new(&shell),
    };
    // Returns only when the shell could not be started.
    let error = command.envs(state.environment()).exec();
    Err(error).with_context(|| format!("cannot start {}", shell.display()))
}

fn running(files: &ClusterFiles) -> Result<ClusterState> {
    if !files.is_held()? {
        let option = files.name().option();
        let others = files.others_up()?;
        bail!("no cluster '{}' is up; {others}; start it with `cargo xtask cluster up{option}`", files.name());
    }
    files.read()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: ClusterArgs,
    }

    #[test]
    fn the_background_process_gets_the_same_nodes() {
        let cli = Cli::parse_from([
            "x",
            "up",
            "--nodes=5",
            "--node-cpu=18",
            "--node-memory=1Gi",
            "--node-gpu=8",
            "--real-nodes=2",
            "--tutorials",
        ]);
        let ClusterCommand::Up(nodes) = cli.args.command else {
            panic!("up is up");
        };
        let again = Cli::parse_from(["x", "hold"].map(String::from).into_iter().chain(nodes.to_args()));
        let ClusterCommand::Hold(again) = again.args.command else {
            panic!("hold is hold");
        };
        assert_eq!(nodes, again);
    }

    #[test]
    fn every_command_takes_a_name() {
        for command in ["up", "down", "env", "shell", "hold"] {
            assert_eq!(Cli::parse_from(["x", command]).args.name.to_string(), "default");
            assert_eq!(Cli::parse_from(["x", command, "--name", "b-2"]).args.name.to_string(), "b-2");
        }
        assert_eq!(Cli::parse_from(["x", "load", "a.tar", "--name", "b-2"]).args.name.to_string(), "b-2");
        assert!(Cli::try_parse_from(["x", "up", "--name", "../b"]).is_err());
    }
}
